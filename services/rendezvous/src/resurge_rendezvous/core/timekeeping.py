"""Books the job's time: what it does now follows from the state, and each change is a booking in the ledger.

Bookings are volatile until some other fact is journaled, and go with it, so that keeping time never costs a write of
its own. A restart of the service loses at most those since then; what it does then is told again by the launchers,
with the times of their milestones.
"""

from __future__ import annotations

from collections.abc import Iterator

from resurge_libs.core.instant import Wall
from resurge_libs.core.ledger import Booking, Doing, Ledger
from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.events import Event, ObservedReceived
from resurge_rendezvous.core.job import Ended, Fenced, Gathering, Job, Proving, Running, Unopened
from resurge_rendezvous.core.presence import RdzvState
from resurge_rendezvous.core.values import MilestoneKind

WAITS = frozenset({
    Reason.BELOW_MIN_NODES, Reason.SEGMENT_UNFILLED, Reason.BACKOFF, Reason.ALL_LOST_WAIT, Reason.LAST_CALL,
})  # fmt: skip
_STARTING = (Doing.START, Doing.RESTORE, Doing.TRAINING)
_ENDS = (MilestoneKind.PROCESS_GROUP_READY, MilestoneKind.CHECKPOINT_RESTORED)
"""What ends START, and what ends RESTORE."""


def keep_time(d: Draft, before: Job, event: Event) -> None:
    """Book what changed with this event. `before` is the durable state that it met."""
    if d.job.spec is None:
        return
    bookings = (*_steps(d, event), *_changes(d, before))
    if bookings:
        d.see(bookings=(*d.seen.bookings, *bookings))
    if d.facts and d.seen.bookings:
        d.record(f.TimeBooked(d.seen.bookings))
        d.see(bookings=())


def ledger_of(state: RdzvState) -> Ledger:
    """The ledger with what is not journaled yet."""
    ledger = state.durable.ledger
    for booking in state.volatile.bookings:
        ledger = ledger.booked(booking)
    return ledger


def _doing(d: Draft) -> Doing:
    return d.seen.bookings[-1].doing if d.seen.bookings else d.job.ledger.doing


def _steps(d: Draft, event: Event) -> Iterator[Booking]:
    """The highest step that a worker of the newest generation is known to have committed, when it rose."""
    last = d.job.last_formation
    if not isinstance(event, ObservedReceived) or last is None or event.observed.generation != last.generation:
        return
    step = max((record.last_step for record in event.observed.exits if record.last_step is not None), default=None)
    if step is not None and (d.seen.last_step is None or step > d.seen.last_step):
        d.see(last_step=step)
        yield Booking(_doing(d), d.job.ledger.reached, committed=step)


def _changes(d: Draft, before: Job) -> Iterator[Booking]:
    was, now = _doing(d), d.stamp.wall
    if d.job.ledger.begun is None and not d.seen.bookings:
        yield Booking(was, now)
    match d.job.stage:
        case Unopened():
            return
        case Gathering():
            yield from _change(was, Doing.WAITING if _waits(d) else Doing.RENDEZVOUS, now)
        case Fenced(incident=incident):
            if isinstance(before.stage, (Running, Proving)):
                signal = min(fault.at for fault in incident.faults if fault.generation == incident.now_round.generation)
                yield Booking(Doing.DETECTION, signal)
                was = Doing.DETECTION
            busy = len(d.seen.busy) > 0
            resting = Doing.WAITING if _waits(d) else Doing.RENDEZVOUS
            yield from _change(was, Doing.TEARDOWN if busy else resting, now)
        case Running() | Proving():
            yield from _started(d, was, now)
        case Ended():
            yield from _change(was, Doing.WAITING, now)


def _change(was: Doing, now_doing: Doing, at: Wall) -> Iterator[Booking]:
    if now_doing is not was:
        yield Booking(now_doing, at)


def _waits(d: Draft) -> bool:
    return d.seen.waits_for is not None and d.seen.waits_for.code in WAITS


def _started(d: Draft, was: Doing, now: Wall) -> Iterator[Booking]:
    """From START to RESTORE to TRAINING, never back: after a restart of the service the watch begins anew."""
    if was not in _STARTING:
        d.see(last_step=None)
        yield Booking(Doing.START, now)
        was = Doing.START
    reached = _reached(d)
    for place in range(_STARTING.index(was), reached):
        entered = _STARTING[place + 1]
        is_training = entered is Doing.TRAINING
        restored = _restored_step(d) if is_training else None
        yield Booking(entered, _when(d, _ENDS[place], now), restored=restored, has_restored=is_training)


def _reached(d: Draft) -> int:
    """How many of the phases before training every rank has left."""
    stage = d.job.stage
    assert isinstance(stage, (Running, Proving)), "only a running generation starts"
    if not d.job.known_milestones:  # no worker of this job says more than that it runs
        return len(_ENDS) if len(d.seen.start.running) == len(stage.formation.assignments) else 0
    counts = dict(d.seen.start.reached)
    passed = [counts.get(kind, 0) >= stage.formation.world_size for kind in _ENDS]
    return 0 if not passed[0] else 1 if not passed[1] else 2


def _when(d: Draft, kind: MilestoneKind, now: Wall) -> Wall:
    told = [at for start in d.seen.start.ranks.values() if (at := start.when(kind)) is not None]
    return max(told, default=now)


def _restored_step(d: Draft) -> int | None:
    steps = [start.restored_step for start in d.seen.start.ranks.values() if start.restored_step is not None]
    return min(steps) if steps else None
