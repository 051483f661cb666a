"""Ranks that restart in place over several nodes: core values to proto and back."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from resurge_api.rendezvous.v1 import muster_pb2
from resurge_launcher.core.muster_state import MusterOrder, MusterReport
from resurge_launcher.core.musters import INTERRUPT, OVER, START
from resurge_libs.core.ids import Rank

KINDS = {
    muster_pb2.MUSTER_KIND_UNSPECIFIED: "",
    muster_pb2.MUSTER_KIND_START: START,
    muster_pb2.MUSTER_KIND_INTERRUPT: INTERRUPT,
    muster_pb2.MUSTER_KIND_OVER: OVER,
}
_KINDS_OUT = {name: kind for kind, name in KINDS.items()}


def order_of(order: muster_pb2.MusterOrder) -> MusterOrder:
    """The order; one of a kind that is not known here does nothing."""
    members = tuple(Rank(rank) for rank in order.members)
    return MusterOrder(order.number, KINDS.get(order.kind, ""), order.iteration, members, order.sentence)


def report_to_proto(report: MusterReport) -> muster_pb2.MusterReport:
    """How this node's ranks stand."""
    acted, limit = report.acted, Duration()
    limit.FromNanoseconds(round(report.limit_s * 1e9))
    return muster_pb2.MusterReport(
        acted=muster_pb2.MusterOrder(
            number=acted.number, kind=_KINDS_OUT[acted.kind], iteration=acted.iteration, members=acted.members
        ),
        iteration=report.iteration,
        is_running=report.is_running,
        is_over=report.is_over,
        joined=report.joined,
        living=report.living,
        done=report.done,
        needed=report.needed,
        min_world=report.min_world,
        limit=limit,
        broken=report.broken,
        evicted=report.evicted,
    )
