"""Ranks of several nodes that restart in place: what rendezvous is told of this node's, and what it orders. Pure.

Rules, in prose:
1. The newest order says all, and each is acted upon once. Ranks of this node are told of a break here at once; the
   order that follows from the report is then no news.
2. A start in which a rank takes part that has ended here meanwhile is broken as soon as it is told.
3. A start that was not seen, as a newer order took its place, is told with that order: ranks here have come to it.
4. An iteration that is over elsewhere, and was broken here, is a fault: those that have finished do not come back.
"""

from __future__ import annotations

from resurge_launcher.core import replacements
from resurge_launcher.core.goals import RunGoal
from resurge_launcher.core.model import Alive, Awaited, Crew, Fault, LauncherState
from resurge_launcher.core.muster_state import Muster, MusterOrder, MusterReport, MusterTell
from resurge_launcher.core.musters import INTERRUPT, OVER, START, Told, broken
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace


def report(crew: Crew) -> MusterReport | None:
    """What rendezvous is told; None where ranks of this node do not restart in place with others."""
    muster = crew.muster
    if muster is None or muster.acted is None:
        return None
    alive = {w.rank for w in crew.workers if isinstance(w.state, Alive | Awaited)}
    living = tuple(sorted(alive | replacements.ranks_awaited(muster)))
    return MusterReport(
        acted=replace(muster.acted, sentence=""),
        iteration=muster.iteration,
        is_running=muster.is_running,
        is_over=muster.is_over,
        joined=tuple(sorted(muster.joined)),
        living=living,
        done=len(muster.done),
        needed=muster.needed,
        min_world=muster.min_world,
        limit_s=muster.limit_s,
        broken=muster.broken,
        evicted=tuple(rank for rank, _ in muster.evicted if rank in alive),
        is_anew=muster.is_anew,
        can_renew=muster.can_renew,
    )


def followed(state: LauncherState, crew: Crew, now: Instant) -> Told | None:
    """What the newest order brings; None where it is known."""
    order = state.goal.muster if isinstance(state.goal, RunGoal) else None
    muster = crew.muster
    if order is None or muster is None or muster.acted is None or order.number <= muster.acted.number:
        return None
    crew = replace(crew, muster=replace(muster, acted=order))
    is_due = muster.iteration == order.iteration and not muster.is_over
    if not is_due or muster.is_running or not order.members:
        return _followed(crew, order, now)
    number = order.number if order.kind == START else order.number - 1
    crew, told = _started(crew, replace(order, kind=START, number=number, sentence=""), now)
    crew, more = _followed(crew, order, now) if order.kind != START else (crew, ())
    return crew, (*told, *more)


def _followed(crew: Crew, order: MusterOrder, now: Instant) -> Told:
    """What an order brings for an iteration whose start is known."""
    muster = crew.muster
    assert muster is not None, "only a muster follows orders"
    is_due = muster.iteration == order.iteration and not muster.is_over
    match order.kind:
        case kind if kind == INTERRUPT:
            return broken(crew, order.iteration, order.sentence, now)
        case kind if kind == OVER and is_due and muster.is_running:
            over = replace(muster, acted=order, is_over=True, is_running=False)
            return replace(crew, muster=over), (MusterTell(crew.generation, OVER, order.iteration),)
        case kind if kind == OVER and not muster.is_over:
            sentence = f"iteration {order.iteration} is over elsewhere, and was broken here"
            fault = Fault(Because(Reason.WORKER_HUNG, sentence), now)
            over = replace(muster, acted=order, is_over=True, until=None)
            return replace(crew, muster=over, faults=(*crew.faults, fault)), ()
        case _:
            return crew, ()


def _started(crew: Crew, order: MusterOrder, now: Instant) -> Told:
    assert isinstance(crew.muster, Muster), "only a muster is started"
    started = replace(
        crew.muster,
        joined=frozenset(),
        done=frozenset(),
        reserve=frozenset(),
        is_running=True,
        until=None,
        members=order.members,
        broken="",
        is_anew=False,
    )
    crew = replace(crew, muster=started)
    tell = MusterTell(crew.generation, START, order.iteration, members=order.members, number=order.number)
    tell = replace(tell, is_anew=order.is_anew)
    gone = [rank for rank in started.lost if rank in order.members]
    if not gone:
        return crew, (tell,)
    crew, more = broken(crew, order.iteration, f"rank {gone[0]} has ended before the start", now)
    return crew, (tell, *more)
