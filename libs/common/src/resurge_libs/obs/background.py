"""Writing for people that nobody waits for: a thread of its own, and one word when a place cannot be written.

Whoever has something to write hands it over and goes on. Newer work of the same name replaces what was not begun yet;
how much may wait is bounded. A place that hangs costs its own thread and nothing else. Decides nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from resurge_libs.obs.log import event

MAX_WAITING = 256
STALL_LIMIT_S = 5.0
"""A write that takes longer is told as one that hangs."""
CLOSE_LIMIT_S = 1.0

Work = Callable[[], None]


class Outage:
    """One place: what cannot be written there is said once, and once when it can be again."""

    def __init__(self, what: str, path: Path, remedy: str) -> None:
        self._what, self._path, self._remedy = what, path, remedy
        self._lost = 0
        self._lock = threading.Lock()

    def failed(self, error: OSError | str) -> None:
        """It could not be written now."""
        with self._lock:
            self._lost += 1
            first = self._lost == 1
        if first:
            why = error if isinstance(error, str) else error.strerror or str(error)
            sentence = f"{self._what} cannot be written to {self._path}: {why}. {self._remedy} The job goes on without."
            event("record_not_written", what=self._what, path=str(self._path), error=why, sentence=sentence)

    def written(self) -> None:
        """It was written now."""
        with self._lock:
            lost, self._lost = self._lost, 0
        if lost:
            event("record_written_again", what=self._what, path=str(self._path), lost=lost)


class BackgroundWriter:
    """Runs work in the order of its first hand-over. `outage` is told when a piece of work hangs or fails.

    `share`: of this thread's time, how much work may take; what is handed over as urgent does not wait for it.
    """

    def __init__(self, name: str, outage: Outage, share: float = 1.0) -> None:
        self._name, self._outage, self._share = name, outage, share
        self._waiting: dict[str, Work] = {}
        self._urgent: set[str] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._busy_since: float | None = None
        self._not_before = 0.0
        self._stall_told = False
        self.took_s = 0.0
        """How long the last piece of work kept the interpreter busy."""

    def put(self, key: str, work: Work, urgent: bool = False, after_s: float = 0.0) -> None:
        """Hand over; returns at once. What is not urgent is begun `after_s` later at the soonest."""
        with self._changed:
            if self._closing:
                return
            if key not in self._waiting and len(self._waiting) >= MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
                self._outage.failed(f"{MAX_WAITING} writes wait already, and the oldest gives way")
            if key not in self._waiting:
                self._not_before = max(self._not_before, time.monotonic() + after_s)
            self._waiting[key] = work
            if urgent:
                self._urgent.add(key)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
        self._tell_stall(STALL_LIMIT_S)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was handed over is done."""
        with self._changed:
            return not self._waiting and self._busy_since is None

    def close(self, limit_s: float = CLOSE_LIMIT_S) -> bool:
        """Finish what was handed over, in so many seconds at most; False, and told, when that was not enough."""
        with self._changed:
            self._closing = True
            thread = self._thread
            self._changed.notify_all()
        if thread is None:
            return True
        thread.join(limit_s)
        if thread.is_alive():
            self._tell_stall(0.0)
        return not thread.is_alive()

    def _tell_stall(self, limit_s: float) -> None:
        since = self._busy_since
        if since is not None and not self._stall_told and time.monotonic() - since > limit_s:
            self._stall_told = True
            self._outage.failed(f"no answer for {time.monotonic() - since:.1f} s")

    # ------------------------------------------------------------------------------------------ the thread's own

    def _run(self) -> None:
        while (work := self._next()) is not None:
            began = time.thread_time()
            try:
                work()
            except OSError as error:
                self._outage.failed(error)
            except Exception as error:  # task root: one piece of work; the next may be better
                self._outage.failed(repr(error))
            self._busy_since, self._stall_told = None, False
            self.took_s = time.thread_time() - began
            self._not_before = max(self._not_before, time.monotonic() + self.took_s * (1 / self._share - 1))

    def _next(self) -> Work | None:
        with self._changed:
            while True:
                wait_s = None
                if self._waiting:
                    urgent = next((key for key in self._waiting if key in self._urgent), None)
                    wait_s = self._not_before - time.monotonic()
                    if urgent is not None or self._closing or wait_s <= 0:
                        key = urgent or next(iter(self._waiting))
                        self._urgent.discard(key)
                        self._busy_since = time.monotonic()
                        return self._waiting.pop(key)
                elif self._closing:
                    return None
                self._changed.wait(wait_s)
