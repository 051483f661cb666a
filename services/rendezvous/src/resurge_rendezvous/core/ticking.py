"""Deadlines that have come, and pauses of the service. Each deadline is cleared before it acts, so none repeats."""

from __future__ import annotations

from collections.abc import Callable

from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_rendezvous.core.aborts import aborts_over
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.drains import agreement_over, drain_over
from resurge_rendezvous.core.events import Paused
from resurge_rendezvous.core.excluding import exclusions_over
from resurge_rendezvous.core.faults import corrected, fence, raise_faults
from resurge_rendezvous.core.job import Formation, Proving, Running
from resurge_rendezvous.core.losses import lose_overdue, settle_presence
from resurge_rendezvous.core.musters import muster_over
from resurge_rendezvous.core.observing import doom
from resurge_rendezvous.core.presence import Seat
from resurge_rendezvous.core.progressing import marker_over
from resurge_rendezvous.core.refunds import refund_due
from resurge_rendezvous.core.rounds import advance, all_lost_over, last_call_over, quorum_over
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.starts import settled, start_phase_over
from resurge_rendezvous.core.sweeps import next_sweep, overdue, succeeded
from resurge_rendezvous.core.verdicts import verdict_due


def on_tick(d: Draft) -> None:
    """Act on every deadline that has come, in the order of `_DUTIES`."""
    d.because = Because(Reason.TICK)
    for name, duty in _DUTIES:
        due = getattr(d.seen.timers, name)
        if due is not None and due <= d.now:
            d.set_timers(**{name: None})
            duty(d)


def on_paused(d: Draft, event: Paused) -> None:
    """The service did not run for a while: nobody could have been heard in that time, so it counts for nobody."""
    for_s = max(0.0, event.for_s)
    d.see(
        seats=ShardMap.of((seat.node, _extended(seat, for_s)) for seat in d.seen.seats.values()),
        known_dead=ShardMap.of(
            (node, Instant(ends + for_s))
            for node in d.seen.known_dead
            if (ends := d.seen.known_dead.get(node)) is not None
        ),
        timers=d.seen.timers.shifted(for_s),
    )
    d.because = Because(
        Reason.PAUSED, f"the service did not run for {for_s:.1f} s; all leases and limits are longer by it"
    )


def _extended(seat: Seat, for_s: float) -> Seat:
    lease, closed_at, until = seat.lease, seat.closed_by_peer_at, seat.predecessor_until
    return replace(
        seat,
        lease=None if lease is None else lease.extended_by(for_s),
        closed_by_peer_at=None if closed_at is None else Instant(closed_at + for_s),
        predecessor_until=None if until is None else Instant(until + for_s),
    )


def _sweep(d: Draft) -> None:
    for seat in succeeded(d):
        alone = replace(seat, predecessor_until=None)
        d.put_seat(alone)
        settle_presence(d, alone)
        d.touch(alone.node)
    while seats := overdue(d):  # a loss may fence, and then closed streams have only the resume window
        lose_overdue(d, seats)
    d.set_timers(sweep_at=next_sweep(d))


def _fence_held(d: Draft) -> None:
    if d.seen.held_faults and d.job.running_formation is not None:
        fence(d, d.seen.held_faults)


def _skewed(d: Draft) -> None:
    match d.job.stage:
        case Running(formation) | Proving(formation) if len(d.seen.unfinished) > 0:
            raise_faults(d, [_earliest_finisher(d, formation)], hold=False)
        case _:
            return


def _earliest_finisher(d: Draft, formation: Formation) -> FaultRecord:
    limit_s = d.limits.finish_skew_limit_s
    done = [
        (corrected(d, seat, record.at), seat.node, record.rank)
        for seat in d.seen.seats.values()
        if seat.observed.generation == formation.generation and seat.node in d.seen.members
        for record in seat.observed.exits
        if record.is_success
    ]
    if done:
        at, node, rank = min(done)
        sentence = f"rank {rank} exited 0, and {limit_s:g} s later its peers still run"
        return FaultRecord(
            node, Because(Reason.FINISH_SKEW, sentence), at, formation.generation, rank=rank, exit_code=0
        )
    finished = [place.node for place in formation.assignments if place.node not in d.seen.unfinished]
    node = finished[0] if finished else formation.assignments[0].node
    because = Because(Reason.FINISH_SKEW, f"{node} finished, and {limit_s:g} s later others still run")
    return FaultRecord(node, because, d.stamp.wall, formation.generation)


def _give_up_teardown(d: Draft) -> None:
    for node in d.seen.busy:
        seat = d.seen.seats.get(node)
        if seat is not None and seat.doomed is None:
            doom(d, seat, Because(Reason.NODE_STUCK, f"{node} has not confirmed its teardown in time"))


def _quorum(d: Draft) -> None:
    advance(d)
    quorum_over(d)


def _nothing(d: Draft) -> None:
    """The round is looked at after every event anyway."""


_DUTIES: tuple[tuple[str, Callable[[Draft], None]], ...] = (
    ("exclusion_at", exclusions_over),
    ("sweep_at", _sweep),
    ("fence_at", _fence_held),
    ("skew_at", _skewed),
    ("start_phase_at", start_phase_over),
    ("settle_at", settled),
    ("refund_at", refund_due),
    ("marker_at", marker_over),
    ("agree_at", agreement_over),
    ("drain_at", drain_over),
    ("abort_at", aborts_over),
    ("muster_at", muster_over),
    ("verdict_at", verdict_due),
    ("teardown_at", _give_up_teardown),
    ("not_before", _nothing),
    ("all_lost_at", all_lost_over),
    ("last_call_at", last_call_over),
    ("quorum_at", _quorum),
)
