"""The aborts of one guard that fired: each on a thread of its own, in order, none in the way of another for long.

Decides the turns: the next job starts when the one before has ended, or after TURN_S. Saying that the guard fired is
the first job, since an output that nobody reads must not hold up an abort. Effects: daemon threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from resurge.guards.groups import Abortable

TURN_S = 0.1
"""How long a job is alone; then the next one starts beside it."""
_log = logging.getLogger("resurge")


class AbortWork:
    """Say it, then call `abort()` of each group once. `start` returns at once; nothing is raised."""

    def __init__(self, say: Callable[[], object], groups: Sequence[Abortable]) -> None:
        self._jobs = (say, *(group.abort for group in groups))
        self._done = threading.Event()

    def start(self) -> None:
        """Begin, on threads; on the caller's own where no thread can be had any more."""
        try:
            threading.Thread(target=self._run, name="resurge-abort", daemon=True).start()
        except RuntimeError:
            for job in self._jobs:
                _quietly(job)
            self._done.set()

    def wait(self, limit_s: float) -> bool:
        """True when all jobs ended within so many seconds."""
        return self._done.wait(limit_s)

    def _run(self) -> None:
        begun: list[threading.Event] = []
        for job in self._jobs:
            begun.append(_beside(job))
            begun[-1].wait(TURN_S)
        for ended in begun:
            ended.wait()
        self._done.set()


def _beside(job: Callable[[], object]) -> threading.Event:
    ended = threading.Event()

    def run() -> None:
        _quietly(job)
        ended.set()

    try:
        threading.Thread(target=run, name="resurge-abort-one", daemon=True).start()
    except RuntimeError:
        run()
    return ended


def _quietly(job: Callable[[], object]) -> None:
    started_s = time.monotonic()
    try:
        job()
    except BaseException as error:  # task root: the other groups are still to be aborted
        _log.warning("resurge: an abort failed after %.3f s: %r", time.monotonic() - started_s, error)
