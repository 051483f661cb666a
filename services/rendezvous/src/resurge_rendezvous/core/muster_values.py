"""Ranks of several nodes that restart in place: what launchers report of theirs, and what all are told. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from resurge_libs.core.ids import Generation, Rank
from resurge_rendezvous.core.shards import ShardMap


class MusterKind(StrEnum):
    """What all ranks of a generation are told."""

    NOTHING = ""
    START = "start"
    INTERRUPT = "interrupt"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class MusterOrder:
    """The newest order; it says all that those before it said."""

    number: int = 0
    """Rises with each order of a generation."""
    kind: MusterKind = MusterKind.NOTHING
    iteration: int = 0
    members: tuple[Rank, ...] = ()
    """Of the start, also of the one that is broken or over: whoever has not seen it is told of it late."""
    sentence: str = ""
    is_anew: bool = False
    """A fresh process takes part: ranks are given from the initial order."""

    @property
    def gathers(self) -> int:
        """The iteration that ranks are gathered for after it."""
        return self.iteration + 1 if self.kind is MusterKind.INTERRUPT else 0


NOTHING_ORDERED = MusterOrder()


@dataclass(frozen=True, slots=True)
class MusterReport:
    """How the ranks of one node stand."""

    acted: MusterOrder = NOTHING_ORDERED
    """The newest order acted upon there; its sentence is not told."""
    iteration: int = 0
    is_running: bool = False
    is_over: bool = False
    joined: tuple[Rank, ...] = ()
    living: tuple[Rank, ...] = ()
    done: int = 0
    needed: int = 0
    min_world: int = 1
    limit_s: float = 0.0
    broken: str = ""
    evicted: tuple[Rank, ...] = ()
    """Those that are ended there, as they cannot follow, and still live."""
    is_anew: bool = False
    """A fresh process is among those that have joined there."""
    can_renew: bool = False
    """The SDK of all ranks there knows what that means."""

    def has_come_to(self, iteration: int) -> bool:
        """Whether all that live there have joined."""
        is_here = not self.is_running and not self.is_over and self.iteration == iteration
        return is_here and bool(self.living) and set(self.joined) >= set(self.living)


@dataclass(frozen=True, slots=True)
class JobMuster:
    """The iterations of one generation's function; not journaled, as launchers tell it again."""

    generation: Generation
    order: MusterOrder = NOTHING_ORDERED
    awaited: ShardMap[None] = field(default_factory=ShardMap)
    """While ranks are gathered: members whose ranks have not all come."""
    done: int = 0
    """Ranks that have finished the iteration that runs."""
