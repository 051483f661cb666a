"""What a launcher keeps of what its workers say: guards that have fired, loops that have crashed. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because


@dataclass(frozen=True, slots=True)
class AbortNotice:
    """The guard of one rank has fired: what its peers wait for in the same phase will not come."""

    rank: Rank
    number: int
    """Rises with each notice of that rank's process."""
    phase: str
    left_s: float
    """How much longer it is worth acting upon, when it was heard."""

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from all others of its generation."""
        return self.rank, self.number


@dataclass(frozen=True, slots=True)
class Fresh:
    """A notice that was acted upon, until its news is old."""

    notice: AbortNotice
    until: Instant
    is_own: bool
    """Of a rank of this node: rendezvous is told."""


@dataclass(frozen=True, slots=True)
class Aborts:
    """Of one generation."""

    fresh: tuple[Fresh, ...] = ()
    heard: tuple[tuple[int, int], ...] = ()
    """The newest keys, so that what is repeated is acted upon once."""


@dataclass(frozen=True, slots=True)
class Condemned:
    """A rank whose loop has crashed, and which lives on for its grace."""

    rank: Rank
    because: Because
    at: Instant
    due: Instant


NO_ABORTS = Aborts()
