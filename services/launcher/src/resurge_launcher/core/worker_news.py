"""What workers say by the local socket, as events, and what they are ordered by it, as an action. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_launcher.core.abort_state import AbortNotice
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant


@dataclass(frozen=True, slots=True)
class GuardFired:
    """The guard of a rank passed its deadline."""

    generation: Generation
    notice: AbortNotice


@dataclass(frozen=True, slots=True)
class LoopCrashed:
    """The loop of a rank raised; unless it is spared, the rank ends itself when its grace is over."""

    generation: Generation
    rank: Rank
    error: str
    at: Instant
    kill_in_s: float
    """From `at` on."""


@dataclass(frozen=True, slots=True)
class CrashSpared:
    """The crash of a rank has reached who had to know: nobody is ended for it."""

    generation: Generation
    rank: Rank


@dataclass(frozen=True, slots=True)
class ScriptOver:
    """The script of a rank is over and its files are flushed: what is left is the interpreter taking itself apart."""

    generation: Generation
    rank: Rank
    pid: int
    """Another one than the launcher's worker where that is a shell around the script, which may have more to do."""


@dataclass(frozen=True, slots=True)
class OrderAbort:
    """Have the generation's workers abort what they wait in; an empty phase means whatever it is."""

    generation: Generation
    left_s: float
    """From now on."""
    sentence: str
    phase: str = ""
