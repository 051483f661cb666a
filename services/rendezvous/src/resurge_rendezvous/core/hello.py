"""A launcher introduces itself: is it let in, as what, and what does its coming mean.

In order: same protocol · same job and specification · no older attempt · no older incarnation · no other living
launcher of the node (unless taken over). Surplus nodes are let in and parked. The first launcher opens the job; one
that knows a higher generation than the journal makes the service adopt it; a new one after the end begins an attempt.
"""

from __future__ import annotations

from resurge_libs.core.ids import Attempt, Generation, Incarnation
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import (
    AlreadyAttached,
    BadRequest,
    Refused,
    Superseded,
    Unready,
    VersionMismatch,
    WrongJob,
)
from resurge_libs.core.time_limits import WrongOrder
from resurge_libs.core.values import replace
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.actions import CloseStream
from resurge_rendezvous.core.asking import back_in_place
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.endings import forget_end
from resurge_rendezvous.core.events import HelloReceived
from resurge_rendezvous.core.faults import raise_faults
from resurge_rendezvous.core.job import Ended, Fenced, Proving, RecoveryOutcome, Running, Unopened
from resurge_rendezvous.core.limits import longest_lease_s
from resurge_rendezvous.core.losses import first_signal, renewed_lease
from resurge_rendezvous.core.nodes import NodeEntry
from resurge_rendezvous.core.presence import NOTHING_OBSERVED, Seat, Timers
from resurge_rendezvous.core.recoveries import close_recovery
from resurge_rendezvous.core.rules import differing_field, spec_violation
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.values import PROTOCOL_VERSION, Hello


def on_hello(d: Draft, event: HelloReceived) -> None:
    """Let a launcher in, or refuse it and end its stream."""
    hello = event.hello
    refusal = _refused(d, hello)
    if refusal is not None:
        d.do(CloseStream(hello.node, event.stream, refusal))
        d.because = _because_of(refusal)
        if isinstance(refusal, Superseded) and _knows_more(d, hello):
            _adopt(d, hello)  # it leaves, but the numbers that it has seen were given
        return
    d.because = Because(Reason.NODE_JOINED, f"{hello.node} attached with incarnation {hello.incarnation}")
    _begin(d, hello)
    if _knows_more(d, hello):
        _adopt(d, hello)
    _seat(d, event)


def _knows_more(d: Draft, hello: Hello) -> bool:
    return hello.highest_generation > d.job.generation or hello.highest_attempt > d.job.attempt


def is_same_launcher(entry: NodeEntry, hello: Hello) -> bool:
    """Whether the launcher that comes is the one that is known, and not another with the same number."""
    return (entry.incarnation, entry.boot_id, entry.pid) == (hello.incarnation, hello.boot_id, hello.pid)


def _on_same_host(entry: NodeEntry, hello: Hello) -> bool:
    """Whether the launcher that comes is where the known one was: another machine may have taken its host name."""
    is_other = entry.machine_id and hello.machine_id and entry.machine_id != hello.machine_id
    return hello.host == entry.host and not is_other


# --- refusing ---


def _refused(d: Draft, hello: Hello) -> Refused | None:
    if hello.protocol_version != PROTOCOL_VERSION:
        return VersionMismatch(hello.protocol_version, PROTOCOL_VERSION)
    violation = spec_violation(hello.spec)
    if violation is not None:
        return BadRequest.of(*violation)
    try:
        d.settings.limits_for(hello.spec)
    except WrongOrder as error:
        return BadRequest.of("lease_ttl_s", str(error))
    if d.job.spec is None:
        return None
    return _wrong_job(d, hello) or _wrong_launcher(d, hello)


def _wrong_job(d: Draft, hello: Hello) -> WrongJob | None:
    served, presented = d.spec, hello.spec
    if presented.job_id != served.job_id:
        return WrongJob(presented.job_id, served.job_id)
    if 0 < presented.attempt < served.attempt:
        return WrongJob(presented.job_id, served.job_id, "attempt", str(presented.attempt), str(served.attempt))
    field = None if _begins_attempt(d, hello) else differing_field(presented, served)
    if field is None:
        return None
    return WrongJob(presented.job_id, served.job_id, field, str(getattr(presented, field)), str(getattr(served, field)))


