"""Ranks that restart in place: the launcher gathers those that live, so that no rank has to be trusted for it. Pure.

Rules, in prose:
1. An iteration starts when every living worker has joined it; the first one of all needs the whole world, on this node.
   Who was lost in an earlier call of the function, or has ended as it should, is not waited for in the next one.
2. The first word that it is broken, or a worker's end, breaks it for all; what follows of it is a consequence.
3. A worker that ends badly is gone on without while enough are left, and is then no fault. Else it is one as ever: the
   generation is started anew.
4. Whoever has not joined in time is at fault: the next rung is a restart of all.
5. When all that were to finish have, it is over, and the ends of workers are judged as ever. So they are when a rank
   says that its error is none to go on from.
6. Ranks that are lost or in reserve count as having reached what all others have: nobody waits for their start.
"""

from __future__ import annotations

from resurge_launcher.core.model import Alive, Awaited, Crew, ExitRecord, Fault, LauncherState, Running
from resurge_launcher.core.muster_state import Muster, MusterHeard, MusterTell
from resurge_launcher.core.readings import Milestone, MilestoneKind
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace

JOIN, BROKEN, DONE, ABORT = "join", "broken", "done", "abort"
START, INTERRUPT, OVER, REFUSED = "start", "interrupt", "over", "refused"
LIMIT_MOST_S = 3600.0
Outcome = tuple[LauncherState, tuple[MusterTell, ...], Because]
Told = tuple[Crew, tuple[MusterTell, ...]]


def heard(state: LauncherState, event: MusterHeard, now: Instant) -> Outcome:
    """A rank of the running generation has spoken."""
    if not isinstance(state.phase, Running) or state.phase.crew.generation != event.generation:
        return state, (), Because(Reason.LATE_EVENT_IGNORED, f"rank {event.rank} of an old generation")
    crew, actions = _taken(state.phase.crew, event, now)
    sentence = f"rank {event.rank}: {event.kind} of iteration {event.iteration}"
    return replace(state, phase=Running(crew)), actions, Because(Reason.OBSERVED, sentence)


def _taken(crew: Crew, event: MusterHeard, now: Instant) -> Told:
    match event.kind:
        case "join":
            return _joined(crew, event, now)
        case "broken":
            return _broken(crew, event.iteration, f"rank {event.rank}: {event.sentence}", now)
        case "abort":
            return _aborted(crew, event), ()
        case "reserve":
            return _reserved(crew, event), ()
        case _:
            return _done(crew, event)


def _joined(crew: Crew, event: MusterHeard, now: Instant) -> Told:
    if crew.run.world_size != len(crew.workers):
        sentence = "the world is on several nodes: a fault is restarted from by the launchers"
        return crew, (MusterTell(crew.generation, REFUSED, event.iteration, sentence),)
    muster = crew.muster
    if muster is None or muster.is_over:
        limit_s = min(max(event.limit_s, 0.0), LIMIT_MOST_S)
        lost = muster.lost if muster is not None else ()
        muster = Muster(event.iteration, max(1, event.needed), limit_s, lost=lost)
        if not _can_suffice(crew, muster):
            muster = replace(muster, until=after(now, limit_s))
    if event.iteration != muster.iteration or muster.is_running:
        return crew, ()
    return _gathered(crew, replace(muster, joined=muster.joined | {event.rank}))


def _gathered(crew: Crew, muster: Muster) -> Told:
    living = tuple(worker.rank for worker in crew.workers if isinstance(worker.state, Alive))
    all_started = not any(isinstance(worker.state, Awaited) for worker in crew.workers)
    if not all_started or not _can_suffice(crew, muster) or not muster.joined.issuperset(living):
        return replace(crew, muster=muster), ()
    started = replace(muster, joined=frozenset(), done=frozenset(), reserve=frozenset(), is_running=True, until=None)
    tell = MusterTell(crew.generation, START, muster.iteration, members=living)
    return replace(crew, muster=started), (tell,)


def _can_suffice(crew: Crew, muster: Muster) -> bool:
    """Whether enough live, or are to, for the smallest world that goes on; the whole world does, however small."""
    left = sum(isinstance(worker.state, Alive | Awaited) for worker in crew.workers)
    return left >= min(muster.min_world, len(crew.workers))


def finished(crew: Crew) -> Told:
    """The crew after an end that was none to go on without: nobody waits for that rank any more."""
    muster = crew.muster
    if muster is None or muster.is_running or muster.is_over or not muster.joined:
        return crew, ()
    return _gathered(crew, muster)


