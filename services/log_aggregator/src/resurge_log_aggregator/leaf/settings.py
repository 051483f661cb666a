"""A leaf's settings. Decides nothing; the host reads the values."""

from __future__ import annotations

from typing import Annotated, ClassVar

from annotated_types import Ge, Gt

from resurge_libs.config.settings import ServiceSettings

MIB = 1024 * 1024


class LeafSettings(ServiceSettings):
    """Where the root is, and how much may wait for it here."""

    SECTION: ClassVar[str] = "log_leaf"

    log_root: Annotated[str, "Where the log server is that writes the files: host:port or unix:/path."] = ""
    leaf_name: Annotated[str, "Name of this leaf in the root's log; its host and process without one."] = ""
    leaf_queue_mib: Annotated[int, Gt(0), "Text that may wait here for the root; above it senders wait."] = 64
    leaf_queue_blocks: Annotated[int, Ge(64), "Blocks that may wait here for the root; above it senders wait."] = 16_384
    leaf_gather_s: Annotated[float, Ge(0), "How long a few lines wait for those of other nodes to travel with."] = 0.01
    leaf_nvrx_without_token: Annotated[
        bool, "Take lines of clients of NVIDIA's extension without the job's token: from whoever reaches the port."
    ] = False
    leaf_stop_limit_s: Annotated[float, Ge(0), "How long a graceful end waits for senders and the root."] = 60.0
