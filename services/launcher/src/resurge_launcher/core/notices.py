"""A launcher that was told to leave: its ranks save and stop at one step with all others, or are ended. Pure.

Notice is given where every worker asks whether to stop, and to a launcher that has no workers while others may save: a
spare waits for a moment whether the whole job leaves, one whose workers finished waits for the decision. Everywhere
else the signal is passed on and the launcher leaves; one that ends nothing counts as soon as its grace finds workers
that ask, as after a restart that was under way. A second signal ends the wait. Before the grace is over, whoever
still lives is ended: a launcher never outlives its scheduler's patience.
"""

from __future__ import annotations

from signal import SIGHUP, SIGINT, SIGQUIT, SIGTERM
from typing import assert_never

from resurge_launcher.core import crew as crews
from resurge_launcher.core import stops
from resurge_launcher.core import teardown as teardowns
from resurge_launcher.core.draining import Goodbye, Notice
from resurge_launcher.core.goals import EndGoal, ExitGoal, ParkGoal, RunGoal
from resurge_launcher.core.happenings import Action
from resurge_launcher.core.ladders import drain_ladder, fault_ladder
from resurge_launcher.core.model import (
    Crew,
    Delayed,
    Exited,
    Exiting,
    Finished,
    LauncherState,
    Leaving,
    Ready,
    Rules,
    Running,
    Starting,
    Stuck,
    TearingDown,
)
from resurge_libs.core.instant import Instant, after, earliest
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace

Outcome = tuple[LauncherState, tuple[Action, ...], Because]
SIGNAL_EXIT_BASE = 128
LEAST_GOODBYE_S = 0.5
ENDING_SIGNALS = frozenset({SIGTERM, SIGINT, SIGHUP, SIGQUIT})
"""Others may give notice, and end nothing where nobody can use it."""


def exit_code_of(signal: int, rules: Rules) -> int:
    """What a launcher that left after a signal exits with."""
    return rules.preempted_exit_code or SIGNAL_EXIT_BASE + signal


def given(state: LauncherState, signal: int, rules: Rules, now: Instant) -> Outcome | None:
    """Take a signal as notice, if it is one here and the first; None: it is to be handled as any other."""
    if signal not in rules.drain_signals or state.notice is not None or isinstance(state.goal, (ExitGoal, EndGoal)):
        return None
    if not _waits_with_notice(state, signal):
        return None
    grace_s = rules.term_timeout_s
    what = f"{crews.signal_name(signal)} gives notice of {grace_s:g} s"
    notice = Notice(signal, now, after(now, grace_s))
    return replace(state, notice=notice), (), Because(Reason.SIGNAL_RECEIVED, what)


def kept(state: LauncherState, signal: int, rules: Rules, now: Instant) -> Outcome:
    """Keep a signal that ends nothing for workers that ask later: it comes once."""
    name, early = crews.signal_name(signal), state.early_notice
    is_over = isinstance(state.goal, (ExitGoal, EndGoal)) or isinstance(state.phase, (Leaving, Exiting, Exited))
    if state.notice is not None or is_over or (early is not None and now < early.ends_at):
        return state, (), Because(Reason.LATE_EVENT_IGNORED, f"{name} says nothing new")
    early = Notice(signal, now, after(now, rules.term_timeout_s))
    what = f"{name} gives notice, and no rank asks whether to stop; it counts if one does within its grace"
    return replace(state, early_notice=early), (), Because(Reason.SIGNAL_RECEIVED, what)


def counts(state: LauncherState, rules: Rules, now: Instant) -> Outcome | None:
    """Take the signal that was kept as notice, once all ranks ask; None before, and when its grace is over.

    Also so near to its end that they would be ended at once: then they go on to what end their scheduler makes.
    """
    early = state.early_notice
    if early is None or state.notice is not None or now >= _kill_from(early, rules):
        return None
    if not isinstance(state.phase, Running) or not stops.asks(state.phase.crew):
        return None  # whoever has no worker that could use it is not to leave for it either
    if isinstance(state.goal, (ExitGoal, EndGoal)):
        return None
    what = f"{crews.signal_name(early.signal)} gave notice, {early.ends_at - now:.1f} s of its grace are left"
    return replace(state, notice=early, early_notice=None), (), Because(Reason.SIGNAL_RECEIVED, what)


def _waits_with_notice(state: LauncherState, signal: int) -> bool:
    match state.phase:
        case Running(crew):
            return stops.asks(crew)
        case Finished():
            return state.control.lost_at is None
        case Ready():
            spare = isinstance(state.goal, ParkGoal) and state.goal.because.code in (
                Reason.NODE_PARKED,
                Reason.DRAINING,
            )
            return spare and state.control.lost_at is None and signal != SIGINT
        case _:
            return False


