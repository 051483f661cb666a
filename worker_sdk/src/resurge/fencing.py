"""The fence: may this worker still write in the name of its generation?

Decides from three facts: the fenced mark and the lease on the page, and the time. Never calls anybody: the launcher
counts its lease from the sending of the beat that the control plane acknowledged and writes the end of it to the page,
and no newer generation starts before that end has passed. Effects: none here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

NS_PER_S = 1_000_000_000


class FenceState(Enum):
    """What a fence can answer."""

    HOLDS = "HOLDS"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Fence:
    """An answer: HOLDS, and for how many more seconds at least; or, when not strict, UNKNOWN."""

    state: FenceState
    for_s: float

    @property
    def holds(self) -> bool:
        """True when a write that ends within `for_s` seconds is this generation's to make."""
        return self.state is FenceState.HOLDS


class FenceLost(Exception):
    """This worker may not write any more: nothing was written by the fence; end, the launcher starts anew."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(f"{reason}: {sentence}")
        self.reason = reason
        self.sentence = sentence


def judge(*, fenced: bool, lease_until_ns: int, now_ns: int) -> Fence:
    """The answer at this instant; raises FenceLost when the generation is fenced."""
    if fenced:
        raise FenceLost("GENERATION_FENCED", "a newer generation takes the place of this worker's")
    left_ns = lease_until_ns - now_ns
    if left_ns > 0:
        return Fence(FenceState.HOLDS, left_ns / NS_PER_S)
    return Fence(FenceState.UNKNOWN, 0.0)
