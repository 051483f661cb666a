"""One daemon thread that calls what is due, for all guards of a process.

Decides when the thread wakes: only for an entry earlier than the one it already waits for, so that arming costs a push
on a heap. Entries that were taken back stay in the heap, empty, until they are due or more than half of it is such.
Calls must be short: they hold up all others. Effects: one thread, from the first `arm` on.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable

THREAD_NAME = "resurge-guard-timer"
_log = logging.getLogger("resurge")
_LONGEST_WAIT_S = 3600.0
_SWEEP_AT_LEAST = 256
_monotonic = time.monotonic
_number = itertools.count()


class Entry:
    """One call to come; `cancel` takes it back, and lets go of what it refers to."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Not to be called any more; harmless when it was, or is being called."""
        self.call = None


class Timer:
    """The heap and its thread. `arm` may be called from any thread, also from a call that is due."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._heap: list[tuple[float, int, Entry]] = []
        self._sweep_at = _SWEEP_AT_LEAST
        self._wakes_at_s = math.inf
        self._thread: threading.Thread | None = None

    def arm(self, at_s: float, call: Callable[[], object]) -> Entry:
        """Call this at an instant of time.monotonic(), or as soon after it as the thread gets the interpreter."""
        entry = Entry(call)
        with self._lock:  # the condition's own, without its detour: in a training step everything here is cold
            heapq.heappush(self._heap, (at_s, next(_number), entry))
            if len(self._heap) > self._sweep_at:
                self._sweep()
            if self._thread is None:
                self._start()
            if at_s < self._wakes_at_s:
                self._changed.notify()
        return entry

    def __len__(self) -> int:
        """Entries in the heap, those that were taken back among them."""
        return len(self._heap)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        thread.start()
        self._thread = thread

    def _sweep(self) -> None:
        self._heap = [item for item in self._heap if item[2].call is not None]
        heapq.heapify(self._heap)
        self._sweep_at = max(_SWEEP_AT_LEAST, 2 * len(self._heap))

    def _run(self) -> None:
        while True:
            call = self._next()
            if call is None:
                continue
            try:
                call()
            except Exception:  # task root: the thread serves all guards and outlives every one
                _log.exception("resurge: a guard's deadline could not be carried out")
            del call

    def _next(self) -> Callable[[], object] | None:
        """Wait until something changes; the call that is due then, if one is."""
        with self._changed:
            while self._heap and self._heap[0][2].call is None:
                heapq.heappop(self._heap)
            self._wakes_at_s = self._heap[0][0] if self._heap else math.inf
            left_s = self._wakes_at_s - _monotonic()
            if left_s <= 0:
                return heapq.heappop(self._heap)[2].call
            self._changed.wait(min(left_s, _LONGEST_WAIT_S))
        return None


TIMER = Timer()
"""The timer of this process."""


def _after_fork_in_child() -> None:
    # the thread did not come along, and the lock may be held by one that did not either
    TIMER.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_after_fork_in_child)
