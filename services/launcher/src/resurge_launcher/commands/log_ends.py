"""The ends of logs that a cycle left on this machine: its workers' output, and the launchers' and services' own lines.

Looks only; a file that is not here, or cannot be read, is told with its reason. Reads a bounded part of each.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path

from resurge_launcher.team import read_error
from resurge_launcher.views.diagnosis import Excerpt
from resurge_libs.obs.cycle_record import CycleRecord

TAIL_BYTES = 256 * 1024
OWN_BYTES = 8 * 1024 * 1024
"""Of a launcher's or service's own log: what is searched for the lines about a cycle's end."""
LINE_CHARACTERS = 500
BEFORE_S, AFTER_S = 30.0, 10.0
"""Around a cycle's end: which lines of a log tell of it."""
START_S = 0.1
"""Of the next cycle's start, what belongs to this one's end."""
RANKS_MAX = 4
DAY_S = 86_400
_OWN_LINE = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{3}))? resurge ")
_JSON_LINE = re.compile(r'^\{"time": ([0-9.]+),')


def application_ends(record: CycleRecord, lines: int) -> tuple[Excerpt, ...]:
    """The last output of the workers that matter: the culprit, or all of a culprit node, or rank 0."""
    return tuple(_application_end(record, rank, lines) for rank in _ranks_that_matter(record))


def _ranks_that_matter(record: CycleRecord) -> list[int]:
    node, slash, rank = record.ended_by.culprit.rpartition("/")
    if slash and rank.isdigit() and any(at.rank == int(rank) and at.node == node for at in record.ranks):
        return [int(rank)]
    of_node = [at.rank for at in record.ranks if at.node == record.ended_by.culprit]
    return of_node[:RANKS_MAX] or [at.rank for at in record.ranks[:1]]


def _application_end(record: CycleRecord, rank: int, lines: int) -> Excerpt:
    at = next(at for at in record.ranks if at.rank == rank)
    log_dir = next((node.log_dir for node in record.nodes if node.node == at.node), "")
    title = f"application log of rank {rank}"
    log_file = next((node.log_file for node in record.nodes if node.node == at.node), "")
    if log_file:
        error = read_error(Path(log_dir) / str(rank) / "error.json") if log_dir else ""
        shared = _of_shared(title, Path(log_file), rank, lines, error)
        if shared is not None:
            return shared
    if not log_dir:
        return Excerpt(title, why_not=f"{at.node} did not tell where its workers' output goes")
    directory = Path(log_dir) / str(rank)
    # what a launcher keeps as the last word of a failed worker comes first
    error = read_error(directory / "error.json")
    for name in ("stderr.log", "stdout.log"):
        try:
            text = _tail(directory / name, TAIL_BYTES)
        except OSError as error_found:
            why = f"{directory / name} on {at.host}: {error_found.strerror}"
            return Excerpt(title, why_not=f"{why}. Run this command there, or read the file on a shared file system")
        found = text.splitlines()[-lines:]
        if found:
            shown = [*(f"error file: {line}" for line in error.splitlines()), *found]
            return Excerpt(f"{title}, {directory / name}, last {len(found)} lines", _cut(shown))
    if error:
        return Excerpt(f"{title}, {directory / 'error.json'}", _cut(error.splitlines()))
    return Excerpt(f"{title}, {directory}", ("(the worker printed nothing)",))


def _of_shared(title: str, path: Path, rank: int, lines: int, error: str) -> Excerpt | None:
    """The last lines of one rank in the file of all; None where none is there: it may have gone where it else goes."""
    try:
        text = _tail(path, OWN_BYTES)
    except OSError as problem:
        why = f"{path}: {problem.strerror}"
        return Excerpt(title, why_not=f"{why}. Run this command where that path leads to the file of the job")
    of_rank = re.compile(rf" *{rank}: ")
    found = [line[prefix.end() :] for line in text.splitlines() if (prefix := of_rank.match(line)) is not None]
    if not found:
        return None
    shown = [*(f"error file: {line}" for line in error.splitlines()), *found[-lines:]]
    return Excerpt(f"{title}, {path}, last {len(found[-lines:])} lines", _cut(shown))


def own_end(title: str, path: Path, record: CycleRecord, down_s: float | None, lines: int) -> Excerpt:
    """What a launcher or a service said from the cycle's end to the next start; while it runs, what it said last."""
    try:
        told = _tail(path, OWN_BYTES).splitlines()
    except OSError as error:
        return Excerpt(title, why_not=f"{path}: {error.strerror}")
    if record.end is not None:
        after_s = AFTER_S if down_s is None else min(AFTER_S, down_s + START_S)
        told = [line for line in told if _is_about(line, record.end, after_s)]
    if not told:
        why = f"{path} has no line from {BEFORE_S:g} s before the cycle's end to {AFTER_S:g} s after it"
        return Excerpt(title, why_not=why)
    return Excerpt(f"{title}, {path}", _cut(told[-lines:]))


def _is_about(line: str, end: float, until_s: float) -> bool:
    """Whether a line was written near the end; lines carry the time of day alone, or as JSON the whole time."""
    as_json = _JSON_LINE.match(line)
    if as_json is not None:
        return -BEFORE_S <= float(as_json[1]) - end <= until_s
    found = _OWN_LINE.search(line)
    if found is None:
        return False
    here = time.localtime(end)
    of_day = here.tm_hour * 3600 + here.tm_min * 60 + here.tm_sec + end % 1
    written = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3]) + int(found[4] or 0) / 1000
    after_s = (written - of_day + DAY_S / 2) % DAY_S - DAY_S / 2
    return -BEFORE_S <= after_s <= until_s


def _tail(path: Path, limit_bytes: int) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - limit_bytes))
        return file.read().decode(errors="replace")


def _cut(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(_printable(line[:LINE_CHARACTERS]) for line in lines)


def _printable(line: str) -> str:
    return "".join(sign if sign.isprintable() or sign == "\t" else "?" for sign in line)
