"""How far the job is: when the marker is read, and what of a generation's progress is told. Pure.

The launcher of the lowest ranks reads the marker before it starts workers and once more when it begins to end them; in
its place another one reads when rendezvous says so. Nothing here waits for a reading: the start, the teardown and the
next round go on, and what comes late is told late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resurge_launcher.core.goals import DownGoal
from resurge_launcher.core.model import (
    Crew,
    Delayed,
    Finished,
    LauncherState,
    Leaving,
    PageReading,
    Ready,
    Rules,
    Running,
    Starting,
    Stuck,
    TearingDown,
)
from resurge_libs.core.ids import Generation
from resurge_libs.core.progress import ProgressSource
from resurge_libs.core.values import replace

if TYPE_CHECKING:
    from resurge_launcher.core import happenings as h


def started(state: LauncherState, rules: Rules) -> Generation | None:
    """The generation before whose start the marker is to be read; None for none."""
    match state.phase:
        case Starting(crew) if rules.reads_marker and crew.run.group_rank == 0:
            return crew.generation
        case _:
            return None


def ended(state: LauncherState, rules: Rules) -> Generation | None:
    """The generation whose end is to be looked at from here; None for none."""
    crew = evidence(state)
    if crew is None or rules.progress is ProgressSource.NONE:
        return None
    match state.goal:
        case DownGoal(generation, reads_marker=True) if generation == crew.generation:
            return generation
        case _:
            return crew.generation if crew.run.group_rank == 0 else None


def evidence(state: LauncherState) -> Crew | None:
    """The crew that is being ended or was ended last; None while one runs."""
    match state.phase:
        case TearingDown(teardown) | Stuck(teardown) | Leaving(teardown):
            return teardown.crew
        case Ready(last=last):
            return last
        case _:
            return None


def with_marker(state: LauncherState, event: h.MarkerRead) -> LauncherState | None:
    """The state with a reading in it; None where nobody waits for it any more."""
    crew = _crew_of(state)
    if crew is None or crew.generation != event.generation:
        return None
    if event.at_start:
        progress = replace(crew.progress, at_start=event.reading)
    else:
        progress = replace(crew.progress, at_end=event.reading)
    return _with_crew(state, replace(crew, progress=progress))


def with_last_steps(crew: Crew, readings: tuple[PageReading, ...]) -> Crew:
    """The crew with the newest step that its workers committed, as their pages say at the end."""
    steps = [reading.committed_step for reading in readings if reading.committed_step is not None]
    return replace(crew, progress=replace(crew.progress, is_over=True, sdk_step=max(steps, default=None)))


def _crew_of(state: LauncherState) -> Crew | None:
    match state.phase:
        case Delayed(crew) | Starting(crew) | Running(crew) | Finished(crew):
            return crew
        case _:
            return evidence(state)


def _with_crew(state: LauncherState, crew: Crew) -> LauncherState:
    match state.phase:
        case TearingDown(teardown) | Stuck(teardown) | Leaving(teardown):
            return replace(state, phase=replace(state.phase, teardown=replace(teardown, crew=crew)))
        case Ready():
            return replace(state, phase=replace(state.phase, last=crew))
        case Delayed() | Starting() | Running() | Finished():
            return replace(state, phase=replace(state.phase, crew=crew))
        case _:
            return state
