"""The aborts of one guard that fired: each on a thread of its own, in order, none in the way of another for long.

Decides the turns: the next abort starts when the one before has ended, or after TURN_S. Saying that the guard fired has
a thread of its own, begun last: an output that nobody reads must not hold up an abort, and each thread that has to
start before the first abort puts it off on a busy machine. Where it is to be said first, it has a turn as well.
Effects: daemon threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from resurge.guards.groups import Abortable

TURN_S = 0.1
"""How long an abort is alone; then the next one starts beside it."""
_log = logging.getLogger("resurge")


class AbortWork:
    """Call `abort()` of each group once, and say it. `start` returns at once; nothing is raised."""

    def __init__(self, say: Callable[[], object], groups: Sequence[Abortable], says_first: bool = False) -> None:
        self._say, self._says_first = say, says_first
        self._aborts = tuple(group.abort for group in groups)
        self._said = threading.Event()
        self._done = threading.Event()

    def start(self) -> None:
        """Begin, on threads; on the caller's own where no thread can be had any more."""
        try:
            threading.Thread(target=self._run, name="resurge-abort", daemon=True).start()
        except RuntimeError:
            for job in (self._say, *self._aborts):
                _quietly(job)
            self._done.set()
        else:
            _beside(self._say, self._said)

    def wait(self, limit_s: float) -> bool:
        """True when all aborts ended, and it was said, within so many seconds."""
        return self._done.wait(limit_s)

    def _run(self) -> None:
        begun: list[threading.Event] = []
        if self._says_first:
            self._said.wait(TURN_S)
        for job in self._aborts[:-1]:
            begun.append(threading.Event())
            _beside(job, begun[-1])
            begun[-1].wait(TURN_S)
        for job in self._aborts[-1:]:  # nobody's turn comes after it
            _quietly(job)
        for ended in (*begun, self._said):
            ended.wait()
        self._done.set()


def _beside(job: Callable[[], object], ended: threading.Event) -> None:
    def run() -> None:
        _quietly(job)
        ended.set()

    try:
        threading.Thread(target=run, name="resurge-abort-one", daemon=True).start()
    except RuntimeError:
        run()


def _quietly(job: Callable[[], object]) -> None:
    started_s = time.monotonic()
    try:
        job()
    except BaseException as error:  # task root: the other groups are still to be aborted
        _log.warning("resurge: an abort failed after %.3f s: %r", time.monotonic() - started_s, error)
