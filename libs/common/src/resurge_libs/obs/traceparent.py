"""The W3C trace context as one value, and its text form. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from resurge_libs.core.ids import IncidentId, SpanId, TraceId
from resurge_libs.core.trace_ids import root_span_id_of, trace_id_of

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Which trace, and which span in it is the parent."""

    trace_id: TraceId
    span_id: SpanId
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """As the W3C header and the TRACEPARENT variable spell it."""
        return f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{'01' if self.sampled else '00'}"

    @classmethod
    def of_recovery(cls, incident: IncidentId) -> TraceContext:
        """The context whose parent is the recovery's root span."""
        return cls(trace_id_of(incident), root_span_id_of(incident))


def parse_traceparent(text: str) -> TraceContext | None:
    """The context of a header; None if it is malformed, which W3C asks to treat as absent."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    version, trace_hex, span_hex, flags, more = found.groups()
    trace_id, span_id = bytes.fromhex(trace_hex), bytes.fromhex(span_hex)
    if version == "ff" or (version == "00" and more) or not any(trace_id) or not any(span_id):
        return None
    return TraceContext(TraceId(trace_id), SpanId(span_id), bool(int(flags, 16) & 1))
