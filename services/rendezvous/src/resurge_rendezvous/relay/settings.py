"""The relay's own settings. Decides nothing; the time limits come from the host's section `limits`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from annotated_types import Ge, Gt

from resurge_libs.config.settings import ServiceSettings


class RelaySettings(ServiceSettings):
    """Where the root is, and how what launchers say is put together."""

    SECTION: ClassVar[str] = "relay"

    root: Annotated[str, "Where rendezvous is: host:port or unix:/path."] = ""
    relay_name: Annotated[str, "Name of this relay in the root's log; its host and process without one."] = ""
    beat_wait_s: Annotated[float, Ge(0), "How long a beat may wait for others to travel with."] = 0.05
    max_launchers: Annotated[int, Gt(0), "Launchers that this relay carries; more are told to wait."] = 1_000
