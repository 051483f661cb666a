"""Recoveries as a Chrome trace, for Perfetto and chrome://tracing: a process per node, a thread per rank. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from resurge_launcher.views.model import CONTROL_PLANE, RecoveryView, SpanView

CONTROL_PID = 1  # process 0 has a meaning of its own in trace viewers
LAUNCHER_TID = 0


def chrome_trace(views: Sequence[RecoveryView]) -> dict[str, Any]:
    """The trace of all recoveries; times are microseconds since the first one began."""
    origin = min((view.started.timestamp() for view in views), default=0.0)
    nodes = sorted({span.node for view in views for span in view.spans} - {CONTROL_PLANE})
    pid_of = {CONTROL_PLANE: CONTROL_PID} | {node: CONTROL_PID + 1 + place for place, node in enumerate(nodes)}
    events: list[dict[str, Any]] = []
    threads: dict[tuple[int, int], str] = {(CONTROL_PID, LAUNCHER_TID): "recovery"}
    for view in views:
        offset_s = view.started.timestamp() - origin
        events.append(_root(view, offset_s))
        for span in view.spans:
            event = _event(view, span, offset_s, pid_of[span.node])
            threads.setdefault((event["pid"], event["tid"]), _thread_name(span))
            events.append(event)
    names = [_named("process_name", pid, LAUNCHER_TID, node) for node, pid in pid_of.items()]
    names += [_named("thread_name", pid, tid, name) for (pid, tid), name in sorted(threads.items())]
    return {"displayTimeUnit": "ms", "traceEvents": [*names, *events]}


def _root(view: RecoveryView, offset_s: float) -> dict[str, Any]:
    return {
        "name": f"recovery {view.incident}",
        "cat": "recovery",
        "ph": "X",
        "ts": round(offset_s * 1e6, 3),
        "dur": round(view.total_s * 1e6, 3),
        "pid": CONTROL_PID,
        "tid": LAUNCHER_TID,
        "args": {
            "trace_id": view.trace_id,
            "outcome": view.outcome,
            "reason": view.reason,
            "sentence": view.sentence,
            "culprit": view.culprit,
            "verdict": view.verdict,
            "generation": view.generations,
        },
    }


def _event(view: RecoveryView, span: SpanView, offset_s: float, pid: int) -> dict[str, Any]:
    tid = 1 if span.node == CONTROL_PLANE else LAUNCHER_TID if span.rank is None else span.rank + 1
    return {
        "name": span.name,
        "cat": "phase",
        "ph": "X",
        "ts": round((offset_s + span.start_s) * 1e6, 3),
        "dur": round(span.duration_s * 1e6, 3),
        "pid": pid,
        "tid": tid,
        "args": {"incident": view.incident, **span.attributes},
    }


def _thread_name(span: SpanView) -> str:
    if span.node == CONTROL_PLANE:
        return "phases"
    return "launcher" if span.rank is None else f"rank {span.rank}"


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
