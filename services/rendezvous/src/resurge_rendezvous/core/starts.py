"""Watching a generation start: milestones, start limits, and when a recovery is over.

A start limit is a fault only for a milestone that this job has been seen to report; a script without the SDK, or one
that reports less, is never ended for what it does not say. Its recovery closes as STARTED_ONLY instead. That every
launcher reports its workers as started is expected of all.
"""

from __future__ import annotations

from collections.abc import Iterator

from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import after
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.faults import corrected, raise_faults
from resurge_rendezvous.core.job import Assignment, Formation, Proving, RecoveryOutcome, Running
from resurge_rendezvous.core.limits import SUSPECTS_MAX
from resurge_rendezvous.core.presence import RankStart, Seat, StartWatch
from resurge_rendezvous.core.recoveries import close_as_started, close_recovery
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.values import Milestone, MilestoneKind, NodePhase

ORDER = (
    MilestoneKind.WORKER_STARTED,
    MilestoneKind.PROCESS_GROUP_READY,
    MilestoneKind.CHECKPOINT_RESTORED,
    MilestoneKind.FIRST_STEP,
)
LIMIT_OF = {
    MilestoneKind.PROCESS_GROUP_READY: "process_group",
    MilestoneKind.CHECKPOINT_RESTORED: "restore",
    MilestoneKind.FIRST_STEP: "first_step",
}


def place_of(kind: MilestoneKind) -> int:
    """A milestone's place in the order of a start."""
    return ORDER.index(kind)


def watch_start(d: Draft) -> None:
    """Begin to watch the generation that was just formed."""
    d.see(start=StartWatch(reached=tuple((kind, 0) for kind in ORDER)))
    d.set_timers(start_phase_at=after(d.now, d.limits.start_limit_s("process_group")))


def phase_awaited(watch: StartWatch, world_size: int) -> MilestoneKind | None:
    """The first milestone that not every rank has reached; None when all have committed a step."""
    return next((kind for kind, count in watch.reached[1:] if count < world_size), None)


def note_start(d: Draft, seat: Seat, place: Assignment, formation: Formation) -> None:
    """Take in what a member reports about its workers' start."""
    observed = seat.observed
    if observed.generation != formation.generation:
        return
    if observed.phase in (NodePhase.RUNNING, NodePhase.FINISHED) and seat.node not in d.seen.start.running:
        _note_running(d, seat, formation)
    fresh = [m for m in observed.milestones if _is_news(d.seen.start, m, place)]
    if not fresh:
        return
    awaited = phase_awaited(d.seen.start, formation.world_size)
    for rank in dict.fromkeys(milestone.rank for milestone in fresh):
        _note_rank(d, seat, rank, [milestone for milestone in fresh if milestone.rank == rank])
    d.because = Because(Reason.MILESTONE, f"{seat.node}: rank {fresh[-1].rank} reached {fresh[-1].kind}")
    now_awaited = phase_awaited(d.seen.start, formation.world_size)
    if now_awaited is None:
        d.set_timers(start_phase_at=None)
        _recovered(d, formation)
    elif now_awaited is not awaited:
        d.set_timers(start_phase_at=after(d.now, d.limits.start_limit_s(LIMIT_OF[now_awaited])))


def _note_running(d: Draft, seat: Seat, formation: Formation) -> None:
    d.see(start=replace(d.seen.start, running=d.seen.start.running.put(seat.node, d.stamp.wall)))
    d.because = Because(Reason.STARTED, f"{seat.node} runs generation {formation.generation}")
    all_run = len(d.seen.start.running) == len(formation.assignments)
    if all_run and isinstance(d.job.stage, Proving):
        d.set_timers(settle_at=after(d.now, d.limits.settle_s))


def _is_news(watch: StartWatch, milestone: Milestone, place: Assignment) -> bool:
    if not place.base_rank <= milestone.rank < place.base_rank + place.local_world_size:
        return False  # no rank of this node's: the launcher is confused, or means another generation
    known = watch.ranks.get(str(milestone.rank))
    return known is None or known.when(milestone.kind) is None


