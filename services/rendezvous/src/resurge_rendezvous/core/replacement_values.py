"""Fresh processes in the places of lost ranks: what is told of them, granted, and remembered. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_libs.core.ids import Attempt, Cycle, Generation, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because


class ReplacementStage(StrEnum):
    """How far one is, in the launcher's words."""

    WANTED = "wanted"
    GRANTED = "granted"
    STARTING = "starting"
    COMING = "coming"
    JOINED = "joined"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class ObservedReplacement:
    """What a launcher tells of one; times are by its clock."""

    number: int
    """Rises with each of the generation on the node, from 1."""
    rank: Rank
    iteration: int
    because: Because
    """How the process before ended."""
    lost_at: Wall
    stage: ReplacementStage
    lost_pid: int = 0
    pid: int = 0
    settled_at: Wall | None = None
    """When it came, or was given up."""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Replacing:
    """What one node is told about those that it asked for in the running generation."""

    granted: tuple[int, ...] = ()
    refused_upto: int = 0
    """Those up to this number that are not granted are refused."""
    sentence: str = ""


NOTHING_REPLACED = Replacing()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The newest refusal to one node; not journaled, as the launcher that heard it goes on without."""

    generation: Generation
    upto: int
    sentence: str


@dataclass(frozen=True, slots=True)
class ReplacedRank:
    """The durable record of one that was granted: it cost a restart of the budget. Times are the service's."""

    node: NodeId
    attempt: Attempt
    generation: Generation
    cycle: Cycle
    number: int
    rank: Rank
    iteration: int
    because: Because
    lost_wall: Wall
    granted_wall: Wall
    lost_pid: int = 0
    pid: int = 0
    settled_wall: Wall | None = None
    """When it took part again, or was given up; None while neither is known."""
    came: bool = False
    sentence: str = ""
    """Why it was given up."""

    @property
    def key(self) -> tuple[Generation, NodeId, int]:
        """What tells it from all others."""
        return self.generation, self.node, self.number
