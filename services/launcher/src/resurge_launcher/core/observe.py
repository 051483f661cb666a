"""What rendezvous is told of a state. Pure; never leaves anything of the present generation out."""

from __future__ import annotations

from typing import assert_never

from resurge_launcher.core import aborts, stops
from resurge_launcher.core.crew import processes
from resurge_launcher.core.goals import ExitGoal
from resurge_launcher.core.happenings import NodePhase, Observed
from resurge_launcher.core.model import (
    Crew,
    Delayed,
    Exited,
    Exiting,
    Finished,
    LauncherState,
    Leaving,
    Phase,
    Ready,
    Running,
    Starting,
    Stuck,
    Teardown,
    TearingDown,
)
from resurge_libs.core.ids import Generation
from resurge_libs.core.progress import CycleProgress

NOTHING_READ = CycleProgress()


def observe(state: LauncherState) -> Observed:
    """The whole observed state of this node."""
    node_phase, generation, crew = _standing(state.phase)
    story = state.story
    return Observed(
        phase=node_phase,
        generation=generation,
        revision_seen=state.revision_seen,
        exits=crew.exits if crew is not None else (),
        faults=crew.faults if crew is not None else (),
        milestones=crew.milestones if crew is not None else (),
        spans=story.spans if story.incident_id else (),
        incident_id=story.incident_id,
        store_offer=state.offer,
        exit_acknowledged=isinstance(state.goal, ExitGoal),
        leaving_signal=state.phase.signal if isinstance(state.phase, Leaving | Exited) else None,
        workers=processes(crew) if crew is not None else (),
        progress=crew.progress if crew is not None and crew.progress != NOTHING_READ else None,
        draining=stops.draining(state, crew),
        aborts=aborts.observed(crew) if crew is not None else (),
    )


def _standing(phase: Phase) -> tuple[NodePhase, Generation, Crew | None]:
    match phase:
        case Ready(generation, last):
            return NodePhase.READY, generation, last
        case Delayed(crew) | Starting(crew):
            return NodePhase.STARTING, crew.generation, crew
        case Running(crew):
            return NodePhase.RUNNING, crew.generation, crew
        case Finished(crew):
            return NodePhase.FINISHED, crew.generation, crew
        case TearingDown(teardown):
            return NodePhase.TEARING_DOWN, teardown.generation, teardown.crew
        case Stuck(teardown):
            return NodePhase.STUCK, teardown.generation, teardown.crew
        case Leaving(teardown):
            return NodePhase.LEAVING, teardown.generation, teardown.crew
        case Exiting(teardown) | Exited(_, teardown):
            return _exiting(teardown)
        case _:
            assert_never(phase)


def _exiting(teardown: Teardown) -> tuple[NodePhase, Generation, Crew | None]:
    standing = NodePhase.READY if teardown.over else NodePhase.TEARING_DOWN
    return standing, teardown.generation, teardown.crew


def crew_of(phase: Phase) -> Crew | None:
    """The crew whose processes may be alive; None where none can be."""
    match phase:
        case Delayed(crew) | Starting(crew) | Running(crew):
            return crew
        case TearingDown(teardown) | Stuck(teardown) | Leaving(teardown) | Exiting(teardown):
            return None if teardown.over else teardown.crew
        case Ready() | Finished() | Exited():
            return None
        case _:
            assert_never(phase)


def teardown_of(phase: Phase) -> Teardown | None:
    """The teardown in progress or just over, if the phase has one."""
    match phase:
        case TearingDown(teardown) | Stuck(teardown) | Leaving(teardown) | Exiting(teardown):
            return teardown
        case Ready() | Delayed() | Starting() | Running() | Finished() | Exited():
            return None
        case _:
            assert_never(phase)
