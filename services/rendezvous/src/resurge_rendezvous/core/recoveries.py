"""One recovery, one record: the spans of an incident from its first signal to the last rank's first committed step.

Rendezvous adds what only it knows (detect, decide, the wait for teardown, the round) and what follows from milestones
(spawn, init, restore, first step of each rank); launchers add their own closed spans. All times are in the service's
clock. Together they cover the root: each own span begins where the one before it ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from resurge_libs.core.ids import Generation, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.actions import ExportRecovery
from resurge_rendezvous.core.causes import by_cause
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.job import Incident, Proving, RecoveryOutcome, RecoveryRecord, RecoverySpan, RoundTimes
from resurge_rendezvous.core.limits import NODE_SPANS_MAX, RANK_SPANS_MAX
from resurge_rendezvous.core.presence import Presence, RankStart, RdzvState, Seat
from resurge_rendezvous.core.values import MilestoneKind, ObservedSpan

_PHASES: tuple[tuple[str, MilestoneKind], ...] = (
    ("spawn", MilestoneKind.WORKER_STARTED),
    ("init", MilestoneKind.PROCESS_GROUP_READY),
    ("checkpoint_restore", MilestoneKind.CHECKPOINT_RESTORED),
    ("first_step", MilestoneKind.FIRST_STEP),
)


def close_recovery(d: Draft, outcome: RecoveryOutcome, because: Because, end: Wall) -> None:
    """Write the record of the open incident and have it exported."""
    record = record_of(RdzvState(d.job, d.seen), outcome, because, end)
    d.record(f.RecoveryClosed(record))
    d.do(ExportRecovery(record))
    d.set_timers(settle_at=None)


def close_as_started(d: Draft, why: str) -> None:
    """Workers run, or have ended well, and that is all there is to know: the recovery ended with their start."""
    seen, incident = d.seen.start, d.job.open_incident
    heard = {start.node for start in seen.ranks.values()}
    walls = [at for start in seen.ranks.values() for _, at in start.at]
    # when a node was first heard to run may be long after its ranks' own words, where the service was away
    walls += [at for node in seen.running if node not in heard and (at := seen.running.get(node)) is not None]
    if not walls and incident is not None and incident.now_round.closed_wall is not None:
        walls = [incident.now_round.closed_wall]
    because = Because(Reason.STARTED_ONLY, why)
    close_recovery(d, RecoveryOutcome.STARTED_ONLY, because, Wall(max(walls, default=d.stamp.wall)))


def open_record(state: RdzvState) -> RecoveryRecord:
    """The record of the open incident as far as it is."""
    incident = state.durable.open_incident
    assert incident is not None, "only an open incident has an open record"
    told = [incident.now_round.opened_wall]
    told += [at for start in state.volatile.start.ranks.values() for _, at in start.at]
    return record_of(state, RecoveryOutcome.OPEN, incident.first_cause.because, max(told))


def record_of(state: RdzvState, outcome: RecoveryOutcome, because: Because, end: Wall) -> RecoveryRecord:
    """The record of the open incident, with this outcome and end."""
    job, seen = state.durable, state.volatile
    incident = job.open_incident
    assert incident is not None, "a recovery is recorded while its incident is open"
    proving = isinstance(job.stage, Proving)
    faults = tuple(by_cause(incident.faults))
    start = incident.first_signal
    end = Wall(max(end, start))
    spans = (*_own_spans(incident), *(_start_spans(seen, incident) if proving else ()))
    known = {(span.name, span.node, span.rank, span.round) for span in spans}
    told = tuple(span for part in seen.spans.values() for span in part)
    fresh = tuple(span for span in told if (span.name, span.node, span.rank, span.round) not in known)
    return RecoveryRecord(
        incident=incident.incident,
        outcome=outcome,
        because=because,
        start=start,
        end=end,
        attempt=incident.attempt,
        cycle=incident.cycle,
        generation_from=incident.generation_from,
        generation_to=job.generation if proving else Generation(0),
        rounds=incident.round + 1,
        faults=faults,
        view=incident.view,
        verdict=incident.verdict,
        spans=(*spans, *fresh),
        restored_step=_restored_step(seen) if proving else None,
    )


def _own_spans(incident: Incident) -> Iterator[RecoverySpan]:
    for number, times in enumerate(incident.rounds):
        yield from _round_spans(incident, number, times)
        following = incident.rounds[number + 1] if number + 1 < len(incident.rounds) else None
        if times.closed_wall is not None and following is not None:  # a start that failed, up to its first signal
            yield _span("spawn", times.closed_wall, following.fault_wall, number, (("resurge.failed", "true"),))


def _round_spans(incident: Incident, number: int, times: RoundTimes) -> Iterator[RecoverySpan]:
    first_signal = incident.first_signal if number == 0 else times.fault_wall
    yield _span("detect", first_signal, times.opened_wall, number)
    if times.verdict_wall is not None:
        yield _span("decide", times.opened_wall, times.verdict_wall, number)
    if times.down_wall is not None:
        yield _span("teardown", times.opened_wall, times.down_wall, number)
    if times.closed_wall is not None and times.verdict_wall is not None:
        waited_from = max(times.verdict_wall, times.down_wall or times.verdict_wall)
        yield _span("rendezvous", waited_from, times.closed_wall, number)


def _span(name: str, start: Wall, end: Wall, number: int, attributes: tuple[tuple[str, str], ...] = ()) -> RecoverySpan:
    return RecoverySpan(name, start, Wall(max(start, end)), round=number, attributes=attributes)


def _start_spans(seen: Presence, incident: Incident) -> Iterator[RecoverySpan]:
    closed_wall = incident.now_round.closed_wall
    assert closed_wall is not None, "a generation that proves itself was formed by a closed round"
    ranks = [(Rank(int(key)), start) for key in seen.start.ranks if (start := seen.start.ranks.get(key)) is not None]
    ranks.sort(key=lambda item: (-max(at for _, at in item[1].at), item[0]))
    for rank, start in ranks[:RANK_SPANS_MAX]:
        yield from _rank_spans(rank, start, closed_wall, incident.round)
    heard = {start.node for _, start in ranks}
    for node in seen.start.running:
        at = seen.start.running.get(node)
        if node not in heard and at is not None:
            yield RecoverySpan("spawn", closed_wall, Wall(max(closed_wall, at)), NodeId(node), round=incident.round)


def _rank_spans(rank: Rank, start: RankStart, closed_wall: Wall, number: int) -> Iterator[RecoverySpan]:
    begun = closed_wall
    for name, kind in _PHASES:
        at = start.when(kind)
        if at is None:
            continue  # a milestone that was not reported belongs to the next that was
        ended = Wall(max(begun, at))
        yield RecoverySpan(name, begun, ended, start.node, rank, number)
        begun = ended


def _restored_step(seen: Presence) -> int | None:
    steps = [start.restored_step for start in seen.start.ranks.values() if start.restored_step is not None]
    return min(steps) if steps else None


def keep_spans(d: Draft, seat: Seat, before: tuple[ObservedSpan, ...]) -> None:
    """Remember a node's closed spans of the open recovery, or add late ones to the last record."""
    observed = seat.observed
    if not observed.spans or observed.spans == before or observed.incident is None:
        return
    incident = d.job.open_incident
    if incident is not None and incident.incident == observed.incident:
        shifted = [_shifted(d, seat, span, incident.rounds) for span in observed.spans]
        kept = {(s.name, s.rank, s.round): s for s in (*(d.seen.spans.get(seat.node) or ()), *shifted)}
        d.see(spans=d.seen.spans.put(seat.node, tuple(kept.values())[:NODE_SPANS_MAX]))
    elif d.job.records and d.job.records[-1].incident == observed.incident:
        _amend(d, seat, d.job.records[-1])