def leave(state: LauncherState, signal: int, because: Because, rules: Rules, now: Instant) -> Outcome:
    """Leave after a signal: at once where nothing lives, else by the drain ladder; after a notice, by a short one."""
    match state.phase:
        case Ready(generation, last):
            teardown = replace(teardowns.nothing_left(generation, because, now), crew=last)
            return replace(state, phase=Leaving(teardown, signal)), (), because
        case Delayed(crew) | Starting(crew) | Running(crew) | Finished(crew):
            crew = crews.never_started(crew) if isinstance(state.phase, Delayed) else crew
        case TearingDown(teardown) | Stuck(teardown):
            return replace(state, phase=Leaving(teardown, signal)), (), because
        case _:
            raise AssertionError("a launcher leaves once")
    ladder = drain_ladder(signal, rules.term_timeout_s)
    if state.notice is not None:
        ladder = drain_ladder(signal, rules.limits.fault_grace_s)
    held_until = saving_until(state, crew, rules, now) if state.notice is not None else None
    teardown, actions = teardowns.begin(crew, because, ladder, now, held_until)
    pages_at = now if teardown.held_until is not None else None
    return replace(state, phase=Leaving(teardown, signal), pages_at=pages_at), actions, because


def saving_until(state: LauncherState, crew: Crew, rules: Rules, now: Instant) -> Instant | None:
    """Until when a teardown waits for an open checkpoint that is still written; None where there is none to wait for.

    Not without a lease: whoever took this node's place must find its workers gone.
    """
    grace_s = rules.limits.checkpoint_grace_s
    if grace_s <= 0 or not state.control.holds(now) or not crews.is_writing_checkpoint(crew, now):
        return None
    until = after(now, grace_s)
    return until if state.notice is None else min(until, max(now, _kill_from(state.notice, rules)))


def _kill_from(notice: Notice, rules: Rules) -> Instant:
    """When workers that still live are ended, so that none is left when the grace is over."""
    return max(notice.at, Instant(notice.ends_at - rules.limits.fault_grace_s))


def farewell(state: LauncherState, rules: Rules, now: Instant) -> Goodbye | None:
    """Wait for an answer to the last words, once nothing is left here; None where nobody was ever there to answer.

    A control plane that dies at this very moment is started again, by this launcher where it is here; it hears the
    words once more. The wait is bounded, and ends with the scheduler's grace.
    """
    if not state.control.met or not isinstance(state.phase, Leaving):
        return None
    notice = state.notice
    grace_ends = notice.ends_at if notice is not None else after(state.phase.teardown.began_at, rules.term_timeout_s)
    least = after(now, LEAST_GOODBYE_S)
    return Goodbye(now, min(after(now, rules.limits.terminal_ack_limit_s), max(least, grace_ends)))


def goodbye_heard(state: LauncherState, sent_at: Instant) -> LauncherState:
    """A beat of this instant was answered."""
    phase = state.phase
    if not isinstance(phase, Leaving) or phase.goodbye is None or sent_at < phase.goodbye.since:
        return state
    return replace(state, phase=replace(phase, goodbye=replace(phase.goodbye, heard=True)))


def hurried(phase: Leaving | Exiting, now: Instant) -> Leaving | Exiting:
    """An impatient operator waits for nobody's answer."""
    if isinstance(phase, Leaving) and phase.goodbye is not None:
        return replace(phase, goodbye=replace(phase.goodbye, until=now))
    return phase


def over(state: LauncherState, rules: Rules, now: Instant) -> Outcome | None:
    """Leave when there is nothing more to wait for after a notice; None before that."""
    notice = state.notice
    due = leaves_at(state, rules) if notice is not None else None
    if notice is None or due is None or now < due:
        return None
    name = crews.signal_name(notice.signal)
    match state.phase:
        case Running(crew):
            because = Because(Reason.SIGNAL_RECEIVED, f"the grace that {name} left is over, and workers still run")
            teardown, actions = teardowns.begin(crew, because, fault_ladder(rules.limits.fault_grace_s), now)
            return replace(state, phase=Leaving(teardown, notice.signal), pages_at=None), actions, because
        case _:
            because = Because(Reason.SIGNAL_RECEIVED, f"{name} told the launcher to leave, and nothing is left to do")
            return leave(state, notice.signal, because, rules, now)


def leaves_at(state: LauncherState, rules: Rules) -> Instant | None:
    """When a launcher with a notice leaves by itself; None without one, or when its leaving is under way."""
    notice = state.notice
    if notice is None or isinstance(state.goal, (ExitGoal, EndGoal)):
        return None
    limits = rules.limits
    alone = after(max(state.control.lost_at, notice.at), limits.terminal_ack_limit_s) if state.control.lost_at else None
    match state.phase:
        case Running():
            return _kill_from(notice, rules)
        case Finished():
            return notice.ends_at  # the job's decision is waited for, also from a control plane that is coming back
        case Ready():
            return earliest(notice.ends_at, alone, _spare_until(state, notice, rules))
        case Delayed() | Starting():
            return notice.at  # a start was ordered before the notice was heard: it has nothing to save
        case TearingDown() | Stuck():
            return notice.ends_at
        case Leaving() | Exiting() | Exited():
            return None
        case _:
            assert_never(state.phase)


def _spare_until(state: LauncherState, notice: Notice, rules: Rules) -> Instant | None:
    """A launcher without workers stays while the job drains, and for a moment to learn whether it does."""
    match state.goal:
        case ParkGoal(because) if because.code is Reason.DRAINING:
            return None
        case ParkGoal() | RunGoal():
            return after(notice.at, rules.limits.terminal_ack_limit_s)
        case _:
            return None
