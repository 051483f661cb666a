"""How a job ends: by success, by a verdict, by an order, for want of nodes. The first terminal decision stays.

It is journaled, sent to every node that holds a lease until each has acknowledged it or its lease is over, and told
to every launcher that comes later.
"""

from __future__ import annotations

from resurge_libs.core.end_cause import EndCause, end_cause_of
from resurge_libs.core.ids import FencingToken
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import EXIT_FAILED, EXIT_SUCCESS
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.actions import AnnounceKey
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.job import (
    Ended,
    Fenced,
    Gathering,
    Proving,
    RecoveryOutcome,
    Running,
    StoreEntry,
    TerminalDecision,
    Unopened,
)
from resurge_rendezvous.core.limits import SHUTDOWN_KEY
from resurge_rendezvous.core.presence import Timers
from resurge_rendezvous.core.recoveries import close_as_started, close_recovery
from resurge_rendezvous.core.shards import ShardMap


def terminate(d: Draft, exit_code: int, because: Because, cause: EndCause | None = None) -> None:
    """Record the end of the attempt and tell everybody; a later end changes nothing.

    `cause` where it is another than the reason's own, as for a STOP that was latched earlier.
    """
    if isinstance(d.job.stage, (Ended, Unopened)):
        return
    if d.job.open_incident is not None:
        close_recovery(d, RecoveryOutcome.ENDED, because, d.stamp.wall)
    # the number of the last generation, never of one to come: launchers remember it and present it later
    token = FencingToken(d.spec.job_id, d.job.attempt, d.job.generation)
    cause = end_cause_of(because.code) if cause is None else cause
    d.record(f.Terminated(TerminalDecision(exit_code, because, d.stamp.wall, token, cause)))
    d.record(f.StoreWritten(SHUTDOWN_KEY, StoreEntry(cause.value.encode(), token.generation)))
    d.do(AnnounceKey(SHUTDOWN_KEY))
    holders = ShardMap.of((seat.node, None) for seat in d.seen.seats.values() if seat.lease is not None)
    d.see(
        unacknowledged=holders,
        held_faults=(),
        waits_for=None,
        timers=Timers(sweep_at=d.seen.timers.sweep_at),
    )
    d.touch_all()
    d.because = because


def forget_end(d: Draft) -> None:
    """The attempt that ended is followed by another: its cause no longer stands in the store."""
    if SHUTDOWN_KEY in d.job.store:
        d.record(f.StoreWritten(SHUTDOWN_KEY, None))


def succeed_if_all_finished(d: Draft) -> None:
    """The job has succeeded when every member of the running generation has finished."""
    running = d.job.running_formation
    if running is None or len(d.seen.unfinished) > 0:
        return
    if d.job.drain is not None and d.job.drain.told:
        return  # they were told to stop: what follows is decided in drains.py
    if isinstance(d.job.stage, Proving):
        close_as_started(d, "all workers exited 0 before each had told of a committed step")
    sentence = f"all workers of generation {running.generation} exited 0 on all {len(running.assignments)} nodes"
    terminate(d, EXIT_SUCCESS, Because(Reason.SUCCEEDED, sentence))


def end_if_everyone_left(d: Draft) -> None:
    """Nobody is there and everybody was told to leave: the attempt is over, though no fault ended it."""
    match d.job.stage:
        case Gathering() | Fenced() | Running() | Proving():
            pass
        case _:
            return
    if d.job.last_formation is None or d.job.last_formation.attempt != d.job.attempt:
        return
    if any(seat.lease is not None for seat in d.seen.seats.values()):
        return
    reasons = [entry.lost for node in d.seen.members if (entry := d.job.nodes.get(node)) is not None]
    if any(lost is None or lost.code is not Reason.NODE_LEFT for lost in reasons):
        return
    terminate(d, EXIT_FAILED, Because(Reason.NODE_LEFT, "every launcher was told to leave and has left"))
