"""The record of one cycle, for people and for tools beside the job: who ran where, since when, and how it ended.

Values and their JSON form, which docs/records.md describes. Reads and writes no file. A field that this release does
not know is kept out; one that is missing is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from resurge_libs.core.host_list import BadHostList, compressed, expanded

STAMP_RESOLUTION_S = 0.001
SCHEMA = "resurge.cycle/1"
"""Name and version of the form: the number rises when a field changes its meaning or goes, not when one comes."""


class BadRecord(Exception):
    """Text that is no record of a cycle."""


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Where one worker runs."""

    rank: int
    node: str
    host: str
    local_rank: int
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class NodePlace:
    """One active node of a cycle."""

    node: str
    host: str
    group_rank: int
    log_dir: str = ""
    """Directory on that node with the output of its workers, one directory for each rank; empty where not known."""
    log_file: str = ""
    """File for all nodes that it goes to instead; empty without --ft-per-cycle-applog-prefix."""


@dataclass(frozen=True, slots=True)
class CycleEnd:
    """What ended a cycle."""

    incident: str = ""
    """Empty where no fault ended it."""
    reason: str = ""
    sentence: str = ""
    culprit: str = ""
    """`node` or `node/rank` of the first fault."""
    verdict: str = ""
    """Empty while there is none."""
    verdict_sentence: str = ""
    decided_by: str = ""
    exit_code: int | None = None
    """Of the job, where the cycle was its last one."""
    checkpoint_iteration: int | None = None
    """What the marker of the newest completed checkpoint said then."""
    reached_iteration: int | None = None
    """The newest step that a worker of the reading node had committed."""
    progress_unknown: str = ""
    """Why the check of its progress was skipped."""


@dataclass(frozen=True, slots=True)
class RankReplaced:
    """A rank that was lost, and in whose place a fresh process was granted: the cycle went on."""

    rank: int
    node: str
    iteration: int
    """The one that it was to take part in."""
    reason: str
    sentence: str
    lost: float
    lost_pid: int
    back: float | None = None
    """When the fresh process took part; None where it did not."""
    pid: int | None = None
    given_up: str = ""
    """Why it did not."""


@dataclass(frozen=True, slots=True)
class CycleRecord:
    """One cycle of one attempt of a job. Times are wall-clock seconds of the service."""

    job: str
    attempt: int
    cycle: int
    generation: int
    start: float
    end: float | None = None
    recovery_of: str = ""
    """The incident that this cycle recovers from; empty for a first start."""
    restored_iteration: int | None = None
    """The step from which training went on in this cycle: the least that a rank restored."""
    ended_by: CycleEnd = field(default_factory=CycleEnd)
    nodes: tuple[NodePlace, ...] = ()
    """In the order of group ranks."""
    standby_hosts: tuple[str, ...] = ()
    ranks: tuple[RankPlace, ...] = ()
    replaced: tuple[RankReplaced, ...] = ()
    """Oldest first."""

    @property
    def log_place(self) -> str:
        """The file, or else the directory, that all nodes name, if they name one alike."""
        told = {node.log_file or node.log_dir for node in self.nodes}
        return told.pop() if len(told) == 1 else ""

    def is_of_same_start(self, other: CycleRecord) -> bool:
        """Whether both tell of one start, and not of two that happen to have the same numbers."""
        mine = (self.job, self.attempt, self.cycle, self.generation)
        same = mine == (other.job, other.attempt, other.cycle, other.generation)
        return same and abs(self.start - other.start) < 2 * STAMP_RESOLUTION_S


