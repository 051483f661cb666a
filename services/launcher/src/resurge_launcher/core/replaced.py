"""The state with another crew in its phase; also after the news of fresh processes in lost ranks' places. Pure."""

from __future__ import annotations

from typing import assert_never

from resurge_launcher.core import happenings as h
from resurge_launcher.core import replacing
from resurge_launcher.core import teardown as teardowns
from resurge_launcher.core.model import (
    Crew,
    Delayed,
    Exited,
    Exiting,
    Finished,
    LauncherState,
    Leaving,
    Ready,
    Running,
    Starting,
    Stuck,
    TearingDown,
)
from resurge_launcher.core.observe import crew_of
from resurge_launcher.core.replacement_state import FromForkServer, ReplaceDone
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace


def replaced(
    state: LauncherState, event: FromForkServer, now: Instant
) -> tuple[LauncherState, tuple[h.Action, ...], Because]:
    """The state after the news of a fresh process, or that there is none."""
    crew = crew_of(state.phase)
    if crew is None or crew.generation != event.generation:
        return state, (), Because(Reason.LATE_EVENT_IGNORED, f"a fresh process of generation {event.generation}")
    if isinstance(event, ReplaceDone):
        crew, actions = replacing.started(crew, event)
    elif isinstance(state.phase, Running):
        crew, actions = replacing.failed(crew, event, now)
    else:  # its workers are being ended: nothing is gone on with
        actions = ()
    state, more = with_crew(state, crew, now)
    return state, (*actions, *more), Because(Reason.OBSERVED, f"local rank {event.local_rank} is replaced, or is not")


def with_crew(state: LauncherState, crew: Crew, now: Instant) -> tuple[LauncherState, tuple[h.Action, ...]]:
    """The state with its present crew replaced; a teardown goes on from there."""
    match state.phase:
        case Running():
            return replace(state, phase=Running(crew)), ()
        case Starting() | Delayed():
            return replace(state, phase=replace(state.phase, crew=crew)), ()
        case TearingDown(teardown) | Stuck(teardown) | Leaving(teardown) | Exiting(teardown):
            teardown, actions = teardowns.workers_changed(teardown, crew, now)
            return replace(state, phase=replace(state.phase, teardown=teardown)), actions
        case Ready() | Finished() | Exited():
            return state, ()
        case _:
            assert_never(state.phase)
