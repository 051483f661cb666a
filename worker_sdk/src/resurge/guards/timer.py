"""One daemon thread that calls what is due, for all guards of a process.

Decides when the thread wakes: it looks through all that are armed, which are few, for the nearest instant, and is woken
before that only for one that is nearer still. So arming and ending cost nothing but a place in a set, without a lock,
and nothing is left of what has ended. What is due is called once, the earliest first. Calls must be short: they hold up
all others. Effects: one thread, from the first finite instant on.
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
    """When, of time.monotonic(); infinite for never. Whoever brings it nearer calls `sooner`."""

    def expire(self) -> object:
        """It is due, or was a moment ago."""


class Timer:
    """The thread, and the set in which it looks."""

    def __init__(self) -> None:
        self.armed: set[Any] = set()
        """What is Timed, until it ends. Each change, and each copy, is one step of the interpreter: no lock is needed.
        Who adds to it calls `sooner` for an instant before `wakes_at_s`, looking at that afterwards."""
        self.wakes_at_s = math.inf
        """When the thread looks next by itself; infinite also while it looks."""
        self._lock = threading.RLock()
        """Taken again by a signal's handler that comes in between, with guards of its own."""
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None

    def sooner(self, at_s: float) -> None:
        """Something is due at this instant, which may be before the next look. Raises RuntimeError without a thread."""
        with self._lock:
            if at_s >= self.wakes_at_s:
                return
            if self._thread is None:
                self._begin(threading.Thread(target=self._run, name=THREAD_NAME, daemon=True))
            self._changed.notify()

    def _begin(self, thread: threading.Thread) -> None:
        if self._thread is not None:  # a signal's handler was here first
            return
        self._thread = thread
        try:
            thread.start()
        except BaseException:  # no thread can be had, or a signal's handler raised; a second thread would do no harm
            self._thread = None
            raise

    def forget(self) -> None:
        """In a forked child: the thread did not come along, and the lock may be held by one that did not either."""
        self._changed._at_fork_reinit()  # type: ignore[attr-defined]
        self._thread = None
        self.wakes_at_s = math.inf
        self.armed.clear()

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
        """What is due now, each once, the earliest first; where nothing is, it waits for that or for `sooner`."""
        with self._lock:
            # first this, then the copy: what it lacks was armed later, and is told by `sooner` once the lock is free
            self.wakes_at_s = math.inf
            armed: set[Timed] = self.armed.copy()
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
