"""What launchers tell: observed states, beats, the end of a stream. Old streams are not listened to.

Observed states are whole and may repeat: each is compared with what is known, and only news has consequences.
"""

from __future__ import annotations

from resurge_libs.core.instant import Wall, after
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.aborts import pass_on
from resurge_rendezvous.core.actions import AnswerBeat
from resurge_rendezvous.core.asking import closed_in_sight
from resurge_rendezvous.core.clearing import is_clear
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.drains import told_to_leave
from resurge_rendezvous.core.endings import end_if_everyone_left, succeed_if_all_finished
from resurge_rendezvous.core.events import BeatReceived, BeatsReceived, ObservedReceived, StreamClosed
from resurge_rendezvous.core.faults import faults_observed, raise_faults, unseen_s
from resurge_rendezvous.core.goals import member_of_last
from resurge_rendezvous.core.job import Ended, Fenced, Formation, Gathering, Proving, Running, Unopened
from resurge_rendezvous.core.limits import granted_lease_s
from resurge_rendezvous.core.losses import acknowledged, lose_overdue, renewed_lease, settle_presence
from resurge_rendezvous.core.musters import muster_news
from resurge_rendezvous.core.presence import ClockReading, Seat
from resurge_rendezvous.core.progressing import note_baseline
from resurge_rendezvous.core.recoveries import keep_spans
from resurge_rendezvous.core.replacing import replacements_told
from resurge_rendezvous.core.starts import note_start
from resurge_rendezvous.core.values import NodePhase, Observed

BEAT = Because(Reason.BEAT)


def heard_on(d: Draft, node: str, stream: str) -> Seat | None:
    """The seat, if this is its present stream; None for late words of an old one."""
    seat = d.seen.seats.get(node)
    if seat is not None and seat.stream == stream:
        return seat
    d.because = Because(Reason.LATE_EVENT_IGNORED, f"stream {stream} of {node} is not its present one")
    return None


def on_observed(d: Draft, event: ObservedReceived) -> None:
    """A launcher told its whole state."""
    known = heard_on(d, event.node, event.stream)
    if known is None:
        return
    before = known.observed
    leaving, notice = _leaving(known, event.observed), _notice(known, event.observed)
    news = (leaving, notice) != (known.leaving, known.notice)
    seat = replace(known, observed=event.observed, last_heard=d.stamp.wall, leaving=leaving, notice=notice)
    d.put_seat(seat)
    if (before.phase, before.generation) != (event.observed.phase, event.observed.generation):
        d.changed()
    d.because = Because(Reason.OBSERVED, f"{seat.node} is {seat.observed.phase}")
    keep_spans(d, seat, before.spans)
    if news:
        told_to_leave(d, seat)
    match d.job.stage:
        case Running(formation) | Proving(formation):
            _member_news(d, seat, formation)
            pass_on(d, seat, before.aborts if before.generation == formation.generation else (), formation)
            if d.job.running_formation is not None:
                muster_news(d, seat, before, formation)
                replacements_told(d, seat, formation)
        case Fenced(formation):
            if member_of_last(d.seen, seat) is not None and event.observed.generation == formation.generation:
                raise_faults(
                    d, [fault for fault in faults_observed(d, seat, formation) if _is_harm(fault.because.code)]
                )
        case Ended():
            if event.observed.exit_acknowledged:
                d.because = Because(Reason.ACKNOWLEDGED, f"{seat.node} knows the terminal decision")
                acknowledged(d, seat)
        case Gathering() | Unopened():
            pass
    _give_up_if_stuck(d, seat)
    now = d.seen.seats.get(event.node)
    if now is not None:
        settle_presence(d, now)
    succeed_if_all_finished(d)
    d.touch(event.node)


def _leaving(known: Seat, observed: Observed) -> Because | None:
    if known.leaving is not None:
        return known.leaving
    if observed.leaving_signal is not None:
        return Because(Reason.NODE_LEFT, f"{known.node} was told to leave by signal {observed.leaving_signal}")
    if observed.phase is NodePhase.LEAVING:
        return Because(Reason.NODE_LEFT, f"{known.node} was told to leave")
    return None


def _notice(known: Seat, observed: Observed) -> Because | None:
    signal = observed.draining.notice_signal
    if known.notice is not None or signal is None:
        return known.notice
    return Because(Reason.DRAINING, f"{known.node} was told by signal {signal} to leave")


def _is_harm(code: Reason) -> bool:
    """Whether it still counts while everything is torn down: a node that is clear does what it should."""
    return code is not Reason.ENDED_ITS_WORKERS


