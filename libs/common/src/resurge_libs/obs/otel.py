"""Spans as OpenTelemetry's own, and the OTLP exporter. Imported only where an endpoint is configured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from resurge_libs.core.ids import SpanId, TraceId
from resurge_libs.obs.recovery_spans import SpanRecord

DEFAULT_SERVICE = "resurge"


def readable_spans(spans: Sequence[SpanRecord]) -> list[ReadableSpan]:
    """The spans with their derived ids and given times."""
    scope = InstrumentationScope("resurge")
    resources = {name: _resource(name) for name in {span.service or DEFAULT_SERVICE for span in spans}}
    return [_readable(span, resources[span.service or DEFAULT_SERVICE], scope) for span in spans]


def otlp_export() -> Callable[[Sequence[SpanRecord]], Any]:
    """A function that sends spans by OTLP over gRPC, as the standard OTEL_* variables say; blocks while it sends."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter()
    return lambda spans: exporter.export(readable_spans(spans))


def _resource(service: str) -> Resource:
    name = service if service.startswith(DEFAULT_SERVICE) else f"{DEFAULT_SERVICE}-{service}"
    return Resource.create({"service.name": name})


def _readable(span: SpanRecord, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
        resource=resource,
        attributes=dict(span.attributes),
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.UNSET),
        start_time=round(span.start * 1e9),
        end_time=round(span.end * 1e9),
        instrumentation_scope=scope,
    )


def _context(trace_id: TraceId, span_id: SpanId) -> SpanContext:
    return SpanContext(
        int.from_bytes(trace_id, "big"), int.from_bytes(span_id, "big"), is_remote=False, trace_flags=TraceFlags(1)
    )
