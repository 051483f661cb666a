"""The real clock, chance and ids behind the engine's ports. Decides nothing."""

from __future__ import annotations

import os
import random
import time

from resurge_libs.core.instant import Instant, Wall


class RealClock:
    """CLOCK_MONOTONIC and the wall clock of this machine."""

    def monotonic(self) -> Instant:
        """Monotonic seconds."""
        return Instant(time.monotonic())

    def wall(self) -> Wall:
        """Unix seconds."""
        return Wall(time.time())


class RealEntropy:
    """Chance from the operating system's seed."""

    def __init__(self) -> None:
        self._random = random.Random()

    def jitter(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()


IDS_AT_ONCE = 512
"""Each read of chance lets other threads run; with thousands of events per second that costs more than the read."""


class RealIds:
    """Random ids; two processes never make the same."""

    def __init__(self) -> None:
        self._digits = ""
        self._at = 0

    def new(self, prefix: str) -> str:
        """The prefix and 16 hexadecimal digits."""
        at = self._at
        if at >= len(self._digits):
            self._digits, at = os.urandom(8 * IDS_AT_ONCE).hex(), 0
        self._at = at + 16
        return f"{prefix}-{self._digits[at : at + 16]}"
