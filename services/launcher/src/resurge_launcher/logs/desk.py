"""All that the launcher does in its spool is done here, by a thread of its own: a disk that hangs costs that thread.

The event loop waits for an answer only as long as it says. Work is done in the order in which it was handed over.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
WAITING_MAX = 256
"""Pieces of work that may wait for a disk that hangs; more are refused."""


class NoAnswer(OSError):
    """The disk of the spool has not answered in time."""


class SpoolDesk:
    """The thread, and what waits for it."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy_since: float | None = None

    def put(self, work: Callable[[], T]) -> Future[T]:
        """Have it done; nobody waits."""
        answer: Future[T] = Future()
        if self._work.qsize() >= WAITING_MAX:
            answer.set_exception(NoAnswer(0, "no answer, and much waits for one already"))
            return answer

        def do() -> None:
            try:
                answer.set_result(work())
            except OSError as error:
                answer.set_exception(error)

        self._work.put(do)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="resurge-spool", daemon=True)
            self._thread.start()
        return answer

    async def ask(self, work: Callable[[], T], limit_s: float, late: Callable[[T], Any] | None = None) -> T:
        """Its answer; one that comes after the limit is given to `late`, in the thread. Raises OSError, NoAnswer."""
        busy_since = self._busy_since
        if busy_since is not None and time.monotonic() - busy_since > limit_s:
            raise NoAnswer(0, f"no answer for {time.monotonic() - busy_since:.1f} s")
        answer = self.put(work)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(answer)), limit_s)
        except TimeoutError:
            if late is not None:
                answer.add_done_callback(lambda done: late(done.result()) if done.exception() is None else None)
            raise NoAnswer(0, f"no answer for {limit_s:g} s") from None

    def _run(self) -> None:
        while True:
            work = self._work.get()
            self._busy_since = time.monotonic()
            work()
            self._busy_since = None
