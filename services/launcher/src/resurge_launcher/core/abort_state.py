"""What a launcher keeps of guards that have fired: those whose news is fresh, and all it knows. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant


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


NO_ABORTS = Aborts()
