"""Virtual time: a heap of (time, number, act). Nothing waits; the next act decides what time it is."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from resurge_libs.core.instant import Instant, Wall

WALL_AT_START = 1_800_000_000.0


@dataclass(frozen=True, slots=True)
class Clock:
    """One process's own clocks: its monotonic time starts anywhere and may run fast, its wall clock may be wrong."""

    offset_s: float = 0.0
    rate: float = 1.0
    wall_skew_s: float = 0.0

    def instant(self, at_s: float) -> Instant:
        return Instant(self.offset_s + at_s * self.rate)

    def at_s(self, instant: float) -> float:
        """The world's time of an instant of this clock."""
        return (instant - self.offset_s) / self.rate

    def wall(self, at_s: float) -> Wall:
        return Wall(WALL_AT_START + at_s + self.wall_skew_s)

    def wall_of(self, instant: float) -> Wall:
        return self.wall(self.at_s(instant))


class Timeline:
    """The acts to come, in order; equal times keep the order in which they were planned."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.acts_done = 0
        self.steps = 0
        """Steps of machines, of which an act may set off several."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        """Plan an act; one that is late already comes next."""
        self._number += 1
        heapq.heappush(self._heap, (at_s if at_s > self.now_s else self.now_s, self._number, act))

    def after(self, wait_s: float, act: Callable[[], None]) -> None:
        self.at(self.now_s + wait_s, act)

    def next_at_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def advance(self) -> None:
        """Do the next act."""
        at_s, _, act = heapq.heappop(self._heap)
        self.now_s = at_s
        self.acts_done += 1
        act()

    def advance_until(self, until_s: float, most_acts: int) -> bool:
        """Do every act up to a time; False once more than so many acts were done."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until_s:
            self.now_s, _, act = pop(heap)
            self.acts_done += 1
            act()
            if self.acts_done > most_acts:
                return False
        return True
