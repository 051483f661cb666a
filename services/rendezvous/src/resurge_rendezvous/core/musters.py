"""Ranks of several nodes that restart in place: gathered here, so that no rank has to be trusted for it.

Rules, in prose:

- An iteration starts when every member reports that all of its living ranks have joined it; these are its members.
- The first report that it is broken interrupts it everywhere. What follows of it is a consequence.
- To the first start everybody has `limit_s` from when the first member has come, or the limit for a process group to
  be ready where that is longer: so those are named that never report, as their launcher or SDK knows nothing of this.
- Everybody has `limit_s` from a break on to come to the next one, and a moment more, as a launcher knows better who of
  its ranks is missing; and as long again when it ends those. Then the first that has not come is at fault, and the
  generation is restarted.
- Nobody waits for a node whose ranks have all ended as they should.
- A fresh process that takes the place of a lost rank is waited for like any other (replacing).
- With fewer ranks left than the function wants, those that were lost are a fault after all.
- Where a launcher is of a version that is told no orders, and its ranks restart in place all the same, as under the
  service before this one, the first order that is due is a fault: nobody would follow it.
- Only the newest order is sure to be seen. So each also says who took part in the iteration that it is about.
- When as many ranks have finished as were to, it is over for all.
- Nothing of it is journaled. Each launcher reports the newest order that it has acted upon; after a restart of the
  service the newest of all holds, whoever has it.
"""

from __future__ import annotations

from resurge_libs.core.ids import NodeId, Rank
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.faults import raise_faults
from resurge_rendezvous.core.goals import out_of_place
from resurge_rendezvous.core.job import Formation
from resurge_rendezvous.core.muster_values import JobMuster, MusterKind, MusterOrder, MusterReport
from resurge_rendezvous.core.presence import Seat
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.values import Observed

MARGIN_S = 2.0
MARGIN_OF_MEMBER_S = 0.002


def margin_s(members: int) -> float:
    """How much later than a launcher, which sees its ranks, the service judges who is missing.

    Orders to many nodes, and their reports, take longer.
    """
    return MARGIN_S + MARGIN_OF_MEMBER_S * members


def muster_news(d: Draft, seat: Seat, before: Observed, formation: Formation) -> None:
    """Take in what a member reports about its ranks that restart in place."""
    report = seat.observed.muster
    if seat.node not in d.seen.unfinished:
        _left(d, seat, formation)
    if report is None or seat.observed.generation != formation.generation or seat.node not in d.seen.members:
        return
    muster = d.seen.muster
    if muster is None or muster.generation != formation.generation:
        muster = JobMuster(formation.generation, awaited=_all(d))
    was = before.muster if before.generation == formation.generation else None
    if was == report and muster is d.seen.muster:
        return
    if report.acted.number > muster.order.number:  # the service has restarted since that was ordered
        muster = replace(muster, order=report.acted, awaited=_all(d), done=0)
        _again(d, report)
        d.touch_all()
    d.see(muster=muster)
    if muster.order.kind is MusterKind.INTERRUPT and set(report.evicted).difference(was.evicted if was else ()):
        d.set_timers(muster_at=_until(d, report.limit_s))
    if muster.order.kind is MusterKind.START:
        _on_running(d, muster, report, was)
    elif report.has_come_to(muster.order.gathers):
        _come(d, replace(muster, awaited=muster.awaited.drop(seat.node)), formation)
    elif seat.node not in muster.awaited:  # a rank has ended since it had joined
        d.see(muster=replace(muster, awaited=muster.awaited.put(seat.node, None)))


def _left(d: Draft, seat: Seat, formation: Formation) -> None:
    """All ranks of a node have ended as they should: those elsewhere do not wait for them."""
    muster = d.seen.muster
    if muster is None or muster.generation != formation.generation or seat.node not in muster.awaited:
        return
    muster = replace(muster, awaited=muster.awaited.drop(seat.node))
    d.see(muster=muster)
    if muster.order.kind is not MusterKind.START and len(d.seen.unfinished) > 0:
        _come(d, muster, formation)


def _on_running(d: Draft, muster: JobMuster, report: MusterReport, was: MusterReport | None) -> None:
    order = muster.order
    if not report.is_running and not report.is_over and report.iteration == order.iteration + 1:
        _again(d, report)
        _order(d, muster, replace(order, number=order.number + 1, kind=MusterKind.INTERRUPT, sentence=report.broken))
        return
    if not report.is_running or report.iteration != order.iteration:
        return
    known = was.done if was is not None and was.is_running and was.acted.number == report.acted.number else 0
    muster = replace(muster, done=muster.done + report.done - known)
    d.see(muster=muster)
    if 0 < report.needed <= muster.done:
        d.set_timers(muster_at=None)
        _order(d, muster, replace(order, number=order.number + 1, kind=MusterKind.OVER))