def as_json(record: CycleRecord) -> dict[str, Any]:
    """The record as its file holds it."""
    end = record.ended_by
    return {
        "schema": SCHEMA,
        "job_id": record.job,
        "attempt_index": record.attempt,
        "cycle_number": record.cycle,
        "generation": record.generation,
        "cycle_start_time": _stamp(record.start),
        "cycle_end_time": _stamp(record.end) if record.end is not None else "",
        "cycle_log_file": record.log_place,
        "active_nodes": compressed(node.host for node in record.nodes),
        "standby_nodes": compressed(record.standby_hosts),
        "recovery_of": record.recovery_of or None,
        "restored_iteration": record.restored_iteration,
        "incident": end.incident or None,
        "reason": end.reason or None,
        "sentence": end.sentence or None,
        "culprit": end.culprit or None,
        "verdict": end.verdict or None,
        "verdict_sentence": end.verdict_sentence or None,
        "decided_by": end.decided_by or None,
        "exit_code": end.exit_code,
        "checkpoint_iteration": end.checkpoint_iteration,
        "reached_iteration": end.reached_iteration,
        "progress_unknown": end.progress_unknown or None,
        "nodes": [
            {
                "node": node.node,
                "host": node.host,
                "group_rank": node.group_rank,
                "log_dir": node.log_dir or None,
                "log_file": node.log_file or None,
            }
            for node in record.nodes
        ],
        "ranks": [
            {"rank": at.rank, "node": at.node, "host": at.host, "local_rank": at.local_rank, "pid": at.pid}
            for at in record.ranks
        ],
        "replaced": [
            {
                "rank": one.rank,
                "node": one.node,
                "iteration": one.iteration,
                "reason": one.reason,
                "sentence": one.sentence,
                "lost_time": _stamp(one.lost),
                "lost_pid": one.lost_pid,
                "back_time": _stamp(one.back) if one.back is not None else None,
                "pid": one.pid,
                "given_up": one.given_up or None,
            }
            for one in record.replaced
        ],
    }


def from_json(found: Any) -> CycleRecord:
    """The record in a file's JSON. Raises BadRecord for anything else, and for a version that is not this one."""
    if not isinstance(found, Mapping):
        raise BadRecord("is no JSON object")
    if found.get("schema") != SCHEMA:
        raise BadRecord(f"has schema {found.get('schema')!r}; this release reads {SCHEMA}")
    try:
        return _parsed(found)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadRecord(f"does not have the fields of {SCHEMA}: {error!r}") from None


def _parsed(found: Mapping[str, Any]) -> CycleRecord:
    def text(name: str) -> str:
        return str(found.get(name) or "")

    def number(name: str) -> int | None:
        return None if found.get(name) is None else int(found[name])

    try:
        standby = expanded(text("standby_nodes"))
    except BadHostList as error:
        raise ValueError(str(error)) from None
    return CycleRecord(
        job=str(found["job_id"]),
        attempt=int(found["attempt_index"]),
        cycle=int(found["cycle_number"]),
        generation=int(found["generation"]),
        start=_seconds(found["cycle_start_time"]),
        end=_seconds(found["cycle_end_time"]) if found.get("cycle_end_time") else None,
        recovery_of=text("recovery_of"),
        restored_iteration=number("restored_iteration"),
        ended_by=CycleEnd(
            incident=text("incident"),
            reason=text("reason"),
            sentence=text("sentence"),
            culprit=text("culprit"),
            verdict=text("verdict"),
            verdict_sentence=text("verdict_sentence"),
            decided_by=text("decided_by"),
            exit_code=number("exit_code"),
            checkpoint_iteration=number("checkpoint_iteration"),
            reached_iteration=number("reached_iteration"),
            progress_unknown=text("progress_unknown"),
        ),
        nodes=tuple(
            NodePlace(
                str(at["node"]),
                str(at["host"]),
                int(at["group_rank"]),
                str(at.get("log_dir") or ""),
                str(at.get("log_file") or ""),
            )
            for at in found["nodes"]
        ),
        standby_hosts=standby,
        ranks=tuple(
            RankPlace(
                int(at["rank"]),
                str(at["node"]),
                str(at["host"]),
                int(at["local_rank"]),
                None if at.get("pid") is None else int(at["pid"]),
            )
            for at in found["ranks"]
        ),
        replaced=tuple(_replaced(one) for one in found.get("replaced") or ()),
    )


def _replaced(found: Mapping[str, Any]) -> RankReplaced:
    """One of a record; those of earlier releases have none."""
    return RankReplaced(
        rank=int(found["rank"]),
        node=str(found["node"]),
        iteration=int(found["iteration"]),
        reason=str(found["reason"]),
        sentence=str(found["sentence"]),
        lost=_seconds(found["lost_time"]),
        lost_pid=int(found["lost_pid"]),
        back=_seconds(found["back_time"]) if found.get("back_time") else None,
        pid=None if found.get("pid") is None else int(found["pid"]),
        given_up=str(found.get("given_up") or ""),
    )


def _stamp(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
