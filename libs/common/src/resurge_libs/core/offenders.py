"""When a machine is to blame for fault after fault: which faults count against it, and the settings that judge. Pure.

Only what a machine can be blamed for counts: a worker ended by a signal, a node that fell silent, workers that could
not be started or ended. A program that exits with a code of its own is an error of the application until somebody
shows otherwise, and never excludes a node; nor does a silence, which a peer's deadlock causes as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import Generation, NodeId, Rank
from resurge_libs.core.reasons import Reason

OFFENCES = frozenset(
    {
        Reason.WORKER_SIGNAL,
        Reason.WORKER_START_FAILED,
        Reason.LEASE_EXPIRED,
        Reason.STREAM_LOST,
        Reason.NODE_STUCK,
        Reason.NODE_RETURNED,
        Reason.ENDED_ITS_WORKERS,
    }
)
"""Faults that count against the machine on which an incident began."""


@dataclass(frozen=True, slots=True)
class OffenceView:
    """One earlier fault that began on a machine, as the policy sees it."""

    node: NodeId
    """Under which name the machine ran then."""
    generation: Generation
    """The generation that it cost."""
    code: Reason
    rank: Rank | None = None
    elsewhere: bool = False
    """It was another machine, which was excluded since; else the machine of the present culprit."""


@dataclass(frozen=True, slots=True)
class CulpritView:
    """The machine on which the present round's faults began, and what would be left without it."""

    node: NodeId
    code: Reason
    rank: Rank | None = None
    nodes_left: int = 0
    """Nodes that could take part without the machine."""
    is_enough: bool = False
    """A round could be formed of them."""
    offences: tuple[OffenceView, ...] = ()
    """Earlier ones, oldest first."""


@dataclass(frozen=True, slots=True)
class OffenderRules:
    """So many faults within so many cycles, and a machine is excluded."""

    faults: int = 3
    """The fault in which it shows is counted; 0 excludes nobody."""
    cycles: int = 10
    """Cycles looked back upon, the present one included."""

    def __post_init__(self) -> None:
        if self.faults < 0 or self.cycles < 1:
            raise ValueError(f"faults {self.faults} must not be negative, cycles {self.cycles} at least 1")
        if self.faults > self.cycles:
            raise ValueError(f"{self.faults} faults never happen within {self.cycles} cycles: each costs one")
