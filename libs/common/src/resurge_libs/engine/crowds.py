"""What an engine does for floods: events that wait together are stepped together, digests of large states are rationed.

Decides nothing: which events may go together, and what stands for them, its machine's package says.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from resurge_libs.core import codec
from resurge_libs.core.instant import Instant
from resurge_libs.engine.outlet import Asked
from resurge_libs.engine.ports import Clock, Entry

CHEAP_DIGEST_S = 0.0005
"""A digest that takes no longer is made for every batch."""
DIGEST_SHARE = 0.05
"""Share of the time that longer ones may take."""


GATHER_S = 0.004
"""While the journal writes two batches, what arrives may wait so long for others to be stepped with it: its answers
could not leave before those batches are durable."""
GATHERED = 64
"""So many events are worth a step at once."""
FLOOD, FLOOD_S = 16, 0.03
"""So many events within so long are a flood, however fast the disk of the journal is: more may wait `GATHER_S` too."""
PATIENT_S = 0.02
"""From one turn to the next that has nothing but patient events to step: each turn wakes threads and connections."""


class Crowds(Protocol):
    """Which events of a machine may be stepped together, and the event that stands for several."""

    def takes(self, event: Any) -> bool:
        """Whether this one may be."""
        ...

    def is_patient(self, event: Any) -> bool:
        """Whether nobody minds if it waits `PATIENT_S` for others."""
        ...

    def of(self, events: Sequence[Any]) -> Any:
        """The event for all of them, in order."""
        ...


class Turns:
    """When an engine's next turn comes: at once, or a moment later where events may wait for others."""

    def __init__(self, turn: Callable[[], None], clock: Clock, crowds: Crowds | None) -> None:
        self._turn, self._clock, self._crowds = turn, clock, crowds
        self._next: asyncio.TimerHandle | None = None
        self._last = Instant(float("-inf"))
        self._arrivals: deque[Instant] = deque(maxlen=FLOOD)

    def begun(self, now: Instant) -> None:
        """A turn begins now, planned or not."""
        self._last = now
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def plan(self, loop: asyncio.AbstractEventLoop, event: Any, waiting: int, in_flight: int) -> None:
        """One more event waits (None: some were left); so many do now, and the journal has so many batches to write."""
        due = loop.time() + self._wait_s(event, waiting, in_flight)
        if self._next is not None:
            if self._next.when() <= due:
                return
            self._next.cancel()
        self._next = loop.call_at(due, self._turn)

    def _wait_s(self, event: Any, waiting: int, in_flight: int) -> float:
        if self._crowds is None or waiting >= GATHERED:
            return 0.0
        if event is not None and self._crowds.is_patient(event):
            return max(0.0, PATIENT_S - (self._clock.monotonic() - self._last))
        if in_flight > 1:
            return GATHER_S
        return self._wait_in_flood_s() if event is not None and self._crowds.takes(event) else 0.0

    def _wait_in_flood_s(self) -> float:
        now = self._clock.monotonic()
        self._arrivals.append(now)
        is_flood = len(self._arrivals) == FLOOD and now - self._arrivals[0] < FLOOD_S
        return max(0.0, GATHER_S - (now - self._last)) if is_flood else 0.0


def next_group(inbox: deque[Asked], most: int, crowds: Crowds | None) -> list[Asked]:
    """The first event of the inbox, with those behind it that may be stepped together with it."""
    group = [inbox.popleft()]
    if crowds is not None and crowds.takes(group[0].event):
        while len(group) < most and inbox and crowds.takes(inbox[0].event):
            group.append(inbox.popleft())
    return group


class RationedDigest:
    """Digests of a growing state. One that is left out is made up for by the next: it is of all that came before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._digester = codec.Digester()
        self._not_before = Instant(float("-inf"))

    def of(self, durable: Any) -> bytes:
        """The digest, whatever it costs."""
        return self._digester.digest(durable)

    def on(self, last: Entry, durable: Any) -> Entry:
        """The last entry of a batch with the digest: hashing what a thousand joins change costs more than the joins, so
        it has none where digests of a large state took their share of the time already."""
        began = self._clock.monotonic()
        if began < self._not_before:
            return last
        digest = self._digester.digest(durable)
        ended = self._clock.monotonic()
        if ended - began > CHEAP_DIGEST_S:
            self._not_before = Instant(ended + (ended - began) / DIGEST_SHARE)
        return replace(last, state_digest=digest)
