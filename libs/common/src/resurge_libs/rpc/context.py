"""What travels beside a call: the job token and the W3C trace context. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from resurge_libs.obs.traceparent import TraceContext, parse_traceparent
from resurge_libs.rpc.auth import Metadata, token_metadata

TRACEPARENT_KEY = "traceparent"


def call_metadata(token: str | None = None, trace: TraceContext | None = None) -> Metadata:
    """The metadata of one call."""
    traced: Metadata = ((TRACEPARENT_KEY, trace.traceparent),) if trace is not None else ()
    return token_metadata(token) + traced


def trace_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> TraceContext | None:
    """The caller's trace context; None where there is none or it is malformed, as W3C asks."""
    for key, value in metadata or ():
        if key == TRACEPARENT_KEY:
            return parse_traceparent(value if isinstance(value, str) else value.decode(errors="replace"))
    return None
