"""What a launcher keeps of ranks that restart in place, and how it speaks with them. Values only; see musters.py."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_launcher.core.replacement_state import Replacement, ReplaceWorkers
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because


@dataclass(frozen=True, slots=True)
class MusterOrder:
    """What rendezvous tells all nodes whose ranks restart in place; the newest order says all."""

    number: int = 0
    """Rises with each order of a generation; 0: nothing was ordered yet."""
    kind: str = ""
    iteration: int = 0
    members: tuple[Rank, ...] = ()
    """Of the start, also of the one that is broken or over: who takes part, on all nodes."""
    sentence: str = ""
    is_anew: bool = False
    """Of the start, and after it: a fresh process takes part, and ranks are given from the initial order."""


@dataclass(frozen=True, slots=True)
class MusterReport:
    """What rendezvous is told of this node's ranks that restart in place."""

    acted: MusterOrder
    iteration: int
    is_running: bool
    is_over: bool
    joined: tuple[Rank, ...]
    living: tuple[Rank, ...]
    done: int
    needed: int
    min_world: int
    limit_s: float
    broken: str
    evicted: tuple[Rank, ...] = ()
    """Those that are ended, as they cannot follow, and still live."""
    is_anew: bool = False
    """A fresh process is among those that have joined."""
    can_renew: bool = False
    """The SDK of all ranks here knows what that means."""


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
    """When those who have not joined, or are ended and still live, are waited for no longer."""
    lost: tuple[Rank, ...] = ()
    """Those that have died and were gone on without."""
    evicted: tuple[tuple[Rank, Because], ...] = ()
    """Those that cannot follow and are ended, so that the others can go on."""
    acted: MusterOrder | None = None
    """With ranks on several nodes: the newest order of rendezvous that was acted upon. None: on this node only."""
    members: tuple[Rank, ...] = ()
    """Of the last start, on all nodes."""
    broken: str = ""
    """What broke the iteration before, where that was here."""
    replace_s: float = 0.0
    """So long a fresh process in the place of a lost rank is waited for; 0: there is none."""
    can_renew: bool = False
    """The SDK of all ranks knows of fresh processes."""
    replacements: tuple[Replacement, ...] = ()
    is_anew: bool = False
    """A fresh process has joined the iteration gathered for."""

    @property
    def is_gathering(self) -> bool:
        """Whether ranks are waited for, to come after a break or to end: then nobody is judged by anything else."""
        return not self.is_over and self.until is not None


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
    spans_nodes: bool = True
    """To join: its SDK meets the ranks of other nodes."""
    replace_s: float = 0.0
    """To join: so long a fresh process in the place of a lost rank is to be waited for."""
    can_renew: bool = False
    """To join: its SDK knows of fresh processes."""
    pid: int = 0
    """Who says it; 0 where that does not matter."""


@dataclass(frozen=True, slots=True)
class MusterTell:
    """Tell all ranks of the generation that restart in place."""

    generation: Generation
    kind: str
    iteration: int
    sentence: str = ""
    members: tuple[Rank, ...] = ()
    number: int = 0
    """Of the order that it follows; 0 where the ranks of one node are alone."""
    is_anew: bool = False
    """With a start: a fresh process takes part, and ranks are given from the initial order."""


@dataclass(frozen=True, slots=True)
class MusterEvict:
    """End these workers at once: they cannot follow, and the others go on without them."""

    generation: Generation
    local_ranks: tuple[int, ...]


ForRanks = MusterTell | MusterEvict | ReplaceWorkers
"""What is done for ranks that restart in place."""
