"""What a look at silent workers can find, as values: how each one hangs, and where. Decides nothing; see hangs.py."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_libs.core.instant import Instant


class Captures(StrEnum):
    """When the stacks of workers are taken before a hang ends them."""

    NONE = "none"
    SECTIONS = "sections"
    """Only where the limit of a section is over."""
    ALL = "all"


class How(StrEnum):
    """How a silent worker stands, the clearest causes first: the order in which they are blamed."""

    STOPPED = "stopped"
    """The kernel holds it stopped."""
    GIL_HELD = "gil_held"
    """Native code keeps the interpreter from running."""
    LIVELOCK = "livelock"
    """Its main thread runs Python code without getting on."""
    DEVICE = "device"
    """The kernel waits for a device on its behalf."""
    BLOCKED = "blocked"
    """Its main thread waits in a call that is none of the framework's."""
    UNKNOWN = "unknown"
    """Within the framework, or without stacks: it may be the cause, and it may wait for another rank."""
    WAITS = "waits"
    """Its main thread is in a collective: it waits for other ranks."""


CLEAR = frozenset({How.STOPPED, How.GIL_HELD, How.LIVELOCK, How.DEVICE, How.BLOCKED})
"""These are seen in the worker itself, not in its silence."""
_ORDER = {how: place for place, how in enumerate(How)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One worker, looked at."""

    local_rank: int
    how: How
    where: str = ""
    """File, line and function of its main thread; empty where that is not known."""

    @property
    def place(self) -> int:
        """The smaller, the sooner it is blamed."""
        return _ORDER[self.how]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A look at a node's workers, after one of them was silent for too long or a peer's node said so."""

    begun_at: Instant
    until: Instant
    """However long the look takes, nothing waits for it beyond this."""
    is_ordered: bool = False
    """Another node's workers hang, and the teardown of these is ordered."""
    is_over: bool = False
    findings: tuple[Finding, ...] = ()
