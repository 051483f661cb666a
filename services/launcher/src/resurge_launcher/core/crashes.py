"""The crash of a rank's loop, told by the rank: its world ends by its deadline, and for that reason. Pure.

The rank ends itself at the deadline, sooner if its exception ends it; the launcher ends it a moment later where it
cannot. Either way the fault is the exception, since the crash: what follows is its consequence.
"""

from __future__ import annotations

from resurge_launcher.core.abort_state import Condemned
from resurge_launcher.core.model import Crew, Fault, LauncherState, Running
from resurge_launcher.core.worker_news import CrashSpared, LoopCrashed
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant, after, earliest
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace

MARGIN_S = 1.2
"""After the deadline: the rank ends itself at it, and the kernel ends it a second later where it cannot."""
Outcome = tuple[LauncherState, tuple[()], Because]


def heard(state: LauncherState, event: LoopCrashed | CrashSpared) -> Outcome:
    """A rank says that its loop crashed, or that its world is spared after all."""
    if not isinstance(state.phase, Running) or state.phase.crew.generation != event.generation:
        return state, (), Because(Reason.LATE_EVENT_IGNORED, f"a crash of generation {event.generation} is told late")
    crew = state.phase.crew
    others = tuple(one for one in crew.condemned if one.rank != event.rank)
    if isinstance(event, CrashSpared):
        because = Because(Reason.OBSERVED, f"the crash of rank {event.rank} was delivered: its world is spared")
        return replace(state, phase=Running(replace(crew, condemned=others))), (), because
    if others != crew.condemned or all(worker.rank != event.rank for worker in crew.workers):
        return state, (), Because(Reason.LATE_EVENT_IGNORED, f"rank {event.rank} is none of ours, or known to crash")
    because = Because(Reason.WORKER_CRASHED, f"the loop of rank {event.rank} crashed: {event.error}")
    due = after(event.at, event.kill_in_s + MARGIN_S)
    condemned = (*others, Condemned(event.rank, because, event.at, due))
    return replace(state, phase=Running(replace(crew, condemned=condemned))), (), because


def due_at(crew: Crew) -> Instant | None:
    """When the next world that a crash ends is to end."""
    return earliest(*[one.due for one in crew.condemned]) if crew.condemned else None


def over(crew: Crew, now: Instant) -> Crew:
    """The crew with a fault for each rank whose deadline has passed."""
    return _at_fault(crew, tuple(one for one in crew.condemned if one.due <= now)) if crew.condemned else crew


def ended(crew: Crew, rank: Rank) -> Crew:
    """The crew after a rank has ended badly: if its loop had crashed, that is why."""
    return _at_fault(crew, tuple(one for one in crew.condemned if one.rank == rank))


def harmless(crew: Crew, rank: Rank) -> Crew:
    """The crew after a rank has ended well, or the others go on without it: its crash ends nobody else any more."""
    condemned = tuple(one for one in crew.condemned if one.rank != rank)
    return replace(crew, condemned=condemned) if condemned != crew.condemned else crew


def _at_fault(crew: Crew, found: tuple[Condemned, ...]) -> Crew:
    if not found:
        return crew
    faults = tuple(Fault(one.because, one.at, one.rank) for one in found)
    condemned = tuple(one for one in crew.condemned if one not in found)
    return replace(crew, faults=(*crew.faults, *faults), condemned=condemned)