def _wrong_launcher(d: Draft, hello: Hello) -> Refused | None:
    entry = d.job.nodes.get(hello.node)
    if entry is None or is_same_launcher(entry, hello):
        return None
    if hello.incarnation < entry.incarnation:
        return Superseded(hello.node, hello.incarnation, entry.incarnation)
    seat = d.seen.seats.get(hello.node)
    if seat is None or seat.lease is None or hello.take_over:
        return None
    if seat.stream is not None:
        return AlreadyAttached(hello.node, entry.incarnation, f"{entry.host} (pid {entry.pid})")
    if seat.closed_by_peer_at is not None:
        # on the same host its lock saw to it that the earlier launcher is gone; elsewhere a launcher that lost its
        # stream, as by a pause of this service, is back before this is over
        returns_by = after(seat.closed_by_peer_at, d.limits.stream_loss_limit_s)
        if _on_same_host(entry, hello) or d.now >= returns_by:
            return None
    elif hello.boot_id != entry.boot_id and _on_same_host(entry, hello):
        return None  # the machine was started anew: the earlier launcher is gone with it
    sentence = f"incarnation {entry.incarnation} of {hello.node} may still come back until its lease is over; ask again"
    return Unready(Because(Reason.ALREADY_ATTACHED, sentence))


_CODES: dict[type[Refused], Reason] = {
    VersionMismatch: Reason.VERSION_MISMATCH,
    AlreadyAttached: Reason.ALREADY_ATTACHED,
    Superseded: Reason.SUPERSEDED,
    Unready: Reason.ALREADY_ATTACHED,
}


def _because_of(refusal: Refused) -> Because:
    return Because(_CODES.get(type(refusal), Reason.BAD_REQUEST), str(refusal))


# --- the job and its attempts ---


def _begins_attempt(d: Draft, hello: Hello) -> bool:
    """Whether this launcher is of a new launch of the job: by the scheduler's word, or a rerun after the end.

    The scheduler's numbers are compared with each other alone: reruns within one launch raise the job's own number.
    """
    if hello.spec.attempt > d.spec.attempt:
        return True
    if not isinstance(d.job.stage, Ended) or len(d.seen.unacknowledged) > 0:
        return False
    entry = d.job.nodes.get(hello.node)
    if entry is not None:
        return hello.incarnation > entry.incarnation  # started anew after the end, whatever its node remembers of it
    return hello.spec.attempt == 0 and hello.highest_attempt < d.job.attempt


def _begin(d: Draft, hello: Hello) -> None:
    if isinstance(d.job.stage, Unopened):
        attempt = Attempt(hello.spec.attempt or max(1, hello.highest_attempt))
        because = Because(Reason.ROUND_OPENED, f"job {hello.spec.job_id} was opened by {hello.node}")
        d.record(f.JobOpened(hello.spec, attempt, because))
    elif _begins_attempt(d, hello):
        attempt = Attempt(max(hello.spec.attempt, d.job.attempt + 1))
        because = Because(Reason.NEW_ATTEMPT, f"attempt {attempt} was begun by {hello.node}")
        _leave_stage(d, because)
        d.record(f.AttemptRaised(attempt, hello.spec, because))
        forget_end(d)
        _restart_gathering(d)
    else:
        return
    d.limits = d.settings.limits_for(d.job.spec)


def _adopt(d: Draft, hello: Hello) -> None:
    """This journal lost its end: take a number that nobody has used, tear down, and gather anew."""
    generation = Generation(max(hello.highest_generation, d.job.generation) + 1)
    attempt = Attempt(max(hello.highest_attempt, d.job.attempt))
    because = Because(
        Reason.JOURNAL_BEHIND,
        f"{hello.node} has seen generation {hello.highest_generation} of attempt {hello.highest_attempt}, the journal "
        f"knew {d.job.generation} of {d.job.attempt}: adopted {generation}, all workers must end",
    )
    _leave_stage(d, because)
    d.record(f.JournalBehindAdopted(generation, attempt, because))
    forget_end(d)
    _restart_gathering(d)
    # nodes of the lost generation that are not here yet may hold a lease that this service once granted
    unknown_s = longest_lease_s(d.limits, d.spec) + d.limits.lease_margin_s + d.limits.reconnect_window_s
    d.set_timers(not_before=after(d.now, unknown_s))
    d.because = because


def _leave_stage(d: Draft, because: Because) -> None:
    if d.job.open_incident is not None:
        close_recovery(d, RecoveryOutcome.ENDED, because, d.stamp.wall)


def _restart_gathering(d: Draft) -> None:
    timers = Timers(sweep_at=d.seen.timers.sweep_at, exclusion_at=d.seen.timers.exclusion_at)
    d.see(timers=timers, held_faults=(), waits_for=None, unacknowledged=ShardMap(), last_call_over=False)
    d.touch_all()


