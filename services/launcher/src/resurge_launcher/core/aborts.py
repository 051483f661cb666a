"""Releasing ranks from a collective that cannot end: a guard of one has fired, here or elsewhere. Pure.

One order for a phase at a time: peers have the same limit, and all their guards fire within moments. An order is worth
acting upon for a short time only; after it ranks may be in a fresh group that has nothing to do with it. Nobody is
ended for it: whoever is released raises, or goes on.
"""

from __future__ import annotations

from resurge_launcher.core.abort_state import AbortNotice, Aborts, Fresh
from resurge_launcher.core.goals import RunGoal
from resurge_launcher.core.model import Crew, LauncherState, Running
from resurge_launcher.core.worker_news import GuardFired, OrderAbort
from resurge_libs.core.instant import Instant, after, earliest
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace

Outcome = tuple[LauncherState, tuple[OrderAbort, ...], Because]
HEARD_MOST = 64
FRESH_MOST = 16
"""Phases that are aborted at one time; guards have names that scripts give, and no more than a few."""


def fired(state: LauncherState, event: GuardFired, now: Instant) -> Outcome:
    """A guard of a rank here has fired."""
    notice = event.notice
    if not isinstance(state.phase, Running) or state.phase.crew.generation != event.generation:
        return state, (), Because(Reason.LATE_EVENT_IGNORED, f"a guard of generation {event.generation} fired late")
    if notice.key in state.phase.crew.aborts.heard:
        return state, (), Because(Reason.LATE_EVENT_IGNORED, f"{sentence_of(notice)}: that is known")
    crew, actions = _noted(state.phase.crew, notice, now, is_own=True)
    reason = Because(Reason.OBSERVED, sentence_of(notice))
    return replace(state, phase=Running(crew)), actions, reason


def followed(state: LauncherState, crew: Crew, now: Instant) -> tuple[Crew, tuple[OrderAbort, ...]] | None:
    """What rendezvous passes on from other nodes, if any of it is new here."""
    passed_on = state.goal.aborts if isinstance(state.goal, RunGoal) else ()
    if not passed_on:
        return None
    new = [notice for notice in passed_on if notice.key not in crew.aborts.heard]
    actions: tuple[OrderAbort, ...] = ()
    for notice in new:
        crew, more = _noted(crew, notice, now, is_own=False)
        actions += more
    return (crew, actions) if new else None


def _noted(crew: Crew, notice: AbortNotice, now: Instant, *, is_own: bool) -> tuple[Crew, tuple[OrderAbort, ...]]:
    fresh = crew.aborts.fresh
    heard = (*crew.aborts.heard, notice.key)[-HEARD_MOST:]
    known = any(one.notice.phase == notice.phase for one in fresh)
    if known or notice.left_s <= 0 or len(fresh) >= FRESH_MOST:
        return replace(crew, aborts=Aborts(fresh, heard)), ()
    fresh = (*fresh, Fresh(notice, after(now, notice.left_s), is_own))
    order = OrderAbort(crew.generation, notice.left_s, sentence_of(notice), notice.phase)
    return replace(crew, aborts=Aborts(fresh, heard)), (order,)


def sentence_of(notice: AbortNotice) -> str:
    """For people."""
    return f"the guard of rank {notice.rank} fired in {notice.phase!r}"


def due_at(crew: Crew) -> Instant | None:
    """When the oldest news is over."""
    return earliest(*[one.until for one in crew.aborts.fresh]) if crew.aborts.fresh else None


def over(crew: Crew, now: Instant) -> Crew:
    """The crew without news that is old."""
    if not crew.aborts.fresh:
        return crew
    fresh = tuple(one for one in crew.aborts.fresh if now < one.until)
    return crew if fresh == crew.aborts.fresh else replace(crew, aborts=replace(crew.aborts, fresh=fresh))


def observed(crew: Crew) -> tuple[AbortNotice, ...]:
    """What rendezvous is told."""
    return tuple(one.notice for one in crew.aborts.fresh if one.is_own) if crew.aborts.fresh else ()
