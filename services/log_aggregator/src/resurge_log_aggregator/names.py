"""Where files go: the names that users of the reference know, and nothing outside the roots that are allowed. Pure."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from resurge_log_aggregator.core.model import FIRST_ATTEMPT, LogKey, LogKind


class BadPath(ValueError):
    """A path that no log may go to; the sentence says why and what would be right."""


def application_path(prefix: Path, key: LogKey) -> Path:
    """`<prefix without ending>_cycle<N><ending or .log>`; a later attempt has its number before the cycle's."""
    assert key.kind is LogKind.APPLICATION, "a launcher's log has its own name"
    attempt = f"_attempt{key.attempt}" if key.attempt > FIRST_ATTEMPT else ""
    return prefix.with_name(f"{prefix.stem}{attempt}_cycle{key.cycle}{prefix.suffix or '.log'}")


def application_key(prefix: Path, path: Path) -> LogKey | None:
    """The file of a job's cycle that lies at this path; None for another one."""
    ending = prefix.suffix or ".log"
    if path.parent != prefix.parent or not path.name.startswith(prefix.stem) or not path.name.endswith(ending):
        return None
    attempt, _, cycle = path.name[len(prefix.stem) : -len(ending)].rpartition("_cycle")
    number = attempt.removeprefix("_attempt") if attempt else str(FIRST_ATTEMPT)
    if not (cycle.isdecimal() and number.isdecimal()):
        return None
    key = LogKey(LogKind.APPLICATION, int(number), int(cycle))
    return key if application_path(prefix, key) == path else None


def confined(path: str, roots: tuple[Path, ...]) -> Path:
    """The path with all links followed, if it lies in one of the roots. Raises BadPath."""
    if not path or "\0" in path or not PurePosixPath(path).is_absolute():
        raise BadPath(f"{path!r} is not an absolute path")
    real = Path(path).resolve()
    if real.name.startswith("."):
        raise BadPath(f"{path} is a hidden file, as the indexes of logs are: name another one")
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        raise BadPath(f"{path} is outside the allowed roots: {', '.join(str(root) for root in roots) or 'none'}")
    return real
