"""A node loses its lease, or gets it back.

Lost is a durable decision about the node; whether it is a fault depends on what the node was: a member that had not
finished is one, a spare is not. A lost node gets its lease back only when it holds nothing of a fenced generation.
"""

from __future__ import annotations

from collections.abc import Sequence

from resurge_libs.core.instant import Instant, Wall
from resurge_libs.core.lease import Lease
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.clearing import confirm, is_clear
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.endings import end_if_everyone_left
from resurge_rendezvous.core.faults import raise_faults
from resurge_rendezvous.core.goals import member_of_last
from resurge_rendezvous.core.job import Ended, Fenced, Proving, Running
from resurge_rendezvous.core.presence import Seat
from resurge_rendezvous.core.values import NodePhase

LEFT_AFTER_END = Reason.ACKNOWLEDGED
"""Why a node's lease is over whose launcher had nothing left to do."""


def renewed_lease(d: Draft, held: Lease | None = None, granted_s: float | None = None) -> Lease:
    """A lease from now, never shorter than the one held; the service waits a margin longer than the launcher counts."""
    term_s = (d.limits.lease_ttl_s if granted_s is None else granted_s) + d.limits.lease_margin_s
    return Lease.starting(d.now, term_s) if held is None else held.renewed(d.now, term_s)


def lose_overdue(d: Draft, seats: Sequence[Seat]) -> None:
    """These nodes' promises are over; all faults of one look at the table are one story."""
    faults = [fault for seat in seats if (fault := lose(d, seat, _why_lost(d, seat))) is not None]
    if faults:
        raise_faults(d, faults)
    end_if_everyone_left(d)


def _why_lost(d: Draft, seat: Seat) -> Because:
    if seat.doomed is not None:
        return seat.doomed
    if seat.leaving is not None and seat.closed_by_peer_at is not None:
        return seat.leaving
    if _left_after_end(d, seat):
        return Because(LEFT_AFTER_END, "the job has ended, and its launcher has left")
    if seat.closed_by_peer_at is not None:
        silent_s = d.now - seat.closed_by_peer_at
        return Because(
            Reason.STREAM_LOST, f"{seat.node}: its launcher closed the stream {silent_s:.1f} s ago and is not back"
        )
    return Because(Reason.LEASE_EXPIRED, f"{seat.node} has been silent for its lease of {_lease_s(d, seat):g} s")


def _left_after_end(d: Draft, seat: Seat) -> bool:
    """Whether its launcher closed the stream when the job had ended: no loss, whatever it did not say before."""
    if not isinstance(d.job.stage, Ended) or seat.closed_by_peer_at is None or seat.silent_since is None:
        return False
    return seat.silent_since >= d.job.stage.decision.at


def _lease_s(d: Draft, seat: Seat) -> float:
    return seat.granted_s or d.limits.lease_ttl_s


def lose(d: Draft, seat: Seat, because: Because) -> FaultRecord | None:
    """End a node's lease. Returns the fault that this is for the newest generation, if it is one."""
    node, was_member = seat.node, seat.node in d.seen.members
    if was_member and seat.closed_by_peer_at is not None:
        ends = seat.lease.until if seat.lease is not None else d.now
        d.see(known_dead=d.seen.known_dead.put(node, Instant(max(ends, d.now))))
    d.record(f.NodeLost(node, because))
    seats = d.seen.seats
    seats = seats.put(node, replace(seat, lease=None, doomed=None)) if seat.stream is not None else seats.drop(node)
    d.restated[node] = None
    d.see(seats=seats, busy=d.seen.busy.drop(node), ready=d.seen.ready.drop(node))
    acknowledged(d, seat)
    d.touch(node)
    d.because = because
    if not was_member or member_of_last(d.seen, seat) is None:
        return None
    return _fault_of_loss(d, seat, because)


def _fault_of_loss(d: Draft, seat: Seat, because: Because) -> FaultRecord | None:
    match d.job.stage:
        case Running(formation) | Proving(formation):
            if seat.node not in d.seen.unfinished:
                return None  # all its workers had exited 0: the loss of its launcher harms nothing
        case Fenced(formation):
            if because.code is Reason.NODE_LEFT:
                return None  # told already when the signal came
        case _:
            return None
    at, error_s = first_signal(d, seat)
    return FaultRecord(seat.node, because, at, formation.generation, error_s)


def first_signal(d: Draft, seat: Seat) -> tuple[Wall, float]:
    """When a lost node's first signal was, and how far that may be off: its stream's end, or the first beat missed."""
    if seat.silent_since is not None:
        return seat.silent_since, seat.unseen_s
    half_s = d.limits.beat_interval_s / 2
    heard = seat.last_heard if seat.last_heard is not None else Wall(d.stamp.wall - d.limits.lease_ttl_s)
    return Wall(min(heard + half_s, d.stamp.wall)), half_s


def acknowledged(d: Draft, seat: Seat) -> None:
    """A node needs no longer be waited for at the end: it knows the decision, or it is gone."""
    if seat.node in d.seen.unacknowledged:
        d.see(unacknowledged=d.seen.unacknowledged.drop(seat.node))
        if len(d.seen.unacknowledged) == 0:
            d.touch_all()  # they may leave now


def settle_presence(d: Draft, seat: Seat) -> None:
    """After a node was heard: is it clear, may it have its lease back, does a round have to wait for it."""
    node = seat.node
    if is_clear(d, seat):
        if seat.lease is None:
            seat = _returned(d, seat)
        if seat.doomed is not None:
            seat = replace(seat, doomed=None)
            d.put_seat(seat)
        confirm(d, seat)
    elif seat.lease is None and _holds_running(d, seat):
        seat = _returned(d, seat)
        d.see(
            busy=d.seen.busy.put(node, None),
            held_faults=tuple(fault for fault in d.seen.held_faults if fault.node != node or fault.rank is not None),
        )
    elif seat.lease is not None and seat.observed.phase is not NodePhase.READY and node not in d.seen.busy:
        d.see(busy=d.seen.busy.put(node, None))
    d.mark_ready(node)


def _holds_running(d: Draft, seat: Seat) -> bool:
    running = d.job.running_formation
    return (
        running is not None
        and member_of_last(d.seen, seat) is not None
        and seat.observed.generation == running.generation
        and seat.observed.phase in (NodePhase.STARTING, NodePhase.RUNNING, NodePhase.FINISHED)
    )


def _returned(d: Draft, seat: Seat) -> Seat:
    if d.entry(seat.node).lost is not None:
        d.record(f.NodeReturned(seat.node))
        d.because = Because(Reason.NODE_RETURNED, f"{seat.node} is back and holds nothing that is fenced")
    back = replace(seat, lease=renewed_lease(d))
    d.put_seat(back)
    d.see(known_dead=d.seen.known_dead.drop(seat.node))
    return back
