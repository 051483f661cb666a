"""The spans of one recovery as plain values: ids follow from the incident, times are given. Pure.

Because ids are derived, the same recovery exported twice, by whoever, is the same trace with the same spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from resurge_libs.core.ids import IncidentId, NodeId, Rank, SpanId, TraceId
from resurge_libs.core.instant import Wall
from resurge_libs.core.trace_ids import root_span_id_of, span_id_of, trace_id_of
from resurge_libs.obs.names import Attr, SpanName

AttributeValue = str | bool | int | float
NO_ATTRIBUTES: Mapping[str, AttributeValue] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RecoverySpan:
    """One closed phase of a recovery, in the time of whoever keeps the record."""

    name: SpanName
    start: Wall
    end: Wall
    node: NodeId | None = None
    rank: Rank | None = None
    service: str = ""
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: NO_ATTRIBUTES)
    part: int = 0
    """Counts the phase's repetitions within one incident, as retry rounds make them."""

    @property
    def duration_s(self) -> float:
        """How long it took; never negative, though clocks of two machines may disagree."""
        return max(0.0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One span, ready for export."""

    name: str
    trace_id: TraceId
    span_id: SpanId
    parent_id: SpanId | None
    start: Wall
    end: Wall
    service: str
    attributes: Mapping[str, AttributeValue]

    @property
    def duration_s(self) -> float:
        """How long it took."""
        return max(0.0, self.end - self.start)


def record_of(incident: IncidentId, span: RecoverySpan) -> SpanRecord:
    """The span with its derived ids: the root, or a child of the root."""
    is_root = span.name is SpanName.RECOVERY
    name = span.name.value
    span_id = (
        root_span_id_of(incident)
        if is_root
        else span_id_of(incident, f"{name}#{span.part}" if span.part else name, span.node, span.rank)
    )
    attributes: dict[str, AttributeValue] = {**span.attributes, Attr.INCIDENT: incident}
    if span.node is not None:
        attributes[Attr.NODE] = span.node
    if span.rank is not None:
        attributes[Attr.RANK] = span.rank
    return SpanRecord(
        name=name,
        trace_id=trace_id_of(incident),
        span_id=span_id,
        parent_id=None if is_root else root_span_id_of(incident),
        start=span.start,
        end=Wall(max(span.start, span.end)),
        service=span.service,
        attributes=MappingProxyType({str(key): value for key, value in attributes.items()}),
    )


def records_of(incident: IncidentId, root: RecoverySpan, children: Iterable[RecoverySpan]) -> tuple[SpanRecord, ...]:
    """The whole trace of one recovery, the root first."""
    assert root.name is SpanName.RECOVERY
    return (record_of(incident, root), *(record_of(incident, child) for child in children))


def coverage(root: RecoverySpan, children: Iterable[RecoverySpan]) -> float:
    """The share of the root's time in which at least one child runs, from 0 to 1; 1 for a root without time."""
    if root.duration_s <= 0:
        return 1.0
    covered, reached = 0.0, float(root.start)
    for start, end in sorted((float(c.start), float(c.end)) for c in children):
        end = min(end, root.end)
        if end > reached:
            covered += end - max(start, reached)
            reached = end
    return covered / root.duration_s
