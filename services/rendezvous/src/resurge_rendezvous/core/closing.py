"""Losses in sight: members whose kernel closed the stream, while their launcher may still come back.

They are no faults yet, and nothing is decided by them alone. But the verdict of a round is asked for before they are
settled: where such a loss would be what began it all, policy is told so, and not that a peer's rank is to blame. One
that comes into sight before the verdict is there is told as well (asking.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from resurge_libs.core.reasons import Because, Reason, vagueness
from resurge_rendezvous.core.causes import FaultRecord, standing_before
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.fold import FAULTS_MAX
from resurge_rendezvous.core.goals import member_of_last
from resurge_rendezvous.core.job import Formation, Incident
from resurge_rendezvous.core.presence import Seat


def with_losses_in_sight(d: Draft, formation: Formation, faults: Sequence[FaultRecord]) -> tuple[FaultRecord, ...]:
    """The faults of an incident, and the losses in sight that would stand before all of its present round, as far as
    there is room."""
    present = [fault for fault in faults if fault.generation == formation.generation]
    told = {fault.node for fault in present if fault.rank is None}
    closed = [seat for seat in d.seen.seats.values() if seat.closed_by_peer_at is not None and seat.node not in told]
    in_sight = [loss for seat in closed if (loss := _in_sight(d, seat, formation)) is not None]
    room = max(0, FAULTS_MAX - len(faults))
    return (*faults, *standing_before(in_sight, present)[:room])


def of_round(formation: Formation, incident: Incident) -> list[FaultRecord]:
    """The faults of an incident's present round."""
    return [fault for fault in incident.faults if fault.generation == formation.generation]


def stands_first(d: Draft, seat: Seat, formation: Formation, incident: Incident) -> bool:
    """Whether the loss of a seat, in sight since now, would stand before all faults of the round, and before the loss
    in sight that policy was told of."""
    loss = _in_sight(d, seat, formation) if seat.closed_by_peer_at is not None else None
    if loss is None:
        return False
    since = loss.at - (loss.clock_error_s or 0.0)
    faults = of_round(formation, incident)
    if any(fault.at < since and vagueness(fault.because.code) == 0 for fault in faults):
        return False  # thousands may close at once, and hardly any lies before what is known
    culprit = incident.view.culprit
    known = d.seen.seats.get(culprit.node) if culprit is not None and culprit.node != seat.node else None
    other = _in_sight(d, known, formation) if known is not None and known.closed_by_peer_at is not None else None
    return bool(standing_before([loss], faults if other is None else [*faults, other]))


def _in_sight(d: Draft, seat: Seat, formation: Formation) -> FaultRecord | None:
    going = seat.leaving is not None or seat.doomed is not None or seat.lease is None
    if going or seat.silent_since is None or seat.node not in d.seen.unfinished or member_of_last(d.seen, seat) is None:
        return None
    because = Because(Reason.STREAM_LOST, f"{seat.node}: its launcher closed the stream and is not back yet")
    return FaultRecord(seat.node, because, seat.silent_since, formation.generation, seat.unseen_s)
