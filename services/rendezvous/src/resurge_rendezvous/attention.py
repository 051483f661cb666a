"""Whether this process had time to look: for how long what it notices now may have happened unseen.

A pulse looks at the clock several times a second. Where one comes late, the process stood still, or was busy, since the
one before; and what reached its sockets meanwhile takes a moment to be read, in any order. Pure, but for the pulse.
"""

from __future__ import annotations

import asyncio

from resurge_libs.core.instant import Instant
from resurge_libs.engine.ports import Clock

PULSE_S = 0.05
LATE_S = 0.03
"""A pulse that comes later than this after its time tells of a gap."""
SETTLE_S = 0.5
"""So long after a gap, but no longer than the gap was, what is noticed may still have happened in it."""


class Attention:
    """Of one event loop. `begin` starts the pulse; without it, nothing is ever late."""

    def __init__(self) -> None:
        self._last: Instant | None = None
        self._gaps: list[tuple[Instant, float]] = []
        """When each began, and until when it counts."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, clock: Clock) -> None:
        """Look at the clock from now on, in the running loop."""
        self.looked(clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(PULSE_S, self.begin, clock)

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def looked(self, now: Instant) -> None:
        """A pulse."""
        if self._is_overdue(now) and self._last is not None:
            self._gaps.append((self._last, now + min(SETTLE_S, now - self._last)))
        if self._gaps:
            self._gaps = [(begun, until) for begun, until in self._gaps if until >= now]
        self._last = now

    def late_s(self, now: Instant) -> float:
        """For how long before now something that is noticed now may have been so; 0 where it was looked for."""
        since = [begun for begun, until in self._gaps if until >= now]
        if self._is_overdue(now) and self._last is not None:
            since.append(self._last)
        return now - min(since, default=now)

    def _is_overdue(self, now: Instant) -> bool:
        return self._last is not None and now - self._last > PULSE_S + LATE_S
