"""Signals that are passed on to the workers and end nothing (Slurm's SIGUSR1): what becomes of them. Pure.

One that comes while workers are started or replaced by the next generation is kept for those that run then: the
scheduler sends it once. Nobody hears one that comes to a node whose workers are not to run, and that is said.
"""

from __future__ import annotations

from resurge_launcher.core import crew as crews
from resurge_launcher.core.goals import DownGoal, RunGoal
from resurge_launcher.core.happenings import Action, PassOn
from resurge_launcher.core.model import Exited, Exiting, LauncherState, Leaving, Running
from resurge_launcher.core.observe import crew_of
from resurge_launcher.core.sent_signals import KeptSignal
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace

KEPT_LIMIT_S = 300.0
"""An older one is no news to workers any more."""
Outcome = tuple[LauncherState, tuple[Action, ...], Because]


def received(state: LauncherState, signal: int, now: Instant) -> Outcome:
    """Pass a signal on to the workers that live, and keep it for those that are to follow."""
    name, crew = crews.signal_name(signal), crew_of(state.phase)
    living = crew is not None and crews.any_alive(crew)
    actions = (PassOn(crew.generation, signal),) if crew is not None and living else ()
    if isinstance(state.phase, Running):
        return state, actions, Because(Reason.SIGNAL_RECEIVED, f"{name} is passed on to the workers")
    leaves = isinstance(state.phase, (Leaving, Exiting, Exited))
    if isinstance(state.goal, (RunGoal, DownGoal)) and not leaves:
        others = tuple(kept for kept in state.kept_signals if kept.signal != signal)
        state = replace(state, kept_signals=(*others, KeptSignal(signal, now)))
        return state, actions, Because(Reason.SIGNAL_RECEIVED, f"{name} is kept for the workers that run here next")
    if living:
        return state, actions, Because(Reason.SIGNAL_RECEIVED, f"{name} is passed on to workers that are being ended")
    return state, (), Because(Reason.LATE_EVENT_IGNORED, f"{name} is passed on to nobody: no worker runs here")


def started(state: LauncherState, generation: Generation, now: Instant) -> tuple[LauncherState, tuple[Action, ...]]:
    """Workers run: they get what was kept for them."""
    fresh = [kept.signal for kept in state.kept_signals if now - kept.at <= KEPT_LIMIT_S]
    return replace(state, kept_signals=()), tuple(PassOn(generation, signal) for signal in fresh)