def _amend(d: Draft, seat: Seat, record: RecoveryRecord) -> None:
    known = {(span.name, span.rank) for span in record.spans if span.node == seat.node}
    room = NODE_SPANS_MAX - len(known)
    last = record.rounds - 1
    late = [_shifted(d, seat, span, ()) for span in seat.observed.spans if (span.name, span.rank) not in known]
    fresh = {(span.name, span.rank): replace(span, round=last) for span in late[: max(0, room)]}
    if fresh:
        d.record(f.RecoveryAmended(record.incident, tuple(fresh.values())))
        d.do(ExportRecovery(d.job.records[-1]))


def _shifted(d: Draft, seat: Seat, span: ObservedSpan, rounds: tuple[RoundTimes, ...]) -> RecoverySpan:
    offset_s = seat.clock.offset_s if seat.clock is not None else 0.0
    start, end = (Wall(max(0.0, min(at + offset_s, d.stamp.wall))) for at in (span.start, span.end))
    raw = (("resurge.raw_start", f"{span.start:.6f}"), ("resurge.raw_end", f"{span.end:.6f}"))
    number = max((times.round for times in rounds if times.opened_wall <= start), default=0)
    return RecoverySpan(
        span.name,
        Wall(min(start, end)),
        end,
        seat.node,
        span.rank,
        number,
        seat.clock.error_s if seat.clock is not None else None,
        (*span.attributes, *raw),
    )
