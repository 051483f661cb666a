"""What a launcher keeps of fresh processes in the places of lost ranks, and how it orders them. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because


class ReplacementStage(StrEnum):
    """How far a fresh process in the place of a lost rank is."""

    WANTED = "wanted"
    """Rendezvous has not said yet whether the budget allows it."""
    GRANTED = "granted"
    """The process before is not gone yet."""
    STARTING = "starting"
    COMING = "coming"
    """It lives, and has not come to the function."""
    JOINED = "joined"
    GIVEN_UP = "given_up"


SETTLED = frozenset({ReplacementStage.JOINED, ReplacementStage.GIVEN_UP})


@dataclass(frozen=True, slots=True)
class Replacement:
    """A fresh process in the place of a rank that was lost while it restarts in place."""

    number: int
    """Rises with each of this generation on this node, from 1."""
    rank: Rank
    local_rank: int
    iteration: int
    """The one that it is to take part in."""
    because: Because
    """How the process before ended."""
    lost_at: Instant
    lost_pid: int
    until: Instant
    """It is waited for no longer."""
    stage: ReplacementStage = ReplacementStage.WANTED
    pid: int = 0
    settled_at: Instant | None = None
    """When it came, or was given up."""
    sentence: str = ""
    """Why it was given up."""

    @property
    def is_awaited(self) -> bool:
        """Whether the next iteration waits for it."""
        return self.stage not in SETTLED


@dataclass(frozen=True, slots=True)
class Replacing:
    """What rendezvous has decided about those that were asked for."""

    granted: tuple[int, ...] = ()
    """By their numbers."""
    refused_upto: int = 0
    """Those up to this number that are not granted are refused."""
    sentence: str = ""
    """Why."""


@dataclass(frozen=True, slots=True)
class ReplaceWorkers:
    """Fork these workers of the generation anew; answer ReplaceDone or ReplaceFailed for each. Never by exec."""

    generation: Generation
    local_ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplaceDone:
    """A fresh process lives in the place of one that has ended."""

    generation: Generation
    local_rank: int
    pid: int


@dataclass(frozen=True, slots=True)
class ReplaceFailed:
    """There is none: no warm one can be had, or the workers are no longer wanted."""

    generation: Generation
    local_rank: int
    sentence: str


FromForkServer = ReplaceDone | ReplaceFailed
