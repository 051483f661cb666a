"""Passes signals on to workers that end nothing: to each worker once it handles, ignores or blocks the signal.

A worker that was started a moment ago would end by it, and its job would pay a restart for a notice. Decides nothing
else; belongs to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from signal import Signals

from resurge_launcher.core.sent_signals import PassOn
from resurge_launcher.team import Team
from resurge_libs.obs import log

LOOK_EVERY_S = 0.1
HANDLER_LIMIT_S = 120.0
"""A worker that has made nothing of the signal by then does not get it: it has no use for it."""


@dataclass(slots=True)
class _Wait:
    """Local ranks that have not got a signal yet."""

    local_ranks: frozenset[int]
    until: float


class Passing:
    """Signals on their way; a generation that is over is forgotten."""

    def __init__(self, team_of: Callable[[int], Team | None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._team_of = team_of
        self._waits: dict[PassOn, _Wait] = {}

    def pass_on(self, order: PassOn) -> None:
        """Send it to those that can take it, now, and to the others when they can."""
        team = self._team_of(order.generation)
        if team is None:
            return
        is_looking = order in self._waits
        self._waits[order] = _Wait(team.local_ranks, time.monotonic() + HANDLER_LIMIT_S)
        left = self._send(order, team)
        if left:
            name, limit_s = Signals(order.signal).name, HANDLER_LIMIT_S
            log.event("signal_waits", signal=name, local_ranks=sorted(left), limit_s=limit_s)
        if not is_looking:
            self._look_again(order)

    def _look(self, order: PassOn) -> None:
        wait, team = self._waits[order], self._team_of(order.generation)
        if team is None:
            del self._waits[order]
            return
        left = self._send(order, team)
        if time.monotonic() >= wait.until:
            wait.local_ranks = frozenset()
            if left:
                name = Signals(order.signal).name
                sentence = f"{name} would only end them: they have not handled it for {HANDLER_LIMIT_S:g} s"
                log.event("signal_not_passed_on", signal=name, local_ranks=sorted(left), sentence=sentence)
        self._look_again(order)

    def _send(self, order: PassOn, team: Team) -> frozenset[int]:
        """Those that are left, and live."""
        wait = self._waits[order]
        wait.local_ranks -= team.pass_on(order.signal, wait.local_ranks)
        return wait.local_ranks & team.living_ranks

    def _look_again(self, order: PassOn) -> None:
        if self._waits[order].local_ranks:
            self._loop.call_later(LOOK_EVERY_S, self._look, order)
        else:
            del self._waits[order]
