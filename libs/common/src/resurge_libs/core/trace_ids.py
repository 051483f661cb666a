"""Trace and span ids derived from the incident. Pure: a second export of one recovery gives the same ids."""

from __future__ import annotations

import hashlib

from resurge_libs.core.ids import IncidentId, NodeId, Rank, SpanId, TraceId


def trace_id_of(incident: IncidentId) -> TraceId:
    """The 16-byte trace id under which all spans of one recovery meet."""
    return TraceId(hashlib.sha256(f"trace:{incident}".encode()).digest()[:16])


def root_span_id_of(incident: IncidentId) -> SpanId:
    """The 8-byte id of the recovery's root span."""
    return SpanId(hashlib.sha256(f"root:{incident}".encode()).digest()[:8])


def span_id_of(incident: IncidentId, name: str, node: NodeId | None = None, rank: Rank | None = None) -> SpanId:
    """The 8-byte id of one child span: one name, on one node, for one rank, is one span."""
    text = f"{incident}|{name}|{'' if node is None else node}|{'' if rank is None else rank}"
    return SpanId(hashlib.sha256(text.encode()).digest()[:8])
