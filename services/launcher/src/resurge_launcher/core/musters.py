"""Ranks that restart in place: the launcher gathers those that live, so that no rank has to be trusted for it. Pure.

Rules, in prose:
1. An iteration starts when every living worker has joined it; the first one of all needs the whole world.
   Who was lost in an earlier call of the function, or has ended as it should, is not waited for in the next one.
   Where the world is on several nodes, rendezvous gathers their reports, and starts and ends iterations (muster_lines).
2. The first word that it is broken, or a worker's end, breaks it for all; what follows of it is a consequence.
3. A worker that ends badly is gone on without while enough are left, and is then no fault. Else it is one as ever: the
   generation is started anew.
4. Whoever has not joined in time cannot follow: it is ended, and gone on without while enough are left on this node
   and in all. Where they are not, or it cannot be ended, it is at fault: the next rung is a restart of all.
5. When all that were to finish have, it is over, and the ends of workers are judged as ever. So they are when a rank
   says that its error is none to go on from.
6. Ranks that are lost or in reserve count as having reached what all others have: nobody waits for their start.
7. A silence breaks an iteration: whoever merely waited comes to the next one. Who clearly cannot (stopped, the GIL
   held) is ended at once; it has as long to end as others have to come. Until then nobody is judged by silence.
8. Where a fresh process is to take the place of a rank that was lost, it is waited for (replacing.py). In the first
   call of the function only: it would come to the first, and the others are in a later one.
"""

from __future__ import annotations

from resurge_launcher.core import replacements
from resurge_launcher.core.happenings import Action
from resurge_launcher.core.model import Alive, Awaited, Crew, ExitRecord, Fault, LauncherState, Rules, Running
from resurge_launcher.core.muster_state import Muster, MusterEvict, MusterHeard, MusterOrder, MusterTell
from resurge_launcher.core.readings import Milestone, MilestoneKind
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.reasons import HANGS, Because, Reason
from resurge_libs.core.values import replace

JOIN, BROKEN, DONE, ABORT = "join", "broken", "done", "abort"
START, INTERRUPT, OVER, REFUSED = "start", "interrupt", "over", "refused"
LIMIT_MOST_S = 3600.0
UNABLE = frozenset({Reason.WORKER_STOPPED, Reason.WORKER_GIL_HELD})
"""Hangs that no interrupt reaches."""
Outcome = tuple[LauncherState, tuple[MusterTell, ...], Because]
Told = tuple[Crew, tuple[MusterTell, ...]]
Done = tuple[Crew, tuple[Action, ...]]


def heard(state: LauncherState, event: MusterHeard, rules: Rules, now: Instant) -> Outcome:
    """A rank of the running generation has spoken."""
    if not rules.replaces:
        event = replace(event, replace_s=0.0)
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
            return broken(crew, event.iteration, f"rank {event.rank}: {event.sentence}", now)
        case "abort":
            return _aborted(crew, event), ()
        case "reserve":
            return _reserved(crew, event), ()
        case _:
            return _done(crew, event)


def _joined(crew: Crew, event: MusterHeard, now: Instant) -> Told:
    muster = crew.muster
    if (newcomer := replacements.coming(muster, event.rank)) is not None and muster is not None:
        if muster.is_running or event.pid not in (0, newcomer.pid):
            return crew, ()
        return gathered(crew, replacements.came(muster, newcomer, now))
    if muster is not None and event.rank in muster.lost:
        return crew, ()  # the last words of one that has ended, or of one that is ended
    if muster is None and (sentence := _why_refused(crew, event)):
        return crew, (MusterTell(crew.generation, REFUSED, event.iteration, sentence),)
    if muster is None or muster.is_over:
        is_first = muster is None
        limit_s = min(max(event.limit_s, 0.0), LIMIT_MOST_S)
        lost = muster.lost if muster is not None else ()
        acted = muster.acted if muster is not None else MusterOrder() if _is_spread(crew) else None
        known = muster.replacements if muster is not None else ()
        muster = Muster(event.iteration, max(1, event.needed), limit_s, lost=lost, acted=acted, replacements=known)
        replace_s = min(max(event.replace_s, 0.0), LIMIT_MOST_S) if is_first else 0.0
        muster = replace(muster, replace_s=replace_s, can_renew=event.can_renew and is_first)
        if not _can_suffice(crew, muster):
            muster = replace(muster, until=after(now, limit_s))
    if event.iteration != muster.iteration or muster.is_running:
        return crew, ()
    renews = muster.can_renew and event.can_renew
    replace_s = min(muster.replace_s, event.replace_s) if renews else 0.0
    joined = muster.joined | {event.rank}
    return gathered(crew, replace(muster, joined=joined, can_renew=renews, replace_s=replace_s))


