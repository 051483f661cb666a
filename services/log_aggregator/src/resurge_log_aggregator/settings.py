"""The log aggregator's settings. Decides nothing; the host reads the values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt

from resurge_libs.config.settings import ServiceSettings, UsageProblem
from resurge_log_aggregator.writer import SyncMode, WriterRules

MIB = 1024 * 1024


class LogSettings(ServiceSettings):
    """Which files are written, when a line counts as durable, and how much may wait for the disk."""

    SECTION: ClassVar[str] = "logs"

    applog_prefix: Annotated[str, "Absolute path; what workers print goes to <prefix>_cycle<N>.log."] = ""
    launcher_log: Annotated[str, "Absolute path of the file for what launchers log; none without it."] = ""
    sync: Annotated[
        SyncMode, "none: a line is acknowledged when the kernel has it; interval, ack: when the disk has it."
    ] = SyncMode.INTERVAL
    sync_interval_s: Annotated[float, Gt(0), "How often the disk is asked with sync = interval."] = 1.0
    queue_mib: Annotated[int, Gt(0), "Text that may wait for the disk; above it senders wait."] = 256
    window_mib: Annotated[int, Gt(0), "Text of one sender that may be under way unacknowledged."] = 32
    stop_limit_s: Annotated[float, Ge(0), "How long a graceful end waits for senders and the disk."] = 60.0

    nvrx_roots: Annotated[
        tuple[str, ...], "Folders that clients of NVIDIA's extension may write below, beside those of the paths above."
    ] = ()
    nvrx_without_token: Annotated[
        bool, "Take their lines without the job's token, which they do not have: from whoever reaches the port."
    ] = False

    def rules(self) -> WriterRules:
        """The settings as the writer takes them."""
        return WriterRules(self.sync, self.sync_interval_s, self.queue_mib * MIB)

    def prefix(self) -> Path | None:
        """Where application logs go. Raises UsageProblem for a path that is not absolute."""
        return _absolute("applog_prefix", self.applog_prefix)

    def launcher_path(self) -> Path | None:
        """Where launchers' log goes. Raises UsageProblem for a path that is not absolute."""
        return _absolute("launcher_log", self.launcher_log)

    def roots(self) -> tuple[Path, ...]:
        """Where clients of NVIDIA's extension may write. Raises UsageProblem for a path that is not absolute."""
        own = [path.parent for path in (self.prefix(), self.launcher_path()) if path is not None]
        more = [path for root in self.nvrx_roots if (path := _absolute("nvrx_roots", root)) is not None]
        return (*own, *more)


def _absolute(field: str, written: str) -> Path | None:
    if not written:
        return None
    path = Path(written)
    if not path.is_absolute() or not path.name:
        raise UsageProblem(
            f"logs.{field}: {written!r} is no absolute path of a file; give one, such as /logs/{path.name or 'app'}"
        )
    return path
