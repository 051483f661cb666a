"""The launcher's transition function.

Rules, in prose:
1. An event only adds facts (absorb.py); moves follow from where the launcher stands and what is wanted (pursue.py).
2. A fault tears the node's own workers down at once and goes up the stream; the verdict comes later.
3. A node is Ready again only when no worker and no descendant of one is alive.
4. A generation is started only if it is newer than the last one torn down here.
5. Workers live on while the control plane is away, as long as they progress; the lease counts from the sending of the
   answered beat, and a broken stream shortens it.
6. A terminal decision gives way to nothing; the launcher's own end only to a terminal decision.
7. A worker known to be at its end by a fault of its own counts as a fault at once, and as gone when it is reaped.
8. A launcher that leaves waits, bounded, until rendezvous has heard it: others would wait for it.
9. A notice to leave is answered by ranks that stop at one step with all others, within its grace (notices, stops).
10. A teardown waits, bounded, for a checkpoint that is open and still written, and for a look at workers that hang.
11. Everything of the present generation is told again with every change: a fault cannot be lost.
"""

from __future__ import annotations

from typing import Any, assert_never

from resurge_launcher.core import aborts, crashes, hangs, notices, reclaiming, replacing, stops
from resurge_launcher.core import control as controls
from resurge_launcher.core import crew as crews
from resurge_launcher.core import happenings as h
from resurge_launcher.core import progress as progresses
from resurge_launcher.core import teardown as teardowns
from resurge_launcher.core.absorb import absorb
from resurge_launcher.core.goals import EndGoal, ExitGoal
from resurge_launcher.core.model import (
    Alive,
    Control,
    Crew,
    Delayed,
    Exited,
    Exiting,
    Finished,
    LauncherState,
    Leaving,
    Phase,
    Ready,
    Rules,
    Running,
    Starting,
    Stuck,
    TearingDown,
)
from resurge_launcher.core.observe import crew_of, observe, says_the_same
from resurge_launcher.core.pursue import move
from resurge_libs.core.instant import Instant, earliest
from resurge_libs.core.machine import Step
from resurge_libs.core.reasons import Because, Reason

MOVES_LIMIT = 8
"""Moves that one event can set off; more would be a circle."""


class LauncherMachine:
    """One node's launcher as a machine without facts: nothing of it is journaled, rendezvous holds what must last."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def begin(self, now: Instant) -> Step[LauncherState]:
        """The first state: what an older launcher left behind is ended before anything else."""
        because = Because(Reason.STARTED, "looking for what an older launcher of this node left behind")
        teardown, actions = teardowns.begin_leftovers(because, now)
        state = LauncherState(TearingDown(teardown), Control(lost_at=now))
        return Step(state, (h.SendObserved(observe(state)), *actions), because)

    def step(self, state: LauncherState, event: h.Event, now: Instant) -> Step[LauncherState]:
        """Decide about one event; total over all states and events, never raises."""
        before = state
        state, actions, reason = absorb(state, event, self.rules, now)
        for _ in range(MOVES_LIMIT):
            moved = move(state, self.rules, now)
            if moved is None:
                break
            state, more, reason = moved
            actions += more
        else:
            raise AssertionError(f"the launcher moves in a circle at {type(state.phase).__name__}")
        looks = _looks(before, state, self.rules)  # first: the file is read while all else goes on
        return Step(state, (*looks, *_told(before, state), *actions, *_leased(before, state)), reason)

    def next_deadline(self, state: LauncherState) -> Instant | None:
        """When a tick is wanted next; None for never."""
        due = self._phase_deadline(state, state.phase)
        if state.control.lost_at is None and state.notice is None and state.reclaim is None:
            return due
        deciding = isinstance(state.goal, (ExitGoal, EndGoal)) or isinstance(state.phase, (Leaving, Exiting, Exited))
        control = None if deciding else controls.end_at(state.control, crew_of(state.phase), self.rules)
        return earliest(due, control, notices.leaves_at(state, self.rules), reclaiming.due_at(state))

    def evolve(self, durable: Any, fact: Any) -> Any:
        """There are no facts."""
        raise AssertionError("the launcher's machine has no facts")

    def _phase_deadline(self, state: LauncherState, phase: Phase) -> Instant | None:
        limits = self.rules.limits
        match phase:
            case Running(crew):
                skew = crews.skew_at(crew, limits.finish_skew_limit_s)
                alone_at = stops.alone_at(state, crew, self.rules)
                cut_off_at = controls.stop_at(state.control, crew, self.rules)
                news_at = earliest(aborts.due_at(crew), crashes.due_at(crew), hangs.due_at(crew))
                return earliest(state.pages_at, skew, cut_off_at, alone_at, news_at, replacing.due_at(crew))
            case Ready() | Finished() | Stuck() | Exited():
                return None
            case Starting(crew):
                return controls.stop_at(state.control, crew, self.rules)
            case Delayed(_, _, spawn_at):
                return None if reclaiming.holds_back(state) else spawn_at
            case Leaving(goodbye=goodbye) if goodbye is not None:
                return goodbye.until
            case TearingDown(teardown) | Leaving(teardown):
                looks_at = state.pages_at if teardown.held_until is not None else None
                return earliest(teardowns.next_deadline(teardown, limits.teardown_limit_s), looks_at)
            case Exiting():
                return self._exit_deadline(phase)
            case _:
                assert_never(phase)

    def _exit_deadline(self, phase: Exiting) -> Instant | None:
        if phase.teardown.over:
            return phase.wait_until
        due = teardowns.next_deadline(phase.teardown, self.rules.limits.teardown_limit_s)
        climbing = phase.teardown.climbed < len(phase.teardown.ladder.rungs)
        # with all rungs climbed both waits must be over before the launcher leaves something alive behind
        return due if climbing or not phase.decided or due is None else max(due, phase.wait_until)


def _told(before: LauncherState, state: LauncherState) -> tuple[h.Action, ...]:
    if says_the_same(before, state):
        return ()
    observed = observe(state)
    return () if observed == observe(before) else (h.SendObserved(observed),)


def _looks(before: LauncherState, state: LauncherState, rules: Rules) -> tuple[h.Action, ...]:
    """What is to be looked at once, for the job's progress: before the start of a generation, and at its end."""
    if isinstance(state.phase, Running) and isinstance(before.phase, Running):
        return ()
    looks: list[h.Action] = []
    generation = progresses.started(state, rules)
    if generation is not None and generation != progresses.started(before, rules):
        looks.append(h.ReadMarker(generation, at_start=True))
    generation = progresses.ended(state, rules)
    if generation is not None and generation != progresses.ended(before, rules):
        if rules.reads_marker:
            looks.append(h.ReadMarker(generation, at_start=False))
        looks.append(h.ReadPages(generation))
    return tuple(looks)


def _leased(before: LauncherState, state: LauncherState) -> tuple[h.Action, ...]:
    """Workers' pages follow the lease: written when it moves, and when there are new pages."""
    if state.control is before.control and state.phase is before.phase:
        return ()
    crew = crew_of(state.phase)
    pids = () if crew is None else _pids(crew)
    if crew is None or not pids:
        return ()
    until = state.control.lease.until if state.control.lease is not None else None
    old_until = before.control.lease.until if before.control.lease is not None else None
    old_crew = crew_of(before.phase)
    fresh = old_crew is None or _pids(old_crew) != pids
    if until == old_until and not fresh:
        return ()
    return (h.WriteLease(crew.generation, until),)


def _pids(crew: Crew) -> tuple[int, ...]:
    return tuple([w.state.pid for w in crew.workers if isinstance(w.state, Alive)])
