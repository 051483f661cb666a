"""What a launcher keeps of ranks that restart in place, and how it speaks with them. Values only; see musters.py."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant


@dataclass(frozen=True, slots=True)
class Muster:
    """The iterations of one generation's function."""

    iteration: int
    """The one that runs, or is gathered for."""
    min_world: int
    limit_s: float
    """From the break of one iteration to the start of the next."""
    joined: frozenset[Rank] = frozenset()
    done: frozenset[Rank] = frozenset()
    needed: int = 0
    """So many ranks are to finish."""
    reserve: frozenset[Rank] = frozenset()
    """Those that run nothing in this iteration."""
    is_running: bool = False
    is_over: bool = False
    until: Instant | None = None
    """When those who have not joined are waited for no longer."""
    lost: tuple[Rank, ...] = ()
    """Those that have died and were gone on without."""


@dataclass(frozen=True, slots=True)
class MusterHeard:
    """A rank has joined an iteration, says that it is broken, or that it has finished it."""

    generation: Generation
    rank: Rank
    kind: str
    iteration: int
    sentence: str = ""
    needed: int = 0
    """To join: the smallest world to go on with; to finish: so many ranks are to."""
    limit_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MusterTell:
    """Tell all ranks of the generation that restart in place."""

    generation: Generation
    kind: str
    iteration: int
    sentence: str = ""
    members: tuple[Rank, ...] = ()