def _is_spread(crew: Crew) -> bool:
    """Whether the world is on several nodes."""
    return crew.run.world_size != len(crew.workers)


def _why_refused(crew: Crew, event: MusterHeard) -> str:
    """Why a fault in a world on several nodes is restarted from by the launchers; empty where it need not be."""
    if not _is_spread(crew):
        return ""
    if crew.run.muster is None:
        why = crew.run.in_place_refusal or "the rendezvous service does not gather ranks"
        return f"the world is on several nodes, and {why}"
    if not crew.run.store_is_served:
        return "the world is on several nodes, and rank 0 would serve their store: leave --warm on"
    if not event.spans_nodes:
        return "the world is on several nodes, and the SDK of the workers, older than the launcher, joins those of one"
    return ""


def gathered(crew: Crew, muster: Muster) -> Told:
    """The crew with the muster; what is gathered for starts here when all have come, on one node."""
    if muster.acted is not None or muster.is_running or muster.is_over or replacements.awaited(muster):
        return replace(crew, muster=muster), ()
    living = tuple(worker.rank for worker in crew.workers if isinstance(worker.state, Alive))
    all_started = not any(isinstance(worker.state, Awaited) for worker in crew.workers)
    if not all_started or not _can_suffice(crew, muster) or not muster.joined.issuperset(living):
        return replace(crew, muster=muster), ()
    started = replace(muster, joined=frozenset(), done=frozenset(), reserve=frozenset(), is_running=True, until=None)
    started = replace(started, is_anew=False)
    tell = MusterTell(crew.generation, START, muster.iteration, members=living, is_anew=muster.is_anew)
    return replace(crew, muster=started), (tell,)


def _can_suffice(crew: Crew, muster: Muster) -> bool:
    """Whether enough live, or are to, for the smallest world that goes on; the whole world does, however small."""
    if muster.acted is not None:
        return True  # that is judged by rendezvous
    left = sum(isinstance(worker.state, Alive | Awaited) for worker in crew.workers)
    return left >= min(muster.min_world, len(crew.workers))


def finished(crew: Crew) -> Told:
    """The crew after an end that was none to go on without: nobody waits for that rank any more."""
    muster = crew.muster
    if muster is None or muster.is_running or muster.is_over or not muster.joined:
        return crew, ()
    return gathered(crew, muster)


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


def broken(crew: Crew, iteration: int, sentence: str, now: Instant) -> Told:
    """The crew that gathers for the next iteration, if this one runs."""
    muster = crew.muster
    if muster is None or not muster.is_running or muster.is_over or muster.iteration != iteration:
        return crew, ()
    until = after(now, muster.limit_s)
    gathering = replace(
        muster, iteration=iteration + 1, is_running=False, until=until, done=frozenset(), broken=sentence
    )
    return replace(crew, muster=gathering), (MusterTell(crew.generation, INTERRUPT, iteration, sentence),)


def _done(crew: Crew, event: MusterHeard) -> Told:
    muster = crew.muster
    if muster is None or not muster.is_running or muster.iteration != event.iteration:
        return crew, ()
    muster = replace(muster, done=muster.done | {event.rank}, needed=event.needed)
    if muster.acted is not None or len(muster.done) < event.needed:
        return replace(crew, muster=muster), ()
    over = replace(muster, is_over=True, is_running=False)
    return replace(crew, muster=over), (MusterTell(crew.generation, OVER, muster.iteration),)


def forgiven(crew: Crew, record: ExitRecord) -> ExitRecord:
    """The record of an end, forgiven where enough are left to go on in place."""
    muster = crew.muster
    if muster is None or muster.is_over or record.succeeded or record.ended_by_launcher:
        return record
    is_under_way = muster.is_running or muster.until is not None
    goes_on = _can_lose(crew, muster, {record.rank}) or replacements.coming(muster, record.rank) is not None
    return replace(record, forgiven=True) if is_under_way and goes_on else record


def _can_lose(crew: Crew, muster: Muster, ranks: set[Rank]) -> bool:
    """Whether the others can go on without these, or with fresh processes in their places."""
    return is_enough(crew, muster, ranks) or replacements.are_possible(crew, muster)