def _member_news(d: Draft, seat: Seat, formation: Formation) -> None:
    place = member_of_last(d.seen, seat)
    if place is None:
        return
    observed = seat.observed
    note_baseline(d, seat, place, formation)
    note_start(d, seat, place, formation)
    if observed.generation == formation.generation:
        if observed.phase is NodePhase.FINISHED and seat.node in d.seen.unfinished:
            d.record(f.NodeFinished(seat.node, formation.generation, observed.draining.told))
            d.see(unfinished=d.seen.unfinished.drop(seat.node))
            d.because = Because(Reason.FINISHED, f"all workers of {seat.node} exited 0")
        some_done = observed.phase is NodePhase.FINISHED or any(record.is_success for record in observed.exits)
        if some_done and d.seen.timers.skew_at is None:
            d.set_timers(skew_at=after(d.now, d.limits.finish_skew_limit_s))
    if len(d.seen.unfinished) > 0:
        raise_faults(d, faults_observed(d, seat, formation))


def _give_up_if_stuck(d: Draft, seat: Seat) -> None:
    """No more beats are granted to a node that cannot end its workers; it is lost when its last lease is over."""
    if seat.observed.phase is not NodePhase.STUCK or seat.doomed is not None or seat.lease is None:
        return
    doom(
        d,
        seat,
        Because(Reason.NODE_STUCK, f"{seat.node} cannot end its workers of generation {seat.observed.generation}"),
    )


def doom(d: Draft, seat: Seat, because: Because) -> None:
    """Renew a node's lease no more."""
    now = d.seen.seats.get(seat.node)
    if now is None or now.lease is None:
        return
    d.put_seat(replace(now, doomed=because))
    d.see(ready=d.seen.ready.drop(seat.node))
    d.because = because
    d.changed()


def on_beat(d: Draft, event: BeatReceived) -> None:
    """A beat renews the lease, unless the node has lost it or is given up."""
    seat = _beaten(d, event)
    if seat is not None:
        d.put_seat(seat)


def on_beats(d: Draft, event: BeatsReceived) -> None:
    """Beats that came together: the table is changed once."""
    d.put_seats([(seat.node, seat) for beat in event.beats if (seat := _beaten(d, beat)) is not None])


def _beaten(d: Draft, event: BeatReceived) -> Seat | None:
    seat = heard_on(d, event.node, event.stream)
    if seat is None:
        return None
    clock = seat.clock
    if event.clock_offset_s is not None:
        clock = ClockReading(event.clock_offset_s, event.clock_error_s or 0.0)
    granted_s = 0.0
    lease = seat.lease
    if lease is not None and seat.doomed is None:
        granted_s = granted_lease_s(d.limits, min(_direct(d, event), d.spec.max_nodes))
        lease = renewed_lease(d, lease, granted_s)
    d.because = BEAT
    d.do(AnswerBeat(event.node, event.stream, event.sequence, event.launcher_sent, d.stamp.wall, granted_s))
    said_at = seat.said_at if clock is None else Wall(event.launcher_sent + clock.offset_s - clock.error_s)
    return replace(seat, lease=lease, granted_s=granted_s, clock=clock, last_heard=d.stamp.wall, said_at=said_at)


def _direct(d: Draft, event: BeatReceived) -> int:
    """Launchers that share the beats' cost with this one: while a first round gathers, also those that it waits for, so
    that whoever comes first does not beat at a small job's pace while ten thousand others join."""
    gathers = event.direct > 0 and isinstance(d.job.stage, Gathering)
    return max(event.direct, d.spec.min_nodes) if gathers else event.direct


def on_closed(d: Draft, event: StreamClosed) -> None:
    """A stream is gone. The lease goes on; a node that was leaving, and is clear, has left."""
    known = heard_on(d, event.node, event.stream)
    if known is None:
        return
    closed_at = d.now if event.by_peer else None
    seat = replace(
        known,
        stream=None,
        sent=None,
        closed_by_peer_at=closed_at,
        silent_since=d.stamp.wall,
        unseen_s=unseen_s(d, known),
    )
    if seat.lease is None:
        d.drop_seat(seat.node)  # it was lost already; its entry remembers it
    else:
        d.put_seat(seat)
    d.mark_ready(seat.node)
    d.changed()
    d.because = Because(Reason.STREAM_LOST, f"the stream of {seat.node} was closed")
    closed_in_sight(d, seat)
    if seat.lease is not None and seat.leaving is not None and is_clear(d, seat):
        lose_overdue(d, [seat])
    end_if_everyone_left(d)
