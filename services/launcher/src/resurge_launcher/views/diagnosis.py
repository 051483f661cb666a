"""All that is known of one cycle in one place: its end, its places, its logs. What is not known says so. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.views.cycles import UNKNOWN, CycleView
from resurge_launcher.views.model import duration, fault_place
from resurge_libs.core.host_list import compressed
from resurge_libs.obs.cycle_record import as_json

RANKS_SHOWN = 64
FAULTS_SHOWN = 16
_NS = 1e9
NO_CONDITIONS = "nothing judges devices in this release"
NO_DUMP = (
    "Logs are no core dump: they hold what the program printed, not its memory. docs/records.md says how to switch "
    "core files on."
)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The end of one log, or why there is none."""

    title: str
    lines: tuple[str, ...] = ()
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was gathered about a cycle."""

    cycle: CycleView
    following: CycleView | None
    recovery: rendezvous_pb2.Recovery | None
    """The record of the incident that ended it."""
    why_no_recovery: str
    application: tuple[Excerpt, ...]
    launcher: tuple[Excerpt, ...]


def faults_of(evidence: Evidence) -> list[policy_pb2.Fault]:
    """The faults of this cycle, first cause first: an incident of several rounds has those of others too."""
    if evidence.recovery is None:
        return []
    began = evidence.cycle.record.start
    until = evidence.following.record.start if evidence.following is not None else float("inf")
    told = list(evidence.recovery.faults or evidence.recovery.incident.faults)
    mine = [fault for fault in told if not fault.HasField("at") or began <= fault.at.ToNanoseconds() / _NS <= until]
    return sorted(mine, key=lambda fault: not fault.culprit)


def diagnosis_lines(evidence: Evidence) -> list[str]:
    """The story for a person."""
    return [
        *_cycle_lines(evidence),
        *_fault_lines(evidence),
        *_after_lines(evidence),
        *_progress_lines(evidence),
        _line("conditions", f"{UNKNOWN}: {NO_CONDITIONS}"),
        *_rank_lines(evidence),
        *(line for excerpt in (*evidence.application, *evidence.launcher) for line in _excerpt_lines(excerpt)),
        "",
        NO_DUMP,
    ]


def _cycle_lines(evidence: Evidence) -> list[str]:
    view, record = evidence.cycle, evidence.cycle.record
    until = f"until {_stamp(record.end)}, {duration(view.ran_s)}" if record.end and view.ran_s is not None else "runs"
    hosts = compressed(node.host for node in record.nodes)
    standby = compressed(record.standby_hosts)
    return [
        _line("cycle", f"{record.cycle} of attempt {record.attempt}, job {record.job}, generation {record.generation}"),
        _line("ran", f"from {_stamp(record.start)}, {until}"),
        _line("nodes", f"{hosts}, {len(record.ranks)} workers; standby: {standby or 'none'}"),
        _line("record", view.path),
    ]


def _fault_lines(evidence: Evidence) -> list[str]:
    end = evidence.cycle.record.ended_by
    if not end.incident:
        if not end.reason:
            return [_line("ended by", "nothing: it runs" if evidence.cycle.record.end is None else UNKNOWN)]
        return [_line("ended by", f"no fault: {end.reason}{f' ({end.sentence})' if end.sentence else ''}")]
    lines = [_line("incident", end.incident)]
    faults = faults_of(evidence)
    if not faults:
        first = f"{end.culprit or UNKNOWN}: {end.reason}{f' ({end.sentence})' if end.sentence else ''}"
        why = evidence.why_no_recovery or "its record tells of no fault of this cycle"
        return [*lines, _line("first fault", first), _line("cascade", f"{UNKNOWN}: {why}")]
    lines.append(_line("first fault", _told(faults[0])))
    cascade = faults[1:]
    if not cascade:
        lines.append(_line("cascade", "none: no other fault was seen"))
    for place, fault in enumerate(cascade[:FAULTS_SHOWN]):
        lines.append(_line("cascade" if place == 0 else "", f"{_later(faults[0], fault)} {_told(fault)}"))
    if len(cascade) > FAULTS_SHOWN:
        lines.append(_line("", f"and {len(cascade) - FAULTS_SHOWN} more; --json shows all"))
    return lines


def _told(fault: policy_pb2.Fault) -> str:
    said = f"{fault_place(fault)}: {fault.because.code}"
    said += f" ({fault.because.sentence})" if fault.because.sentence else ""
    step = f"last step {fault.last_step}" if fault.HasField("last_step") else f"last step {UNKNOWN}"
    return f"{said}, {step}" if fault.HasField("rank") else said


def _later(first: policy_pb2.Fault, fault: policy_pb2.Fault) -> str:
    if not (first.HasField("at") and fault.HasField("at")):
        return "at an unknown time,"
    return f"{(fault.at.ToNanoseconds() - first.at.ToNanoseconds()) / _NS:+.3f} s"


def _after_lines(evidence: Evidence) -> list[str]:
    record = evidence.cycle.record
    end = record.ended_by
    lines = []
    if end.incident:
        said = f"{end.verdict.lower().replace('_', ' ')} by {end.decided_by or UNKNOWN}: {end.verdict_sentence}"
        lines.append(_line("verdict", said if end.verdict else f"{UNKNOWN}: none was recorded"))
    if end.exit_code is not None:
        lines.append(_line("job ended", f"with exit code {end.exit_code}"))
    elif evidence.following is not None and evidence.cycle.down_s is not None:
        lines.append(_line("then", f"cycle {evidence.following.name} began {duration(evidence.cycle.down_s)} later"))
    elif record.end is not None:
        lines.append(_line("then", f"{UNKNOWN}: there is no record of a later cycle"))
    return lines


def _progress_lines(evidence: Evidence) -> list[str]:
    record, following = evidence.cycle.record, evidence.following
    end = record.ended_by
    steps = [fault.last_step for fault in faults_of(evidence) if fault.HasField("last_step")]
    steps += [] if end.reached_iteration is None else [end.reached_iteration]
    lines = [
        _line("began from", _step(record.restored_iteration)),
        _line("reached", f"step {max(steps)}" if steps else f"{UNKNOWN}: no worker that failed had reported a step"),
    ]
    if following is not None:
        lines.append(_line("then from", _step(following.record.restored_iteration)))
    known = end.checkpoint_iteration
    told = f"iteration {known} is the newest completed checkpoint" if known is not None else _why_no_marker(evidence)
    return [*lines, _line("marker", told)]


def _why_no_marker(evidence: Evidence) -> str:
    end = evidence.cycle.record.ended_by
    if end.progress_unknown:
        return f"{UNKNOWN}: {end.progress_unknown}"
    if not end.incident:
        return f"{UNKNOWN}: it is read when a fault ends a cycle"
    return f"{UNKNOWN}: none was read (--ft-checkpoint-iteration-file names one)"


def _step(number: int | None) -> str:
    return f"{UNKNOWN}: no rank reported a restored step" if number is None else f"step {number}"


def _rank_lines(evidence: Evidence) -> list[str]:
    ranks = evidence.cycle.record.ranks
    if not ranks:
        return [_line("ranks", UNKNOWN)]
    width = max(len(f"{at.node} ({at.host})" if at.node != at.host else at.host) for at in ranks[:RANKS_SHOWN])
    lines = []
    for place, at in enumerate(ranks[:RANKS_SHOWN]):
        where = f"{at.node} ({at.host})" if at.node != at.host else at.host
        pid = UNKNOWN if at.pid is None else str(at.pid)
        lines.append(
            _line("ranks" if place == 0 else "", f"{at.rank:>4}  {where:<{width}}  local {at.local_rank}, pid {pid}")
        )
    if len(ranks) > RANKS_SHOWN:
        lines.append(_line("", f"and {len(ranks) - RANKS_SHOWN} more; --json shows all"))
    return lines


def _excerpt_lines(excerpt: Excerpt) -> list[str]:
    if excerpt.why_not:
        return ["", f"{excerpt.title}: {UNKNOWN}: {excerpt.why_not}"]
    return ["", f"{excerpt.title}:", *(f"    {line}" for line in excerpt.lines)]


def diagnosis_json(evidence: Evidence) -> dict[str, Any]:
    """The same for programs; null where a thing is not known, and why under `unknown`."""
    view = evidence.cycle
    faults = faults_of(evidence)
    excerpts = (*evidence.application, *evidence.launcher)
    unknown = {excerpt.title: excerpt.why_not for excerpt in excerpts if excerpt.why_not}
    unknown["conditions"] = NO_CONDITIONS
    marker = view.record.ended_by.checkpoint_iteration
    if marker is None:
        unknown["marker"] = _why_no_marker(evidence).removeprefix(f"{UNKNOWN}: ")
    if evidence.why_no_recovery:
        unknown["cascade"] = evidence.why_no_recovery
    return {
        "cycle": {**as_json(view.record), "path": view.path, "ran_s": view.ran_s, "down_s": view.down_s},
        "next_cycle": evidence.following.name if evidence.following is not None else None,
        "next_restored_iteration": evidence.following.record.restored_iteration if evidence.following else None,
        "faults": [_fault_json(fault, place == 0) for place, fault in enumerate(faults)] if faults else None,
        "conditions": None,
        "marker": marker,
        "application_log": _excerpts_json(evidence.application),
        "launcher_log": _excerpts_json(evidence.launcher),
        "unknown": unknown,
    }


def _fault_json(fault: policy_pb2.Fault, is_first: bool) -> dict[str, Any]:
    return {
        "first": is_first,
        "node": fault.node_id,
        "rank": fault.rank if fault.HasField("rank") else None,
        "reason": fault.because.code,
        "sentence": fault.because.sentence,
        "at": _stamp(fault.at.ToNanoseconds() / _NS) if fault.HasField("at") else None,
        "exit_code": fault.exit_code if fault.HasField("exit_code") else None,
        "signal": fault.signal if fault.HasField("signal") else None,
        "last_step": fault.last_step if fault.HasField("last_step") else None,
    }


def _excerpts_json(excerpts: Sequence[Excerpt]) -> list[dict[str, Any]] | None:
    told = [{"title": excerpt.title, "lines": list(excerpt.lines)} for excerpt in excerpts if not excerpt.why_not]
    return told or None


def _line(name: str, value: str) -> str:
    return f"{name:<12}{value}"


def _stamp(wall: float) -> str:
    return f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d %H:%M:%S}.{int(wall % 1 * 1000):03d} UTC"