def _note_rank(d: Draft, seat: Seat, rank: Rank, fresh: list[Milestone]) -> None:
    watch = d.seen.start
    before = watch.ranks.get(str(rank)) or RankStart(seat.node)
    at, step = dict(before.at), before.restored_step
    for milestone in fresh:
        at.setdefault(milestone.kind, corrected(d, seat, milestone.at))
        if milestone.kind is MilestoneKind.CHECKPOINT_RESTORED and step is None:
            step = milestone.step
        if milestone.kind is not MilestoneKind.WORKER_STARTED and milestone.kind not in d.job.known_milestones:
            d.record(f.MilestoneKnown(milestone.kind))
    now = RankStart(seat.node, tuple(at.items()), step)
    was, now_at = _furthest(before), _furthest(now)
    counts = tuple((kind, count + (was < place_of(kind) <= now_at)) for kind, count in watch.reached)
    d.see(start=replace(watch, ranks=watch.ranks.put(str(rank), now), reached=counts))


def _furthest(start: RankStart) -> int:
    return max((place_of(kind) for kind, _ in start.at), default=-1)


def _recovered(d: Draft, formation: Formation) -> None:
    if not isinstance(d.job.stage, Proving):
        return
    ranks = d.seen.start.ranks.values()
    end = max((at for start in ranks if (at := start.when(MilestoneKind.FIRST_STEP)) is not None), default=d.stamp.wall)
    sentence = f"all {formation.world_size} ranks of generation {formation.generation} have committed a step"
    d.because = Because(Reason.RECOVERED, sentence)
    close_recovery(d, RecoveryOutcome.RECOVERED, d.because, end)


# --- deadlines ---


def start_phase_over(d: Draft) -> None:
    """A start phase lasted too long."""
    match d.job.stage:
        case Running(formation) | Proving(formation):
            pass
        case _:
            return
    not_started = [place for place in formation.assignments if place.node not in d.seen.start.running]
    if not_started:
        faults = [_not_started(d, formation, place) for place in not_started[:SUSPECTS_MAX]]
        raise_faults(d, faults)
        return
    awaited = phase_awaited(d.seen.start, formation.world_size)
    if awaited is None:
        return
    armed = any(place_of(known) >= place_of(awaited) for known in d.job.known_milestones)
    if not armed:
        _started_only(d, f"the script does not report {awaited}")
        return
    limit_s = d.limits.start_limit_s(LIMIT_OF[awaited])
    raise_faults(
        d, [_suspect(d, formation, place, rank, awaited, limit_s) for place, rank in _late(d, formation, awaited)]
    )


def _not_started(d: Draft, formation: Formation, place: Assignment) -> FaultRecord:
    limit_s = d.limits.start_limit_s("process_group")
    because = Because(Reason.START_TIMEOUT, f"{place.node} did not start its workers within {limit_s:g} s")
    return FaultRecord(place.node, because, d.stamp.wall, formation.generation)


def _late(d: Draft, formation: Formation, awaited: MilestoneKind) -> Iterator[tuple[Assignment, Rank]]:
    named = 0
    for place in formation.assignments:
        for rank in range(place.base_rank, place.base_rank + place.local_world_size):
            start = d.seen.start.ranks.get(str(rank))
            if (start is None or _furthest(start) < place_of(awaited)) and named < SUSPECTS_MAX:
                named += 1
                yield place, Rank(rank)


def _suspect(
    d: Draft, formation: Formation, place: Assignment, rank: Rank, awaited: MilestoneKind, limit_s: float
) -> FaultRecord:
    because = Because(Reason.START_TIMEOUT, f"rank {rank} did not reach {awaited} within {limit_s:g} s")
    return FaultRecord(place.node, because, d.stamp.wall, formation.generation, rank=rank)


def settled(d: Draft) -> None:
    """All workers have run for `settle_s`: for a script without milestones that is all there is to know."""
    if not d.job.known_milestones:
        _started_only(d, "the script reports no milestones")


def _started_only(d: Draft, why: str) -> None:
    if not isinstance(d.job.stage, Proving):
        return
    sentence = f"workers run on all nodes; {why}"
    d.because = Because(Reason.STARTED_ONLY, sentence)
    close_as_started(d, sentence)


def restored_watch() -> StartWatch:
    """A watch after a restart of the service: launchers tell it everything again."""
    return StartWatch(reached=tuple((kind, 0) for kind in ORDER), running=ShardMap())
