"""The files of cycle records: `<dir>/<job>/<attempt>/cycle_<N>.json`, and `current` beside them. Decides nothing.

A record is written whole beside its place, synced, and put there in one step; so is the link: a reader sees an older
record or this one, never a part. One process writes for a job. A record of another start that has the same numbers is
put aside, never overwritten.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from resurge_libs.obs.cycle_record import BadRecord, CycleRecord, as_json, from_json

CURRENT = "current"
NUMBER_PATTERN = "cycle_*.json"
MAX_BYTES = 256 * 1024 * 1024
"""Of one record that is read: a hundred thousand nodes of eight workers take about 100 MiB."""


def attempt_dir(root: Path, job: str, attempt: int) -> Path:
    """The directory of one launch of a job. Raises ValueError for a job whose name is no file's name."""
    if job in ("", ".", "..") or "/" in job:
        raise ValueError(f"the job id {job!r} is no name for a directory")
    return root / job / str(attempt)


def record_path(root: Path, job: str, attempt: int, cycle: int) -> Path:
    """Where the record of a cycle is, or will be."""
    return attempt_dir(root, job, attempt) / f"cycle_{cycle}.json"


def current_path(root: Path, job: str, attempt: int) -> Path:
    """The link to the newest cycle's record of an attempt."""
    return attempt_dir(root, job, attempt) / CURRENT


def write_record(path: Path, record: CycleRecord) -> None:
    """Put the record at its path in one step. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps(as_json(record))  # as one text json has a fast encoder
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def point_current(path: Path) -> None:
    """Let `current` name this record, in one step. Raises OSError."""
    temporary = path.with_name(f".{CURRENT}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(path.name)
    temporary.replace(path.with_name(CURRENT))


def put_aside(path: Path) -> Path:
    """Rename a record of another start, to the first free name. Raises OSError."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.earlier-{number}.json")).exists():
        number += 1
    path.replace(aside)
    return aside


def keep_newest(root: Path, job: str, bytes_max: int) -> None:
    """Remove the oldest records of a job beyond so many bytes; the newest stays whatever its size. Raises OSError."""
    found = [(path.stat(), path) for path in (root / job).glob(f"*/{NUMBER_PATTERN}")]
    found.sort(key=lambda item: item[0].st_mtime_ns, reverse=True)
    kept = 0
    for place, (status, path) in enumerate(found):
        kept += status.st_size
        if place > 0 and kept > bytes_max:
            path.unlink()


def read_record(path: Path) -> CycleRecord:
    """The record at a path. Raises OSError, or BadRecord where the file holds none."""
    with path.open("rb") as file:
        text = file.read(MAX_BYTES)
    try:
        return from_json(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"is no JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """One file: its record, or why it has none."""

    path: Path
    record: CycleRecord | None
    problem: str = ""


def read_all(root: Path, job: str | None = None) -> Iterator[FoundRecord]:
    """Every record below a root, of one job or of all; files that hold none are told, not skipped."""
    for directory in sorted(root.iterdir()) if job is None else [root / job]:
        for path in sorted(directory.glob(f"*/{NUMBER_PATTERN}")):
            try:
                yield FoundRecord(path, read_record(path))
            except BadRecord as error:
                yield FoundRecord(path, None, str(error))
            except OSError as error:
                yield FoundRecord(path, None, error.strerror or str(error))


def log_path(prefix: str, attempt: int, cycle: int) -> str:
    """Of the file with all that a cycle's workers printed: `<prefix without ending>_cycle<N><ending or .log>`."""
    path = Path(prefix)
    again = f"_attempt{attempt}" if attempt > 1 else ""
    return str(path.with_name(f"{path.stem}{again}_cycle{cycle}{path.suffix or '.log'}"))