def _aborted(crew: Crew, event: MusterHeard) -> Crew:
    """The crew in which nothing is gone on from in place: the rank that says so ends next, and that is a fault."""
    muster = crew.muster
    if muster is None or event.iteration not in (muster.iteration, muster.iteration - 1):
        return crew
    return replace(crew, muster=replace(muster, is_over=True, is_running=False, until=None))


def _reserved(crew: Crew, event: MusterHeard) -> Crew:
    muster = crew.muster
    if muster is None or not muster.is_running or muster.iteration != event.iteration:
        return crew
    return replace(crew, muster=replace(muster, reserve=muster.reserve | {event.rank}))


def excused(crew: Crew) -> Crew:
    """The crew with the milestones of those that do not run: of each, those that all who run have reached."""
    muster = crew.muster
    absent = frozenset(muster.lost) | muster.reserve if muster is not None else frozenset()
    present = [worker.rank for worker in crew.workers if worker.rank not in absent]
    if not absent or not present:
        return crew
    known = {(milestone.rank, milestone.kind): milestone for milestone in crew.milestones}
    fresh: list[Milestone] = []
    for kind in MilestoneKind:
        reached = [known[rank, kind] for rank in present if (rank, kind) in known]
        if len(reached) == len(present):
            last = max(reached, key=lambda milestone: milestone.at)
            fresh += [replace(last, rank=rank) for rank in sorted(absent) if (rank, kind) not in known]
    return replace(crew, milestones=(*crew.milestones, *fresh)) if fresh else crew


def _broken(crew: Crew, iteration: int, sentence: str, now: Instant) -> Told:
    muster = crew.muster
    if muster is None or not muster.is_running or muster.is_over or muster.iteration != iteration:
        return crew, ()
    until = after(now, muster.limit_s)
    gathering = replace(muster, iteration=iteration + 1, is_running=False, until=until, done=frozenset())
    return replace(crew, muster=gathering), (MusterTell(crew.generation, INTERRUPT, iteration, sentence),)


def _done(crew: Crew, event: MusterHeard) -> Told:
    muster = crew.muster
    if muster is None or not muster.is_running or muster.iteration != event.iteration:
        return crew, ()
    muster = replace(muster, done=muster.done | {event.rank})
    if len(muster.done) < event.needed:
        return replace(crew, muster=muster), ()
    over = replace(muster, is_over=True, is_running=False)
    return replace(crew, muster=over), (MusterTell(crew.generation, OVER, muster.iteration),)


def forgiven(crew: Crew, record: ExitRecord) -> ExitRecord:
    """The record of an end, forgiven where enough are left to go on in place."""
    muster = crew.muster
    if muster is None or muster.is_over or record.succeeded or record.ended_by_launcher:
        return record
    left = sum(isinstance(worker.state, Alive) and worker.rank != record.rank for worker in crew.workers)
    is_under_way = muster.is_running or muster.until is not None
    return replace(record, forgiven=True) if is_under_way and left >= muster.min_world else record


def bereaved(crew: Crew, rank: Rank, sentence: str, now: Instant) -> Told:
    """The crew without a rank whose end was forgiven: what runs is broken, and who is left is gathered."""
    muster = crew.muster
    assert muster is not None, "an end is forgiven for the sake of a muster only"
    if rank in muster.lost:
        return crew, ()
    crew = replace(crew, muster=replace(muster, lost=(*muster.lost, rank), joined=muster.joined - {rank}))
    if muster.is_running:
        return _broken(crew, muster.iteration, sentence, now)
    assert crew.muster is not None
    return _gathered(crew, crew.muster)


def due_at(crew: Crew) -> Instant | None:
    """When those who have not joined are waited for no longer."""
    return crew.muster.until if crew.muster is not None and not crew.muster.is_over else None


def overdue(crew: Crew, now: Instant) -> Crew:
    """The crew with a fault for the first rank that has not joined in time."""
    due, muster = due_at(crew), crew.muster
    if due is None or muster is None or now < due:
        return crew
    missing = [w.rank for w in crew.workers if isinstance(w.state, Alive) and w.rank not in muster.joined]
    rank = min(missing, default=None)
    who = f"rank {rank} has" if rank is not None else "too few ranks have"
    sentence = f"{who} not come to iteration {muster.iteration} in place within {muster.limit_s:g} s"
    fault = Fault(Because(Reason.WORKER_HUNG, sentence), due, rank)
    return replace(crew, muster=replace(muster, until=None, is_over=True), faults=(*crew.faults, fault))
