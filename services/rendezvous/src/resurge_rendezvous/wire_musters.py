"""Ranks that restart in place: proto to core values, checked, and back. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from resurge_api.rendezvous.v1 import attach_pb2, muster_pb2
from resurge_libs.core.ids import Rank
from resurge_libs.rpc.validation import MAX_SENTENCE_CHARACTERS, Violations
from resurge_rendezvous.core.muster_values import MusterKind, MusterOrder, MusterReport

MAX_MEMBERS = 1_000_000
MAX_LOCAL_RANKS = 4_096
MAX_RANK = 10_000_000
MAX_NUMBER = 2**53
MAX_LIMIT_S = 3_600
KINDS = {
    muster_pb2.MUSTER_KIND_UNSPECIFIED: MusterKind.NOTHING,
    muster_pb2.MUSTER_KIND_START: MusterKind.START,
    muster_pb2.MUSTER_KIND_INTERRUPT: MusterKind.INTERRUPT,
    muster_pb2.MUSTER_KIND_OVER: MusterKind.OVER,
}
_KINDS_OUT = {name: kind for kind, name in KINDS.items()}


def muster_of(observed: attach_pb2.Observed, wrong: Violations, at: str) -> MusterReport | None:
    """The report, where there is one; what does not fit is added to `wrong`."""
    if not observed.HasField("muster"):
        return None
    report = observed.muster
    for name in ("iteration", "done", "needed", "min_world"):
        wrong.between(f"{at}.{name}", getattr(report, name), 0, MAX_NUMBER)
    wrong.between(f"{at}.limit", report.limit.seconds, 0, MAX_LIMIT_S)
    return MusterReport(
        acted=_order_of(report.acted, wrong, f"{at}.acted"),
        iteration=report.iteration,
        is_running=report.is_running,
        is_over=report.is_over,
        joined=_ranks(report.joined, MAX_LOCAL_RANKS, wrong, f"{at}.joined"),
        living=_ranks(report.living, MAX_LOCAL_RANKS, wrong, f"{at}.living"),
        done=report.done,
        needed=report.needed,
        min_world=report.min_world,
        limit_s=report.limit.seconds + report.limit.nanos / 1e9,
        broken=report.broken[:MAX_SENTENCE_CHARACTERS],
        evicted=_ranks(report.evicted, MAX_LOCAL_RANKS, wrong, f"{at}.evicted"),
        is_anew=report.is_anew,
        can_renew=report.can_renew,
    )


def order_to_proto(order: MusterOrder) -> muster_pb2.MusterOrder:
    """What members are told."""
    return muster_pb2.MusterOrder(
        number=order.number,
        kind=_KINDS_OUT[order.kind],
        iteration=order.iteration,
        members=order.members,
        sentence=order.sentence,
        is_anew=order.is_anew,
    )


def _order_of(order: muster_pb2.MusterOrder, wrong: Violations, at: str) -> MusterOrder:
    wrong.between(f"{at}.number", order.number, 0, MAX_NUMBER)
    wrong.between(f"{at}.iteration", order.iteration, 0, MAX_NUMBER)
    kind = KINDS.get(order.kind)
    if kind is None:
        wrong.add(f"{at}.kind", f"is {order.kind}; must be one of MusterKind")
    members = _ranks(order.members, MAX_MEMBERS, wrong, f"{at}.members")
    return MusterOrder(order.number, kind or MusterKind.NOTHING, order.iteration, members, is_anew=order.is_anew)


def _ranks(ranks: Sequence[int], most: int, wrong: Violations, at: str) -> tuple[Rank, ...]:
    wrong.count(at, len(ranks), most)
    for rank in ranks[:most]:
        if not 0 <= rank <= MAX_RANK:
            wrong.add(at, f"has {rank}; ranks must be within 0 and {MAX_RANK}")
            break
    return tuple(Rank(rank) for rank in ranks[:most])