def _come(d: Draft, muster: JobMuster, formation: Formation) -> None:
    d.see(muster=muster)
    reports = _reports(d, formation)
    if len(muster.awaited) > 0:
        if muster.order.kind is MusterKind.NOTHING and d.seen.timers.muster_at is None:
            _first_has_come(d, max((report.limit_s for _, report in reports), default=0.0))
        return
    members = tuple(sorted(rank for _, report in reports for rank in report.joined))
    smallest = min(max(report.min_world for _, report in reports), formation.world_size)
    if len(members) < smallest:
        sentence = f"{len(members)} ranks are left, and the function wants {smallest}"
        raise_faults(d, _lost(d, formation, members, sentence))
        return
    is_anew = any(report.is_anew for _, report in reports)
    start = MusterOrder(muster.order.number + 1, MusterKind.START, muster.order.gathers, members, is_anew=is_anew)
    d.set_timers(muster_at=None)
    _order(d, muster, start)


def _order(d: Draft, muster: JobMuster, order: MusterOrder) -> None:
    formation = d.job.running_formation
    old = out_of_place(d.seen, formation) if formation is not None else None
    if formation is not None and old is not None:
        raise_faults(d, [_not_told(d, formation, old, order)])
        return
    d.see(muster=replace(muster, order=order, awaited=_all(d), done=0))
    d.because = Because(
        Reason.OBSERVED, f"{order.kind} of iteration {order.iteration} in place {order.sentence}".strip()
    )
    d.touch_all()


def _not_told(d: Draft, formation: Formation, old: NodeId, order: MusterOrder) -> FaultRecord:
    """The fault in place of an order that no member is told."""
    what = f"{order.kind} of iteration {order.iteration} in place cannot be told to all"
    sentence = f"{what}: the launcher of {old} is of an earlier version than the service"
    sentence = f"{sentence} ({order.sentence})" if order.sentence else sentence
    because = Because(Reason.VERSION_MISMATCH, sentence)
    return FaultRecord(old, because, d.stamp.wall, formation.generation)


def _again(d: Draft, report: MusterReport) -> None:
    """Everybody has so long to come to the next iteration."""
    is_running = report.is_running or report.is_over
    d.set_timers(muster_at=None if is_running else _until(d, report.limit_s))


def _until(d: Draft, limit_s: float) -> Instant:
    return after(d.now, limit_s + margin_s(len(d.seen.members)))


def _first_has_come(d: Draft, limit_s: float) -> None:
    """The others have as long as ranks have to start: they come to their function in their own time."""
    d.set_timers(muster_at=_until(d, max(limit_s, d.limits.start_limit_s("process_group"))))


def _all(d: Draft) -> ShardMap[None]:
    return d.seen.unfinished


def _reports(d: Draft, formation: Formation) -> list[tuple[Seat, MusterReport]]:
    seats = [d.seen.seats.get(place.node) for place in formation.assignments]
    return [(seat, seat.observed.muster) for seat in seats if seat is not None and seat.observed.muster is not None]


def _lost(d: Draft, formation: Formation, members: tuple[Rank, ...], sentence: str) -> list[FaultRecord]:
    """A fault for the first rank that is not among those that are left."""
    for place in formation.assignments:
        for rank in range(place.base_rank, place.base_rank + place.local_world_size):
            if rank not in members:
                because = Because(Reason.WORKER_EXIT, f"rank {rank} has ended: {sentence}")
                return [FaultRecord(place.node, because, d.stamp.wall, formation.generation, rank=Rank(rank))]
    place = formation.assignments[0]
    return [FaultRecord(place.node, Because(Reason.WORKER_EXIT, sentence), d.stamp.wall, formation.generation)]


def muster_over(d: Draft) -> None:
    """Not everybody has come to the next iteration in time."""
    muster, formation = d.seen.muster, d.job.running_formation
    if muster is None or formation is None or muster.generation != formation.generation:
        return
    if muster.order.kind not in (MusterKind.INTERRUPT, MusterKind.NOTHING):
        return
    late = [place for place in formation.assignments if place.node in muster.awaited]
    for place in late[:1]:
        seat = d.seen.seats.get(place.node)
        report = seat.observed.muster if seat is not None else None
        missing = sorted(set(report.living) - set(report.joined)) if report is not None else []
        who = f"rank {missing[0]}" if missing else place.node
        sentence = f"{who} has not come to iteration {muster.order.gathers} in place in time"
        if report is None:
            sentence += ": no rank there has joined one (is its launcher or SDK of an older version?)"
        because = Because(Reason.WORKER_HUNG, sentence)
        rank = missing[0] if missing else None
        raise_faults(d, [FaultRecord(place.node, because, d.stamp.wall, formation.generation, rank=rank)])
