"""Recoveries as trace-event JSON, which Perfetto and chrome://tracing open. Pure.

One process row per node (and one for the control plane), one thread row per rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from resurge_libs.obs.names import Attr
from resurge_libs.obs.recovery_spans import SpanRecord

CONTROL_PLANE = "control plane"


def perfetto_json(spans: Iterable[SpanRecord]) -> dict[str, Any]:
    """The document to write as JSON; times in microseconds since the first span."""
    ordered = sorted(spans, key=lambda span: (span.start, -span.end))
    zero = ordered[0].start if ordered else 0.0
    rows = _Rows()
    events = [
        {
            "name": span.name,
            "cat": "recovery",
            "ph": "X",
            "ts": round((span.start - zero) * 1e6, 1),
            "dur": round(span.duration_s * 1e6, 1),
            "pid": rows.process(span),
            "tid": rows.thread(span),
            "args": {**span.attributes, "span_id": span.span_id.hex(), "trace_id": span.trace_id.hex()},
        }
        for span in ordered
    ]
    return {"displayTimeUnit": "ms", "traceEvents": [*rows.names(), *events], "otherData": {"start_unix_s": zero}}


class _Rows:
    """Numbers the rows in the order in which they appear."""

    def __init__(self) -> None:
        self._processes: dict[str, int] = {}
        self._threads: dict[tuple[int, int], str] = {}

    def process(self, span: SpanRecord) -> int:
        name = str(span.attributes.get(Attr.NODE, CONTROL_PLANE))
        return self._processes.setdefault(name, len(self._processes) + 1)

    def thread(self, span: SpanRecord) -> int:
        rank = span.attributes.get(Attr.RANK)
        number = 0 if rank is None else int(rank) + 1
        fallback = "rendezvous" if Attr.NODE not in span.attributes else "launcher"
        self._threads.setdefault((self.process(span), number), fallback if rank is None else f"rank {rank}")
        return number

    def names(self) -> list[dict[str, Any]]:
        named: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": number, "args": {"name": name}}
            for name, number in self._processes.items()
        ]
        named += [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
            for (process, thread), name in self._threads.items()
        ]
        return named
