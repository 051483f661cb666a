"""What rendezvous is told of a state. Pure; never leaves anything of the present generation out."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter, is_
from typing import assert_never

from resurge_launcher.core import aborts, muster_lines, stops
from resurge_launcher.core.crew import processes
from resurge_launcher.core.goals import ExitGoal
from resurge_launcher.core.happenings import NodePhase, Observed
from resurge_launcher.core.model import (
    NOTHING_READ,
    Alive,
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
        leaving_signal=state.phase.signal if isinstance(state.phase, (Leaving, Exited)) else None,
        workers=processes(crew) if crew is not None else (),
        progress=crew.progress if crew is not None and _is_read(crew.progress) else None,
        draining=stops.draining(state, crew),
        aborts=aborts.observed(crew) if crew is not None else (),
        muster=muster_lines.report(crew) if crew is not None and node_phase is NodePhase.RUNNING else None,
        replacements=crew.muster.replacements if crew is not None and crew.muster is not None else (),
    )


def says_the_same(before: LauncherState, state: LauncherState) -> bool:
    """Whether `observe` says the same of both for certain, by what was replaced: so it need not be made of either.

    That is so of nearly every event: beats change nothing that is told, and pages that are read again hardly ever.
    """
    if not all(map(is_, _told_parts(before), _told_parts(state))):
        return False
    was, now = before.phase, state.phase
    return was is now or (isinstance(was, Running) and isinstance(now, Running) and _is_alike(was.crew, now.crew))


def _is_alike(was: Crew, now: Crew) -> bool:
    """Whether nothing but the watches of living workers was replaced, and each asks whether to stop as before."""
    if not all(map(is_, _crew_parts(was), _crew_parts(now))) or len(was.workers) != len(now.workers):
        return False
    for worker, other in zip(was.workers, now.workers, strict=True):
        if worker is other:
            continue
        old, new = worker.state, other.state
        if not (isinstance(old, Alive) and isinstance(new, Alive) and old.pid == new.pid):
            return False
        if _asks(old) != _asks(new):
            return False
    return True


def _asks(alive: Alive) -> bool:
    reading = alive.watch.reading
    return reading is not None and reading.asks_stop


UNOBSERVED = frozenset({"control", "pages_at", "judge_after"})
"""The fields of the state that rendezvous is never told of."""
_told_parts = attrgetter(*(item.name for item in fields(LauncherState) if item.name not in UNOBSERVED | {"phase"}))
_crew_parts = attrgetter(*(item.name for item in fields(Crew) if item.name != "workers"))


def _is_read(progress: CycleProgress) -> bool:
    return progress is not NOTHING_READ and progress != NOTHING_READ


def _standing(phase: Phase) -> tuple[NodePhase, Generation, Crew | None]:
    match phase:
        case Running(crew):
            return NodePhase.RUNNING, crew.generation, crew
        case Ready(generation, last):
            return NodePhase.READY, generation, last
        case Delayed(crew) | Starting(crew):
            return NodePhase.STARTING, crew.generation, crew
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
        case Running(crew) | Delayed(crew) | Starting(crew):
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
