"""Where finished spans go: a file of JSON lines always, OTLP where an endpoint is configured. Never delays a recovery.

Each sink runs in a thread of its own behind a bounded queue, for a disk may stall as a network does; a full queue
drops, and says so once.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from resurge_libs.obs.background import Outage
from resurge_libs.obs.generations import Generations
from resurge_libs.obs.log import event
from resurge_libs.obs.recovery_spans import SpanRecord

MAX_QUEUED_TRACES = 256
EXIT_LIMIT_S = 1.0
SPANS_BYTES_MAX = 3 * 1024 * 1024
SPANS_OLDER_MAX = 3
"""Files of that size that are kept beside the present one."""


class SpanSink(Protocol):
    """Takes finished spans and returns at once."""

    def export(self, spans: Sequence[SpanRecord]) -> None:
        """Take the spans. Never raises."""
        ...

    def close(self, limit_s: float = EXIT_LIMIT_S) -> None:
        """Deliver what is there, for at most `limit_s` seconds."""
        ...


class JsonLinesSink:
    """Appends one line per span; the lines of one call are written together, before the call returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = Generations(path, SPANS_BYTES_MAX, SPANS_OLDER_MAX)
        self._outage = Outage("the trace of a recovery", path, "Give its directory room, and make it a file.")

    def export(self, spans: Sequence[SpanRecord]) -> None:
        """Append the spans. A file that cannot be written is logged: the durable record still has them."""
        data = "".join(json.dumps(span_json(span), ensure_ascii=False) + "\n" for span in spans).encode()
        try:
            self._files.append(data, 0o644)
            self._outage.written()
        except OSError as error:
            self._outage.failed(error)

    def close(self, limit_s: float = EXIT_LIMIT_S) -> None:
        """Nothing is held back."""


class QueuedSink:
    """Hands spans to an exporter in a thread of its own, where `make` builds it, so that imports cost nothing here."""

    def __init__(self, make: Callable[[], Callable[[Sequence[SpanRecord]], Any]], name: str) -> None:
        self._make, self._name = make, name
        self._queue: queue.Queue[tuple[SpanRecord, ...] | None] = queue.Queue(MAX_QUEUED_TRACES)
        self._thread: threading.Thread | None = None
        self._dropped = 0

    def export(self, spans: Sequence[SpanRecord]) -> None:
        """Queue the spans; dropped when the exporter is too far behind."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"span-export-{self._name}", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(tuple(spans))
        except queue.Full:
            self._dropped += 1
            if self._dropped == 1:
                event("spans_dropped", sink=self._name, queued=MAX_QUEUED_TRACES)

    def close(self, limit_s: float = EXIT_LIMIT_S) -> None:
        """Wait for the queue, at most `limit_s` seconds; the thread dies with the process."""
        if self._thread is None:
            return
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=limit_s)
            self._thread.join(limit_s)
        if self._thread.is_alive():
            sentence = f"not all spans reached {self._name} within {limit_s:g} s of the end; the journal has them all"
            event("spans_not_exported", sink=self._name, error="no answer", sentence=sentence)

    def _run(self) -> None:
        export: Callable[[Sequence[SpanRecord]], Any] | None = None
        while True:
            spans = self._queue.get()
            if spans is None:
                return
            try:
                export = export or self._make()
                export(spans)
            except Exception as error:  # the root of this thread: an exporter's fault must not end the others' export
                event("spans_not_exported", sink=self._name, error=repr(error))


class SinkList:
    """Several sinks as one."""

    def __init__(self, sinks: Sequence[SpanSink]) -> None:
        self._sinks = tuple(sinks)

    def export(self, spans: Sequence[SpanRecord]) -> None:
        """Hand the spans to each."""
        for sink in self._sinks:
            sink.export(spans)

    def close(self, limit_s: float = EXIT_LIMIT_S) -> None:
        """Close each."""
        for sink in self._sinks:
            sink.close(limit_s)


def make_sinks(json_lines: Path | None, otlp_endpoint: str | None) -> SinkList:
    """The sinks of one service: a file if a path is given, OTLP if an endpoint is (`OTEL_EXPORTER_OTLP_ENDPOINT`).

    The exporter reads the standard OTEL_* variables itself.
    """
    sinks: list[SpanSink] = []
    if json_lines is not None:
        sinks.append(QueuedSink(lambda: JsonLinesSink(json_lines).export, str(json_lines)))
    if otlp_endpoint:
        sinks.append(QueuedSink(_otlp, "otlp"))
    return SinkList(sinks)


def span_json(span: SpanRecord) -> dict[str, Any]:
    """One span as the fields of a JSON line."""
    return {
        "name": span.name,
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_id.hex() if span.parent_id else None,
        "start_unix_s": span.start,
        "end_unix_s": span.end,
        "duration_s": round(span.duration_s, 6),
        "service": span.service,
        "attributes": dict(span.attributes),
    }


def _otlp() -> Callable[[Sequence[SpanRecord]], Any]:
    from resurge_libs.obs.otel import otlp_export

    return otlp_export()
