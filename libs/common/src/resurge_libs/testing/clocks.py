"""Clocks, chance and ids that tests move by hand."""

from __future__ import annotations

import asyncio
import itertools
import random

from resurge_libs.core.instant import Instant, Wall


class VirtualClock:
    """A clock that moves only when told to; both kinds of time move together."""

    def __init__(self, start: float = 1000.0, wall: float = 1_700_000_000.0) -> None:
        self._now, self._wall = start, wall

    def monotonic(self) -> Instant:
        """The instant it was moved to."""
        return Instant(self._now)

    def wall(self) -> Wall:
        """The wall time it was moved to."""
        return Wall(self._wall)

    def advance(self, by_s: float) -> Instant:
        """Move both forward; returns the new instant."""
        assert by_s >= 0, "monotonic time does not go back"
        self._now += by_s
        self._wall += by_s
        return self.monotonic()

    def jump_wall(self, by_s: float) -> None:
        """Set the wall clock off, as an NTP step does."""
        self._wall += by_s


class SeededEntropy:
    """Chance that a seed repeats."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def jitter(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()


class CountingIds:
    """Ids that count up: `incident-1`, `incident-2`."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self, prefix: str) -> str:
        """The next id."""
        return f"{prefix}-{next(self._numbers)}"


class LoopClock:
    """The running event loop's own time, which a virtual loop moves as fast as it can."""

    def __init__(self, wall: float = 1_700_000_000.0) -> None:
        self._wall = wall

    def monotonic(self) -> Instant:
        """The loop's time."""
        return Instant(asyncio.get_running_loop().time())

    def wall(self) -> Wall:
        """The loop's time on a made-up calendar."""
        return Wall(self._wall + asyncio.get_running_loop().time())
