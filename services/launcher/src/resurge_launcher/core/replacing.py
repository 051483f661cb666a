"""A fresh process in the place of a rank that was lost while ranks restart in place: the world keeps its size. Pure.

Rules, in prose:
1. Where a fork server is kept, and rendezvous and the ranks' SDK know of it, a loss is a wish for a fresh process.
   Rendezvous grants it, and counts a restart of the budget, or refuses it.
2. It is forked when the process before has been reaped, never exec'd: that would take longer than it is waited for.
3. The next iteration waits for it, for its own limit, and for no longer than for anybody else. It joins that
   iteration, whichever it is; ranks are then given from the initial order, which the newcomer knows as well.
4. One that is refused, cannot be forked, ends, or is late is given up: the others go on without it, where enough are
   left; else the loss is a fault after all, and the generation is restarted. One that is late is ended.
5. Whoever has come is a rank like all others; when it is lost, that is another loss.
"""

from __future__ import annotations

from resurge_launcher.core import crashes, musters, replacements
from resurge_launcher.core import crew as crews
from resurge_launcher.core.goals import RunGoal
from resurge_launcher.core.happenings import Action, TellFault
from resurge_launcher.core.model import Alive, Crew, Ended, ExitRecord, Fault, LauncherState
from resurge_launcher.core.muster_state import Muster, MusterEvict
from resurge_launcher.core.replacement_state import (
    ReplaceDone,
    ReplaceFailed,
    Replacement,
    ReplacementStage,
    ReplaceWorkers,
    Replacing,
)
from resurge_libs.core.instant import Instant, earliest
from resurge_libs.core.reasons import Because
from resurge_libs.core.values import replace

Done = tuple[Crew, tuple[Action, ...]]


def bereaved(crew: Crew, record: ExitRecord, now: Instant) -> tuple[Crew, tuple[Action, ...], Because]:
    """The crew after the end of a worker that the others go on without, or that another takes the place of."""
    because = musters.why_evicted(crew, record.rank) or crews.end_of(record)
    crew, muster = crashes.harmless(crew, record.rank), crew.muster
    assert muster is not None, "an end is forgiven for the sake of a muster only"
    tell = TellFault(crew.generation, because, record.rank, record)
    newcomer = replacements.coming(muster, record.rank)
    if newcomer is not None:
        crew, actions = given_up(crew, newcomer, f"the one in its place has ended too: {because.sentence}", now)
        return crew, (*actions, tell), because
    is_news = record.rank not in muster.lost
    crew = replacements.wanted(crew, record, because, now) if is_news else crew
    crew, told = musters.bereaved(crew, record.rank, because.sentence, now)
    return crew, (*told, *((tell,) if is_news else ())), because


def followed(state: LauncherState, crew: Crew, now: Instant) -> Done | None:
    """What rendezvous has decided, and the start of those whose place is free; None where nothing is new."""
    muster = crew.muster
    if muster is None or not replacements.awaited(muster):
        return None
    goal, before = state.goal, crew
    actions: tuple[Action, ...] = ()
    if isinstance(goal, RunGoal) and goal.generation == crew.generation and goal.replacing is not None:
        crew, actions = _decided(crew, muster, goal.replacing, now)
    crew, more = _begun(crew)
    return None if crew is before else (crew, (*actions, *more))


def _decided(crew: Crew, muster: Muster, said: Replacing, now: Instant) -> Done:
    actions: tuple[Action, ...] = ()
    for one in replacements.awaited(muster):
        if one.stage is not ReplacementStage.WANTED or crew.muster is None:
            continue
        if one.number in said.granted:
            granted = replace(one, stage=ReplacementStage.GRANTED)
            crew = replace(crew, muster=replacements.kept(crew.muster, granted))
        elif one.number <= said.refused_upto:
            crew, more = given_up(crew, one, said.sentence, now)
            actions += more
    return crew, actions


def _begun(crew: Crew) -> Done:
    """The crew in which those are being started whose process before is gone."""
    gone = {worker.rank for worker in crew.workers if isinstance(worker.state, Ended)}
    free = [
        one for one in replacements.awaited(crew.muster) if one.stage is ReplacementStage.GRANTED and one.rank in gone
    ]
    muster = crew.muster
    if not free or muster is None:
        return crew, ()
    for one in free:
        muster = replacements.kept(muster, replace(one, stage=ReplacementStage.STARTING))
    ranks = {one.rank for one in free}
    evicted = tuple(entry for entry in muster.evicted if entry[0] not in ranks)
    local_ranks = tuple(one.local_rank for one in free)
    return replace(crew, muster=replace(muster, evicted=evicted)), (ReplaceWorkers(crew.generation, local_ranks),)


def started(crew: Crew, event: ReplaceDone) -> Done:
    """The crew with a fresh process; one that is not waited for any more is ended at once."""
    worker = next((one for one in crew.workers if one.local_rank == event.local_rank), None)
    if worker is None or not isinstance(worker.state, Ended):
        return crew, ()
    crew = crew.with_worker(replace(worker, state=Alive(event.pid)))
    one = _starting(crew, event.local_rank)
    if one is None or crew.muster is None:
        return crew, (MusterEvict(crew.generation, (event.local_rank,)),)
    coming = replace(one, stage=ReplacementStage.COMING, pid=event.pid)
    return replace(crew, muster=replacements.kept(crew.muster, coming)), ()


def failed(crew: Crew, event: ReplaceFailed, now: Instant) -> Done:
    """The crew after the news that there is no fresh process."""
    one = _starting(crew, event.local_rank)
    return (crew, ()) if one is None else given_up(crew, one, event.sentence, now)


def _starting(crew: Crew, local_rank: int) -> Replacement | None:
    of_rank = (one for one in replacements.awaited(crew.muster) if one.local_rank == local_rank)
    return next((one for one in of_rank if one.stage is ReplacementStage.STARTING), None)


def given_up(crew: Crew, one: Replacement, sentence: str, now: Instant) -> Done:
    """The crew in which nothing takes the place of a lost rank."""
    assert crew.muster is not None, "only a muster has replacements"
    known = replace(one, stage=ReplacementStage.GIVEN_UP, settled_at=now, sentence=sentence)
    muster = replacements.kept(crew.muster, known)
    crew = replace(crew, muster=muster)
    because = Because(one.because.code, f"{one.because.sentence}; nothing takes its place: {sentence}")
    if not musters.is_enough(crew, muster, {one.rank}):
        fault = Fault(because, one.lost_at, one.rank)
        over = replace(muster, until=None, is_over=True)
        return replace(crew, muster=over, faults=(*crew.faults, fault)), ()
    if replacements.lives(crew, one):
        return musters.evicted(crew, muster, [one.rank], because, now)
    return musters.gathered(crew, muster)


def overdue(crew: Crew, now: Instant) -> Done:
    """The crew without those that are late: fresh processes first, then ranks that have not joined in time."""
    actions: tuple[Action, ...] = ()
    for one in replacements.awaited(crew.muster):
        is_awaited = any(other.number == one.number for other in replacements.awaited(crew.muster))
        if is_awaited and now >= one.until:
            crew, more = given_up(crew, one, f"it has not come to iteration {one.iteration} in time", now)
            actions += more
    crew, more = musters.overdue(crew, now)
    return crew, (*actions, *more)


def due_at(crew: Crew) -> Instant | None:
    """When somebody is waited for no longer."""
    return earliest(musters.due_at(crew), replacements.due_at(crew.muster))
