"""The lines of a cycle from its file itself, where no log server is alive. Which file, the record of the cycle says."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from resurge_api.logs.v1 import logs_pb2
from resurge_launcher.usage import CommandFailed, UsageProblem
from resurge_libs.obs import cycle_files
from resurge_libs.obs.cycle_record import CycleRecord
from resurge_libs.rpc.records import CYCLES_NAME

_RANK = re.compile(rb" *(\d+): ")
PLACES_SHOWN = 4
BLOCK_BYTES = 1024 * 1024
NEEDS_SERVER = {"since": "--since", "follow": "-f", "launchers": "--launchers"}


def record_with_file(state_dir: Path, attempt: int | None, cycle: int | None) -> CycleRecord | None:
    """The record of the cycle that is meant, the last one unless named, where it names a file for all nodes."""
    found = _records(state_dir)
    fits = [
        record
        for record in found
        if attempt in (None, record.attempt) and cycle in (None, record.cycle) and _file_of(record)
    ]
    return max(fits, key=lambda record: (record.start, record.attempt, record.cycle), default=None)


def where_to_look(state_dir: Path) -> str:
    """What a person can do who has no log server: the files that there are, or the directories of the ranks' logs."""
    found = _records(state_dir)
    if any(_file_of(record) for record in found):
        return "Name it with --log-endpoint, or a cycle that has a file: resurge logs list shows those."
    why = "Without --ft-per-cycle-applog-prefix a cycle has no file"
    newest = max(found, key=lambda record: (record.start, record.attempt, record.cycle), default=None)
    nodes = [node for node in newest.nodes if node.log_dir] if newest is not None else []
    if not nodes:
        return (
            f"Name it with --log-endpoint. {why}: what each rank printed is in --log-dir, else under {state_dir}/logs."
        )
    places = list(dict.fromkeys(node.log_dir for node in nodes))
    shown = ", ".join(places[:PLACES_SHOWN]) + (" and others" if len(places) > PLACES_SHOWN else "")
    own = ", on each node that of its own ranks" if len(nodes) > 1 else ""
    return f"{why}: what each rank of the last one printed is in {shown}{own}."


def logs_in_files(state_dir: Path) -> list[logs_pb2.Log]:
    """The files that the records of cycles name, oldest first, as far as they can be read here."""
    found = []
    for record in sorted(_records(state_dir), key=lambda record: (record.start, record.attempt, record.cycle)):
        if path := _file_of(record):
            log = logs_pb2.Log(
                kind=logs_pb2.LOG_KIND_APPLICATION, attempt=record.attempt, cycle=record.cycle, path=path
            )
            with contextlib.suppress(OSError), open(path, "rb") as file:
                for block in iter(partial(file.read, BLOCK_BYTES), b""):
                    log.bytes, log.lines = log.bytes + len(block), log.lines + block.count(b"\n")
            found.append(log)
    return found


def _records(state_dir: Path) -> list[CycleRecord]:
    try:
        return [item.record for item in cycle_files.read_all(state_dir / CYCLES_NAME) if item.record is not None]
    except OSError:
        return []


def _file_of(record: CycleRecord) -> str:
    return next((node.log_file for node in record.nodes if node.log_file), "")


def lines_of(record: CycleRecord, wanted: dict[str, Any]) -> Iterator[tuple[int, bytes]]:
    """Rank and line, of those that are wanted. Raises UsageProblem, CommandFailed."""
    for name, flag in NEEDS_SERVER.items():
        if wanted[name]:
            problem = "needs a log server, and none is alive"
            raise UsageProblem(flag, problem, "Leave it out, or name a log server with --log-endpoint.")
    nodes = {at.rank: at.node for at in record.ranks}
    path = Path(_file_of(record))
    kept: Iterator[tuple[int, bytes]] = (
        (rank, line)
        for rank, line in _read(path)
        if (not wanted["ranks"] or rank in wanted["ranks"])
        and (not wanted["nodes"] or nodes.get(rank) in wanted["nodes"])
    )
    yield from deque(kept, maxlen=wanted["lines"]) if wanted["lines"] else kept


def _read(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every line with its rank; one without a rank belongs to the one before."""
    rank = -1
    try:
        with path.open("rb") as file:
            for line in file:
                found = _RANK.match(line)
                rank = int(found[1]) if found is not None else rank
                yield rank, line
    except OSError as error:
        raise CommandFailed(f"no log server is alive, and {path} cannot be read here: {error.strerror}") from None