def is_enough(crew: Crew, muster: Muster, without: set[Rank]) -> bool:
    """Whether those that are left without these can go on: some of them are on this node, and enough in all.

    Fresh processes that are waited for are counted.
    """
    coming = replacements.ranks_awaited(muster) - without
    living = {worker.rank for worker in crew.workers if isinstance(worker.state, Alive)}
    here = len((living - without) | coming)
    left = here if muster.acted is None else len((set(muster.members) - set(muster.lost) - without) | coming)
    return here > 0 and left >= muster.min_world


def bereaved(crew: Crew, rank: Rank, sentence: str, now: Instant) -> Told:
    """The crew without a rank whose end was forgiven: what runs is broken, and who is left is gathered."""
    muster = crew.muster
    assert muster is not None, "an end is forgiven for the sake of a muster only"
    if rank in muster.lost:
        return gathered(crew, muster)
    crew = replace(crew, muster=replace(muster, lost=(*muster.lost, rank), joined=muster.joined - {rank}))
    if muster.is_running:
        return broken(crew, muster.iteration, sentence, now)
    assert crew.muster is not None
    return gathered(crew, crew.muster)


def due_at(crew: Crew) -> Instant | None:
    """When those who have not joined are waited for no longer."""
    return crew.muster.until if crew.muster is not None and not crew.muster.is_over else None


def overdue(crew: Crew, now: Instant) -> Done:
    """The crew without those who have not joined in time, or with a fault for the first of them."""
    due, muster = due_at(crew), crew.muster
    if due is None or muster is None or now < due:
        return crew, ()
    known = {one for one, _ in muster.evicted}
    living = [w.rank for w in crew.workers if isinstance(w.state, Alive)]
    if muster.is_running:  # those that were to end break it when they do
        missing = [rank for rank in living if rank in known]
    else:
        missing = [rank for rank in living if rank not in muster.joined]
    if not missing and (muster.is_running or muster.acted is not None):  # those of this node wait for others
        until = None if muster.is_running else after(now, muster.limit_s)
        return replace(crew, muster=replace(muster, until=until)), ()
    rank = min(missing, default=None)
    because = Because(Reason.WORKER_HUNG, _too_late(muster, rank, known))
    if missing and known.isdisjoint(missing) and _can_lose(crew, muster, set(missing)):
        return evicted(crew, muster, missing, because, now)
    fault = Fault(because, due, rank)
    return replace(crew, muster=replace(muster, until=None, is_over=True), faults=(*crew.faults, fault)), ()


def _too_late(muster: Muster, rank: Rank | None, evicted: set[Rank]) -> str:
    if muster.is_running:
        return f"rank {rank} cannot be ended: it still lives {muster.limit_s:g} s after SIGKILL"
    who = f"rank {rank} has" if rank is not None else "too few ranks have"
    end = ", and cannot be ended" if rank in evicted else ""
    return f"{who} not come to iteration {muster.iteration} in place within {muster.limit_s:g} s{end}"


def evicted(crew: Crew, muster: Muster, ranks: list[Rank], because: Because, now: Instant) -> Done:
    """The crew in which ranks are ended that cannot follow."""
    evicted = (*muster.evicted, *((rank, because) for rank in ranks))
    local = tuple(worker.local_rank for worker in crew.workers if worker.rank in ranks)
    crew = replace(crew, muster=replace(muster, evicted=evicted, until=after(now, muster.limit_s)))
    return crew, (MusterEvict(crew.generation, local),)


def why_evicted(crew: Crew, rank: Rank) -> Because | None:
    """Why a rank was ended that could not follow; None for any other."""
    return next((why for one, why in crew.muster.evicted if one == rank), None) if crew.muster is not None else None


def is_gathering(crew: Crew) -> bool:
    """Whether ranks are gathered after a break; then nobody is judged by silence."""
    return crew.muster is not None and crew.muster.is_gathering


def hung(before: Crew, crew: Crew, now: Instant, looks: tuple[Action, ...] = ()) -> Done:
    """The crew after a look at silent workers: a hang that was found breaks what runs in place, and is no fault.

    `looks`: what is to be done where it found none.
    """
    fresh, muster = crew.faults[len(before.faults) :], crew.muster
    if muster is None or muster.is_over or not fresh or any(fault.because.code not in HANGS for fault in fresh):
        return crew, looks
    spared = replace(crew, faults=before.faults, inspection=None)
    if muster.is_gathering:
        return spared, ()
    unable = [fault.rank for fault in fresh if fault.because.code in UNABLE and fault.rank is not None]
    if not muster.is_running or (unable and not _can_lose(crew, muster, set(unable))):
        return crew, ()
    if unable:
        return evicted(spared, muster, unable, fresh[0].because, now)
    return broken(spared, muster.iteration, fresh[0].because.sentence, now)
