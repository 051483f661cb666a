"""A recovery as pictures need it: spans in seconds from the first signal, phases, coverage. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2

# the order in which a recovery is told; names not listed here follow, by their first start
PHASES = (
    "detect", "decide", "teardown", "reclaim", "health_check", "rendezvous", "spawn", "init", "checkpoint_restore",
    "first_step",
)  # fmt: skip
CONTROL_PLANE = "control plane"
_OUTCOMES = {
    rendezvous_pb2.RECOVERY_OUTCOME_OPEN: "open",
    rendezvous_pb2.RECOVERY_OUTCOME_RECOVERED: "recovered",
    rendezvous_pb2.RECOVERY_OUTCOME_STARTED_ONLY: "started only",
    rendezvous_pb2.RECOVERY_OUTCOME_ENDED: "job ended",
}
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SpanView:
    """One closed phase: whose, from when to when, in seconds since the recovery's first signal."""

    name: str
    node: str  # CONTROL_PLANE for the service itself
    rank: int | None
    start_s: float
    end_s: float
    attributes: Mapping[str, str]
    clock_error_s: float = 0.0

    @property
    def duration_s(self) -> float:
        """How long it took."""
        return max(0.0, self.end_s - self.start_s)


@dataclass(frozen=True, slots=True)
class RecoveryView:
    """One incident and what was done about it."""

    incident: str
    trace_id: str
    outcome: str
    started: datetime  # in UTC, by the service's clock
    total_s: float
    reason: str
    sentence: str
    culprit: str
    verdict: str
    verdict_sentence: str
    decided_by: str
    restarts_left: int
    generation_from: int
    generation_to: int  # 0 when none took over
    cycle: int
    restored_step: int | None
    spans: tuple[SpanView, ...]

    @property
    def phases(self) -> dict[str, float]:
        """Seconds in which anybody was in the phase, by phase, in the order of the story."""
        by_name: dict[str, list[SpanView]] = {}
        for span in self.spans:
            by_name.setdefault(span.name, []).append(span)
        first_start = {name: min(span.start_s for span in spans) for name, spans in by_name.items()}
        known = [name for name in PHASES if name in by_name]
        further = sorted((name for name in by_name if name not in PHASES), key=first_start.__getitem__)
        return {name: _union_s((span.start_s, span.end_s) for span in by_name[name]) for name in (*known, *further)}

    @property
    def coverage(self) -> float:
        """The share of the whole that some span explains, from 0 to 1."""
        if self.total_s <= 0:
            return 1.0
        inside = ((max(0.0, span.start_s), min(self.total_s, span.end_s)) for span in self.spans)
        return min(1.0, _union_s(inside) / self.total_s)

    @property
    def generations(self) -> str:
        """From which generation to which."""
        return f"{self.generation_from} → {self.generation_to or 'end'}"


def _union_s(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals; those that end before they start count nothing."""
    total_s, reach = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > max(start, reach):
            total_s += end - max(start, reach)
            reach = end
    return total_s


def view_of(recovery: rendezvous_pb2.Recovery) -> RecoveryView:
    """The record as a view."""
    start_ns = recovery.start.ToNanoseconds()
    spans = tuple(_span_of(item, start_ns) for item in recovery.spans)
    end_ns = recovery.end.ToNanoseconds() if recovery.HasField("end") else 0
    last_s = max((span.end_s for span in spans), default=0.0)
    told_s = (end_ns - start_ns) / _NS if end_ns > start_ns else last_s
    is_open = recovery.outcome == rendezvous_pb2.RECOVERY_OUTCOME_OPEN  # its end so far may be older than its spans
    incident = recovery.incident
    first = first_fault(recovery.faults or incident.faults)
    return RecoveryView(
        incident=recovery.incident_id,
        trace_id=recovery.trace_id,
        outcome=_OUTCOMES.get(recovery.outcome, "unknown"),
        started=datetime.fromtimestamp(start_ns / _NS, UTC),
        total_s=max(told_s, last_s) if is_open else told_s,
        reason=first.because.code if first else "-",
        sentence=first.because.sentence if first else "",
        culprit=fault_place(first),
        verdict=_verdict_name(recovery.verdict.kind) if recovery.HasField("verdict") else "-",
        verdict_sentence=recovery.verdict.because.sentence or recovery.verdict.because.code,
        decided_by=recovery.verdict.source,
        restarts_left=recovery.verdict.restarts_left,
        generation_from=recovery.generation_from,
        generation_to=recovery.generation_to,
        cycle=incident.cycle,
        restored_step=recovery.restored_step if recovery.HasField("restored_step") else None,
        spans=tuple(sorted(spans, key=lambda span: (span.start_s, span.end_s, span.node, span.rank or 0))),
    )


def _span_of(item: rendezvous_pb2.RecoverySpan, start_ns: int) -> SpanView:
    span = item.span
    return SpanView(
        name=span.name,
        node=item.node_id or CONTROL_PLANE,
        rank=span.rank if span.HasField("rank") else None,
        start_s=(span.start.ToNanoseconds() - start_ns) / _NS,
        end_s=(span.end.ToNanoseconds() - start_ns) / _NS,
        attributes=dict(sorted(span.attributes.items())),
        clock_error_s=item.clock_error.ToNanoseconds() / _NS,
    )


def first_fault(faults: Iterable[policy_pb2.Fault]) -> policy_pb2.Fault | None:
    """The one held to be the first cause; None where there is none."""
    told = list(faults)
    blamed = [fault for fault in told if fault.culprit] or told
    return blamed[0] if blamed else None


def fault_place(fault: policy_pb2.Fault | None) -> str:
    """The node, or the rank on it."""
    if fault is None:
        return "-"
    return f"{fault.node_id} rank {fault.rank}" if fault.HasField("rank") else fault.node_id


def _verdict_name(kind: int) -> str:
    return policy_pb2.VerdictKind.Name(kind).removeprefix("VERDICT_KIND_").lower().replace("_", " ")


def as_json(view: RecoveryView) -> dict[str, Any]:
    """The view for programs: stable names, seconds, nothing rounded away."""
    return {
        "incident": view.incident,
        "trace_id": view.trace_id,
        "outcome": view.outcome.replace(" ", "_"),
        "started": view.started.isoformat(),
        "total_s": view.total_s,
        "reason": view.reason,
        "sentence": view.sentence,
        "culprit": view.culprit,
        "verdict": view.verdict.replace(" ", "_"),
        "verdict_sentence": view.verdict_sentence,
        "decided_by": view.decided_by,
        "restarts_left": view.restarts_left,
        "generation_from": view.generation_from,
        "generation_to": view.generation_to,
        "cycle": view.cycle,
        "restored_step": view.restored_step,
        "phases_s": view.phases,
        "coverage": view.coverage,
        "spans": [
            {
                "name": span.name,
                "node": None if span.node == CONTROL_PLANE else span.node,
                "rank": span.rank,
                "start_s": span.start_s,
                "end_s": span.end_s,
                "clock_error_s": span.clock_error_s,
                "attributes": dict(span.attributes),
            }
            for span in view.spans
        ],
    }


def duration(seconds: float) -> str:
    """A duration for people: three figures and the unit that fits."""
    if seconds < 0.0005:
        return "0 ms" if seconds < 0.00005 else f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def phase_title(name: str) -> str:
    """A phase as headings write it."""
    return {"checkpoint_restore": "restore"}.get(name, name.replace("_", " "))
