"""Ranks that restart in place over several nodes: core values to proto and back."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from resurge_api.rendezvous.v1 import muster_pb2
from resurge_launcher.core.muster_state import MusterOrder, MusterReport
from resurge_launcher.core.musters import INTERRUPT, OVER, START
from resurge_launcher.core.replacement_state import Replacement, ReplacementStage, Replacing
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant
from resurge_libs.rpc.errors import because_to_proto

KINDS = {
    muster_pb2.MUSTER_KIND_UNSPECIFIED: "",
    muster_pb2.MUSTER_KIND_START: START,
    muster_pb2.MUSTER_KIND_INTERRUPT: INTERRUPT,
    muster_pb2.MUSTER_KIND_OVER: OVER,
}
STAGES = {
    ReplacementStage.WANTED: muster_pb2.REPLACEMENT_STAGE_WANTED,
    ReplacementStage.GRANTED: muster_pb2.REPLACEMENT_STAGE_GRANTED,
    ReplacementStage.STARTING: muster_pb2.REPLACEMENT_STAGE_STARTING,
    ReplacementStage.COMING: muster_pb2.REPLACEMENT_STAGE_COMING,
    ReplacementStage.JOINED: muster_pb2.REPLACEMENT_STAGE_JOINED,
    ReplacementStage.GIVEN_UP: muster_pb2.REPLACEMENT_STAGE_GIVEN_UP,
}
_KINDS_OUT = {name: kind for kind, name in KINDS.items()}


def order_of(order: muster_pb2.MusterOrder) -> MusterOrder:
    """The order; one of a kind that is not known here does nothing."""
    members = tuple(Rank(rank) for rank in order.members)
    return MusterOrder(order.number, KINDS.get(order.kind, ""), order.iteration, members, order.sentence, order.is_anew)


def report_to_proto(report: MusterReport) -> muster_pb2.MusterReport:
    """How this node's ranks stand."""
    acted, limit = report.acted, Duration()
    limit.FromNanoseconds(round(report.limit_s * 1e9))
    return muster_pb2.MusterReport(
        acted=muster_pb2.MusterOrder(
            number=acted.number,
            kind=_KINDS_OUT[acted.kind],
            iteration=acted.iteration,
            members=acted.members,
            is_anew=acted.is_anew,
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
        is_anew=report.is_anew,
        can_renew=report.can_renew,
    )


def replacement_to_proto(one: Replacement, stamp: Callable[[Instant], Timestamp]) -> muster_pb2.Replacement:
    """How far a fresh process in the place of a lost rank is; `stamp` gives the wall-clock time of an instant."""
    return muster_pb2.Replacement(
        number=one.number,
        rank=one.rank,
        iteration=one.iteration,
        because=because_to_proto(one.because),
        lost_at=stamp(one.lost_at),
        stage=STAGES[one.stage],
        lost_pid=one.lost_pid,
        pid=one.pid,
        settled_at=stamp(one.settled_at) if one.settled_at is not None else None,
        sentence=one.sentence,
    )


def replacing_of(said: muster_pb2.Replacing) -> Replacing:
    """What was decided about them."""
    return Replacing(tuple(said.granted), said.refused_upto, said.sentence)
