"""The policy's own span of a recovery: `decide`, a child of the span that the caller's metadata names.

Decides nothing, and export never delays an answer. The id follows from incident and round, so that a repeated call
does not double the span.
"""

from __future__ import annotations

from collections.abc import Callable

from resurge_libs.core.ids import NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.trace_ids import span_id_of
from resurge_libs.core.verdict import IncidentView, Verdict
from resurge_libs.obs.names import Attr, SpanName
from resurge_libs.obs.recovery_spans import SpanRecord
from resurge_libs.obs.sinks import SpanSink
from resurge_libs.obs.traceparent import TraceContext

SERVICE = "restart_policy"


class DecideSpans:
    """Exports one span per decision that belongs to a trace."""

    def __init__(self, sink: SpanSink, wall: Callable[[], Wall]) -> None:
        self._sink = sink
        self.wall = wall

    def emit(self, view: IncidentView, verdict: Verdict, parent: TraceContext | None, start: Wall) -> None:
        """Close the span of a decision that began at `start`; without a sampled parent there is none."""
        if parent is None or not parent.sampled:
            return
        name = f"{SpanName.DECIDE}#{view.round}"
        self._sink.export(
            (
                SpanRecord(
                    name=SpanName.DECIDE.value,
                    trace_id=parent.trace_id,
                    span_id=span_id_of(view.incident, name, NodeId(SERVICE)),
                    parent_id=parent.span_id,
                    start=start,
                    end=Wall(max(start, self.wall())),
                    service=SERVICE,
                    attributes={
                        Attr.JOB.value: view.job,
                        Attr.INCIDENT.value: view.incident,
                        Attr.VERDICT.value: verdict.kind.value,
                        Attr.REASON.value: verdict.because.code.value,
                        Attr.SENTENCE.value: verdict.because.sentence,
                        Attr.RESTARTS_LEFT.value: verdict.restarts_left,
                    },
                ),
            )
        )
