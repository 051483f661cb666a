"""Fresh processes in the places of ranks that were lost while they restart in place: granted or refused here.

Rules, in prose:

- A launcher that lost a rank asks; it forks none before this has said yes. A grant is journaled, and costs one restart
  of the job's budget, and of the bound of its cause where it has one: what crashes again and again runs out of it.
- It is refused where no restart is left, where the job is about to stop or the node to leave, and where a launcher or
  an SDK on another node would not know that ranks are given anew. The others then go on without the rank.
- While a member has not told of the generation, as after a restart of the service, nothing is known of its launcher and
  SDK, and nothing is decided before it has; the launcher that waits gives up by itself in time.
- A refusal is not journaled. A launcher that has not heard it asks again, and gives up by itself in time.
- Whoever came, or was given up, is told once more by its launcher, and journaled for people.
"""

from __future__ import annotations

from resurge_libs.core.fault_cause import cause_of
from resurge_libs.core.ids import NodeId
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.budgets import budget_of, may_restart_for
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.faults import corrected
from resurge_rendezvous.core.job import Formation
from resurge_rendezvous.core.presence import Seat
from resurge_rendezvous.core.refunds import await_refund
from resurge_rendezvous.core.replaced import known
from resurge_rendezvous.core.replacement_values import ObservedReplacement, Refusal, ReplacedRank, ReplacementStage


def replacements_told(d: Draft, seat: Seat, formation: Formation) -> None:
    """Decide about those that a member asks for, and those that waited for its word; keep what became of the others."""
    if seat.observed.generation != formation.generation or seat.node not in d.seen.members:
        return
    _told(d, seat, formation)
    if d.seen.unheard == seat.node:
        d.see(unheard=None)
        for place in formation.assignments:
            asking = d.seen.seats.get(place.node)
            if asking is not None and asking.observed.replacements:
                replacements_told(d, asking, formation)


def _told(d: Draft, seat: Seat, formation: Formation) -> None:
    for one in seat.observed.replacements:
        record = known(d.job, formation.generation, seat.node, one.number)
        if record is None and one.stage is ReplacementStage.WANTED:
            _decide(d, seat, formation, one)
        elif record is not None and record.settled_wall is None and one.settled_at is not None:
            at = corrected(d, seat, one.settled_at)
            sentence = one.sentence or "its launcher gave it up" if one.stage is ReplacementStage.GIVEN_UP else ""
            d.record(f.ReplacementSettled(record.node, record.generation, record.number, one.pid, at, sentence))
            d.changed()
            d.because = Because(Reason.OBSERVED, f"rank {one.rank} is replaced{', not' if sentence else ''}")


def _decide(d: Draft, seat: Seat, formation: Formation, one: ObservedReplacement) -> None:
    refusal = d.seen.refusals.get(seat.node)
    if refusal is not None and refusal.generation == formation.generation and one.number <= refusal.upto:
        return
    unheard = next((place.node for place in formation.assignments if not _is_heard(d, place.node, formation)), None)
    if unheard is not None:
        d.see(unheard=unheard)
        d.because = Because(Reason.OBSERVED, f"rank {one.rank} is decided about when {unheard} has told how it is")
        return
    sentence = _why_not(d, seat, formation, one)
    if sentence:
        refused = Refusal(formation.generation, one.number, sentence)
        d.see(refusals=d.seen.refusals.put(seat.node, refused))
        d.because = Because(Reason.OBSERVED, f"rank {one.rank} is not replaced: {sentence}")
    else:
        record = ReplacedRank(
            node=seat.node,
            attempt=formation.attempt,
            generation=formation.generation,
            cycle=formation.cycle,
            number=one.number,
            rank=one.rank,
            iteration=one.iteration,
            because=one.because,
            lost_wall=corrected(d, seat, one.lost_at),
            granted_wall=d.stamp.wall,
            lost_pid=one.lost_pid,
        )
        d.record(f.RankReplaced(record))
        d.changed()
        d.because = Because(one.because.code, f"{one.because.sentence}: a fresh process takes its place")
        await_refund(d)
    d.touch(seat.node)


def _is_heard(d: Draft, node: NodeId, formation: Formation) -> bool:
    """Whether a member has told of the generation since the service has started."""
    seat = d.seen.seats.get(node)
    return seat is not None and seat.observed.generation == formation.generation


def _why_not(d: Draft, seat: Seat, formation: Formation, one: ObservedReplacement) -> str:
    """Why a rank gets no fresh process; empty where it does."""
    if d.job.drain is not None or seat.is_going:
        return "the ranks are about to stop"
    if d.job.no_restart is not None:
        return "the job is not to be restarted any more"
    if not may_restart_for(d.job, d.spec, cause_of(one.because.code)):
        budget = budget_of(d.job, d.spec)
        allowed = budget.max_restarts + budget.refunded
        return f"no restart is left: {budget.spent} of {allowed} are spent (--max-restarts)"
    if len(formation.assignments) == 1:
        return ""
    for place in formation.assignments:
        member = d.seen.seats.get(place.node)
        report = member.observed.muster if member is not None else None
        if report is None or not report.can_renew:
            return f"nothing says that the launcher and the SDK on {place.node} know of fresh processes"
    return ""