# --- the seat ---


def _seat(d: Draft, event: HelloReceived) -> None:
    hello = event.hello
    entry, old = d.job.nodes.get(hello.node), d.seen.seats.get(hello.node)
    same = entry is not None and is_same_launcher(entry, hello)
    if not same:
        d.record(f.NodeAdmitted(_admitted(hello, entry)))
    if old is not None and old.stream is not None and old.stream != event.stream:
        gone = None if same else Superseded(hello.node, old.incarnation, hello.incarnation)
        d.do(CloseStream(hello.node, old.stream, gone))
    lost = d.entry(hello.node).lost is not None
    d.put_seat(
        Seat(
            node=hello.node,
            incarnation=hello.incarnation,
            lease=None if lost else renewed_lease(d, old.lease if old is not None else None),
            stream=event.stream,
            last_heard=d.stamp.wall,
            observed=old.observed if old is not None and same else NOTHING_OBSERVED,
            leaving=old.leaving if old is not None and same else None,
            notice=old.notice if old is not None and same else None,
            revision=max(event.revision_seen, old.revision if old is not None else 0),
            clock=old.clock if old is not None and same else None,
            log_root=hello.log_root,
            log_prefix=hello.log_prefix,
            predecessor_until=_predecessor_until(d, old, entry, hello),
        )
    )
    out = d.seen.out_of_place
    d.see(out_of_place=out.drop(hello.node) if hello.in_place_version else out.put(hello.node, None))
    d.changed()
    _await_acknowledgement(d, hello, lost)
    d.mark_ready(hello.node)
    d.touch(hello.node)
    if not same and old is not None:
        _fault_of_newcomer(d, old, hello.incarnation)
    back_in_place(d, hello.node)


def _admitted(hello: Hello, known: NodeEntry | None) -> NodeEntry:
    entry = NodeEntry(
        node=hello.node,
        incarnation=hello.incarnation,
        boot_id=hello.boot_id,
        host=hello.host,
        pid=hello.pid,
        infra_rank=hello.infra_rank,
        domain=hello.domain,
        local_world_size=hello.local_world_size,
        address=hello.address,
        machine_id=hello.machine_id,
        is_id_given=hello.is_id_given,
    )
    if known is None:
        return entry
    return replace(
        entry,
        lost=known.lost,
        would_exclude=known.would_exclude,
        finished=known.finished,
    )


def _predecessor_until(d: Draft, old: Seat | None, entry: NodeEntry | None, hello: Hello) -> Instant | None:
    """Until when workers of the launcher that this one replaces may hold a lease, out of this one's sight.

    On one host its lock saw to it that the earlier launcher, and with it its workers, are gone; elsewhere its lease
    must be over first: the whole one, or what it shortened it to when it closed its stream itself.
    """
    if old is None or entry is None:
        return None
    earlier = old.predecessor_until
    if is_same_launcher(entry, hello) or _on_same_host(entry, hello) or old.lease is None:
        return earlier
    ends = old.lease.until
    if old.closed_by_peer_at is not None:
        ends = min(ends, after(old.closed_by_peer_at, d.limits.resume_window_s))
    return max(ends, earlier) if earlier is not None else ends


def _await_acknowledgement(d: Draft, hello: Hello, lost: bool) -> None:
    # once all had acknowledged they were told to leave: that is not taken back for a latecomer
    if isinstance(d.job.stage, Ended) and not lost and len(d.seen.unacknowledged) > 0:
        d.see(unacknowledged=d.seen.unacknowledged.put(hello.node, None))


def _fault_of_newcomer(d: Draft, old: Seat, incarnation: Incarnation) -> None:
    """A new launcher of a member: the workers of the one before are gone, or must go."""
    match d.job.stage:
        case Running(formation) | Proving(formation) if old.node in d.seen.unfinished:
            pass
        case Fenced(formation) if old.node in d.seen.busy:
            pass
        case _:
            return
    place = d.seen.members.get(old.node)
    if place is None or place.incarnation != old.incarnation:
        return
    at, error_s = first_signal(d, old) if old.stream is None else (d.stamp.wall, 0.0)
    code = Reason.SUPERSEDED if old.stream is not None else Reason.NODE_RETURNED
    because = Because(
        code, f"{old.node} came back as incarnation {incarnation}; its workers of {old.incarnation} are gone"
    )
    raise_faults(d, [FaultRecord(old.node, because, at, formation.generation, error_s)])
