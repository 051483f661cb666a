"""Rendezvous' own settings. Decides nothing; the time limits come from the host's section `limits`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Gt

from resurge_libs.config.settings import ServiceSettings


class RendezvousSettings(ServiceSettings):
    """What bounds this service besides the table of time limits."""

    SECTION: ClassVar[str] = "rendezvous"

    snapshot_every: Annotated[int, Gt(0), "Entries of the journal from one snapshot to the next."] = 1_000
    cycle_info_dir: Annotated[Path | None, "Directory of cycle records. Default: in the state directory."] = None
    exclusion_file: Annotated[Path | None, "File in which the excluded hosts are kept for a scheduler."] = None
    hello_limit_s: Annotated[float, Gt(0), "A stream whose launcher does not introduce itself is closed."] = 10.0
