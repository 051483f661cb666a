"""One daemon thread that calls what is due, for all guards of a process.

Decides when the thread wakes: it looks through all that are armed, which are few, for the nearest instant, and is woken
before that only for one that is nearer still. So arming and ending cost nothing but a place in a set, and nothing is
left of what has ended. What is due is called once, the earliest first; to take a call back is to put its instant off
for ever. Calls must be short: they hold up all others. Effects: one thread, from the first finite instant on.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from operator import attrgetter
from typing import Any, Protocol

THREAD_NAME = "resurge-guard-timer"
_log = logging.getLogger("resurge")
_LONGEST_WAIT_S = 3600.0
_monotonic = time.monotonic
_by_instant = attrgetter("due_s")


class Timed(Protocol):
    """What the thread calls."""

    due_s: float
    """When, of time.monotonic(); infinite for never. Anyone may put it off; nearer: then `sooner` must be called."""

    def expire(self) -> object:
        """It is due, or was a moment ago."""


class Timer:
    """The thread, and the sets in which it looks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held for each look and each change of a set."""
        self.registries: list[set[Any]] = []
        """Sets of Timed. Who adds one that is due before `wakes_at_s` calls `wake` before it lets go of the lock."""
        self.wakes_at_s = math.inf
        """When the thread looks next by itself."""
        self._changed = threading.Condition(self.lock)
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Have the thread look anew. Needs the lock; raises RuntimeError where no thread can be had."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
            thread.start()
            self._thread = thread
        self._changed.notify()

    def sooner(self, at_s: float) -> None:
        """The instant of something armed was brought nearer, to this one."""
        with self.lock:
            if at_s < self.wakes_at_s:
                self.wake()

    def forget(self) -> None:
        """In a forked child: the thread did not come along, and the lock may be held by one that did not either."""
        self._changed._at_fork_reinit()  # type: ignore[attr-defined]
        self._thread = None
        self.wakes_at_s = math.inf
        for registry in self.registries:
            registry.clear()

    def _run(self) -> None:
        while True:
            self._call_what_is_due()

    def _call_what_is_due(self) -> None:
        for one in self._due():
            try:
                one.expire()
            except Exception:  # task root: the thread serves all guards and outlives every one
                _log.exception("resurge: a guard's deadline could not be carried out")

    def _due(self) -> list[Timed]:
        """What is due now, each once, the earliest first; where nothing is, it waits for that or for `wake`."""
        with self.lock:
            armed: list[Timed] = [one for registry in self.registries for one in registry]
            now_s = _monotonic()
            due = sorted((one for one in armed if one.due_s <= now_s), key=_by_instant)
            for one in due:
                one.due_s = math.inf
            if not due:
                self.wakes_at_s = min(map(_by_instant, armed), default=math.inf)
                # what ends meanwhile must not be kept by this look
                armed.clear()
                self._changed.wait(min(self.wakes_at_s - now_s, _LONGEST_WAIT_S))
        return due


TIMER = Timer()
"""The timer of this process."""
