"""When a node is clear: nothing of the newest generation, or of an older one, is alive there, and it said so."""

from __future__ import annotations

from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.goals import member_of_last
from resurge_rendezvous.core.job import Fenced
from resurge_rendezvous.core.presence import Seat
from resurge_rendezvous.core.values import NodePhase


def is_clear(d: Draft, seat: Seat) -> bool:
    """Whether the node has confirmed that nothing of the newest generation, or an older one, lives there."""
    if seat.observed.phase is not NodePhase.READY:
        return False
    if seat.predecessor_until is not None and d.now < seat.predecessor_until:
        return False
    last = d.job.last_formation
    if last is None or member_of_last(d.seen, seat) is None:
        return True
    told_down = seat.down_revision > 0 and seat.observed.revision_seen >= seat.down_revision
    return told_down or seat.observed.generation >= last.generation


def confirm(d: Draft, seat: Seat) -> None:
    """A clear node keeps no round waiting; the first member to be clear shows that the rest cannot run on."""
    d.see(busy=d.seen.busy.drop(seat.node))
    match d.job.stage:
        case Fenced(formation, incident) if seat.node in d.seen.members and seat.node not in d.seen.confirmed:
            d.see(confirmed=d.seen.confirmed.put(seat.node, None))
            d.because = Because(Reason.TEARDOWN_CONFIRMED, f"{seat.node} has ended generation {formation.generation}")
            if incident.split_ruled_out is None:
                d.record(f.SplitRuledOut(formation.generation, d.because))
        case _:
            return


def confirm_members(d: Draft) -> None:
    """At a fence: members that were clear before it need not say so again."""
    for seat in d.seen.seats.values():
        if seat.node in d.seen.members and seat.lease is not None and is_clear(d, seat):
            confirm(d, seat)
