"""Drives the launcher's machine: events in, one at a time; actions out, in order; a tick when the machine wants one.

Lives in the event loop's thread. Decides nothing; what it logs is the machine's own reason, when the phase changes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from resurge_launcher.core import happenings as h
from resurge_launcher.core.model import Control, LauncherState
from resurge_launcher.core.step import LauncherMachine
from resurge_libs.core.instant import Instant
from resurge_libs.core.machine import Step
from resurge_libs.obs import log

DRAIN_S = 0.05
"""After a pause of this process, news that waited meanwhile go before deadlines."""


class Driver:
    """One machine, its inbox and its timer. `run_action` must neither block nor decide."""

    def __init__(self, machine: LauncherMachine, run_action: Callable[[h.Action], None]) -> None:
        self._machine = machine
        self._run_action = run_action
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[h.Event] = deque()
        self._stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self.state: LauncherState = machine.begin(self.now()).state

    @staticmethod
    def now() -> Instant:
        """This machine's monotonic clock, which the workers' pages use too."""
        return Instant(time.monotonic())

    def begin(self) -> None:
        """Run the machine's first actions."""
        self._stepping = True
        self._apply(self._machine.begin(self.now()))
        self._stepping = False
        self._drain()

    def post(self, event: h.Event) -> None:
        """Take an event; handled at once, unless one is being handled."""
        self._inbox.append(event)
        if not self._stepping:
            self._drain()

    def _drain(self) -> None:
        self._stepping = True
        try:
            while self._inbox:
                self._apply(self._machine.step(self.state, self._inbox.popleft(), self.now()))
        finally:
            self._stepping = False
        self._set_timer()

    def _apply(self, step: Step[LauncherState]) -> None:
        before, control = type(self.state.phase), self.state.control
        self.state = step.state
        for action in step.actions:
            self._run_action(action)
        if type(self.state.phase) is not before:
            name = type(self.state.phase).__name__.lower()
            log.event("phase_changed", phase=name, reason=step.reason.code, sentence=step.reason.sentence)
        self._tell_control(control, self.state.control)

    @staticmethod
    def _tell_control(before: Control, now: Control) -> None:
        if now.met and before.lost_at is None and now.lost_at is not None:
            log.event("control_lost", sentence=now.problem)
        elif before.met and before.lost_at is not None and now.lost_at is None:
            log.event("control_back", after_s=round(Driver.now() - before.lost_at, 3))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._machine.next_deadline(self.state)
        if due is not None:
            self._timer = self._loop.call_at(self._loop.time() + max(0.0, due - self.now()), self._tick, due)

    def _tick(self, due: Instant) -> None:
        late_s = self.now() - due
        if late_s > self._machine.rules.limits.late_tick_s:
            self._inbox.append(h.Paused(late_s))
            self._drain()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(DRAIN_S, self.post, h.Tick())
            return
        self.post(h.Tick())
