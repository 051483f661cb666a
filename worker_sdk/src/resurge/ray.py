"""Ray actors whose orders are heard while a call blocks: a mixin for classes of the script's own. Ray is not imported.

    @ray.remote
    class Trainer(resurge.ray.Guarded):
        async def step(self, batch):
            return await self.off_loop(self._step, batch, timeout_s=60, groups=[self.dp], phase="step")

An actor's methods share one event loop. A collective that runs on it leaves nobody to hear the controller; so blocking
calls go to a thread, under a guard, and `abort`, `stand_down` and `ping` answer meanwhile. Decides nothing: the
controller does. Effects: those of the guards.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from resurge.guards.bounds import off_loop
from resurge.guards.deadlines import deadline, obey, stand_down_all
from resurge.guards.groups import Abortable
from resurge.orders import Order

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call:
    """A call off the loop that has not ended."""

    phase: str
    for_s: float


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer of an actor that hears; it says what it is at."""

    pid: int
    calls: tuple[Call, ...] = ()
    """The longest first."""


class Guarded:
    """For a class that becomes an actor. Its `__init__` need not be called; every method here is async."""

    async def off_loop(
        self,
        function: Callable[..., R],
        *args: Any,
        timeout_s: float | None = None,
        groups: Abortable | Iterable[Abortable | None] | None = None,
        phase: str = "",
        serial: object = None,
    ) -> R:
        """Run this on a thread, under a guard, and await it; the loop goes on.

        `timeout_s`: past it the groups are aborted and this raises CollectiveAborted; None for no limit, `abort` works
        all the same on calls with groups. Calls with the same `serial` object (a group, as a rule) wait for each other:
        two that interleave their collectives are lost.
        """
        name = phase or getattr(function, "__qualname__", "call")
        members = None if groups is None else _as_tuple(groups)
        limit_s = timeout_s if timeout_s is not None and timeout_s > 0 else float("inf")
        call = partial(_guarded, limit_s, members, name, partial(function, *args))
        under_way, number = _calls(self), next(_numbers)
        under_way[number] = (name, time.monotonic())
        try:
            return await off_loop(call, serial)
        finally:
            del under_way[number]

    async def abort(self, reason: str = "the controller asked for it", phase: str = "") -> int:
        """Abort the groups of every armed guard of this process, or those of one phase; gives their number.

        What is blocked raises CollectiveAborted with the reason in it. An actor in which nothing is armed answers 0.
        """
        return obey(Order(generation=0, left_ms=0, sentence=reason, phase=phase))

    async def stand_down(self) -> int:
        """The wait will end by itself, for its peer is known to be dead: abort nothing; gives the number of guards."""
        return stand_down_all()

    async def ping(self) -> Pong:
        """Whether the actor's loop runs, and which calls are under way off it."""
        now = time.monotonic()
        calls = sorted(_calls(self).values(), key=lambda call: call[1])
        return Pong(os.getpid(), tuple(Call(phase, now - begun) for phase, begun in calls))


_numbers = itertools.count()
_CALLS = "_resurge_calls"


def _calls(actor: object) -> dict[int, tuple[str, float]]:
    """The actor's own, made at first use: a mixin cannot count on its `__init__`."""
    found: dict[int, tuple[str, float]] = actor.__dict__.setdefault(_CALLS, {})
    return found


def _as_tuple(groups: Abortable | Iterable[Abortable | None]) -> tuple[Abortable | None, ...]:
    return (groups,) if isinstance(groups, Abortable) else tuple(groups)


def _guarded(limit_s: float, groups: tuple[Abortable | None, ...] | None, phase: str, function: Callable[[], R]) -> R:
    with deadline(limit_s, groups, phase):
        return function()
