"""What the engine does around a machine, in virtual time: inbox, step, timer, and the notice of a pause of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from resurge_libs.core.instant import Instant
from resurge_libs.core.machine import Step
from tests.sim.timeline import Clock, Timeline

LATE_TICK_S = 0.5
AFTER_PAUSE_S = 0.05
PULSE_S = 0.25
SHORTEST_REARM_S = 0.001
MAX_TICKS_AT_REST = 3000
"""So many ticks in a row that change nothing mean that a deadline stays in the past: a busy loop in the product."""


class BusyLoop(AssertionError):
    """A machine asks for ticks that change nothing."""


class SimProcess:
    """A process that runs one machine. Subclasses carry out its actions."""

    name = "process"

    def __init__(self, timeline: Timeline, clock: Clock) -> None:
        self.timeline, self.clock = timeline, clock
        self.alive = False
        self.paused = False
        self.reachable = True
        self.state: Any = None
        self.machine: Any = None
        self._inbox: list[Any] = []
        self._timer = 0
        self._not_before_s = 0.0
        self._idle_ticks = 0
        self._life = 0
        self._asked_of: Any = None
        self._known_deadline: Instant | None = None

    @property
    def now(self) -> Instant:
        return self.clock.instant(self.timeline.now_s)

    # to be given by subclasses

    def tick_event(self) -> Any:
        raise NotImplementedError

    def paused_event(self, for_s: float) -> Any:
        raise NotImplementedError

    def noticed(self, event: Any, late_s: float) -> Any:
        """What came while the process stood still, as it looks to one that has just begun to look again."""
        return event

    def stepped(self, event: Any, before: Any, step: Step[Any]) -> None:
        raise NotImplementedError

    def step(self, event: Any) -> Step[Any] | None:
        return self.machine.step(self.state, event, self.now)

    # the engine's part

    def later(self, wait_s: float, act: Callable[[], None]) -> None:
        """An act of this life of the process: it does not happen after its death."""
        life = self._life
        self.timeline.after(wait_s, lambda: act() if self.alive and life == self._life else None)

    def post(self, event: Any) -> None:
        """Something happened; a process that stands still hears of it later, in order."""
        if not self.alive:
            return
        if self.paused:
            self._inbox.append(event)
            return
        self.apply(event)
        self.arm()

    def apply(self, event: Any) -> None:
        before = self.state
        self.timeline.steps += 1
        step = self.step(event)
        if step is None:
            return
        self.state = step.state
        if self._idle_ticks and (step.actions or step.state != before):
            self._idle_ticks = 0
        self.stepped(event, before, step)

    def arm(self) -> None:
        """Plan the tick that the machine wants next."""
        self._timer += 1
        if not self.alive or self.paused:
            return
        deadline = self._deadline()
        if deadline is None:
            return
        number, life = self._timer, self._life
        at_s = max(self.clock.at_s(deadline), self.timeline.now_s + SHORTEST_REARM_S, self._not_before_s)
        self.timeline.at(at_s, lambda: self._tick(number, life))

    def _deadline(self) -> Instant | None:
        """When the machine wants its next tick; asked once for each state."""
        if self._asked_of is not self.state:
            self._asked_of, self._known_deadline = self.state, self.machine.next_deadline(self.state)
        return self._known_deadline

    def _tick(self, number: int, life: int) -> None:
        if number != self._timer or life != self._life or not self.alive or self.paused:
            return
        deadline = self._deadline()
        if deadline is not None and deadline <= self.now:
            self._idle_ticks += 1
            if self._idle_ticks > MAX_TICKS_AT_REST:
                raise BusyLoop(f"{self.name} ticks for ever: {deadline} is past at {self.now}")
            self.apply(self.tick_event())
        self.arm()

    def pause(self, for_s: float) -> None:
        """Stand still, as under SIGSTOP."""
        if self.alive and not self.paused:
            self.paused = True
            life = self._life
            self.timeline.after(for_s, lambda: self._resume(for_s) if life == self._life else None)

    def _resume(self, for_s: float) -> None:
        if not self.alive:
            return
        self.paused = False
        late_s = for_s - PULSE_S / 2
        if late_s > LATE_TICK_S:
            self._not_before_s = self.timeline.now_s + AFTER_PAUSE_S
            self.apply(self.paused_event(late_s))
        inbox, self._inbox = self._inbox, []
        for event in inbox:
            if self.alive:
                self.apply(self.noticed(event, for_s))
        self.arm()

    def born(self) -> None:
        self.alive, self.paused, self._inbox = True, False, []
        self._life += 1
        self._not_before_s, self._idle_ticks = 0.0, 0

    def died(self) -> None:
        self.alive, self.paused, self._inbox = False, False, []
        self._life += 1
