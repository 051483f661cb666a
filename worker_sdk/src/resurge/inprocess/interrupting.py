"""Getting a thread out of a function: its groups are aborted, and an exception is raised into what else it does.

Into the main thread by a signal, whose handler raises: that ends a wait for a lock or a sleep as well. Into another
thread by the interpreter, where it runs Python code. Decides when the function counts as left. A thread that is inside
`atomic()` is let finish that first. Effects: aborts, a signal of this process to itself, its handler.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from resurge.guards.abort_work import AbortWork
from resurge.guards.groups import Abortable

INTERRUPT_SIGNAL = signal.SIGRTMIN + 10
"""Sent by this process to its own main thread only."""
PAUSE_S = 0.05
"""What an abort alone is given; then, and as often again, the exception is raised."""


SETTLE_S = 0.05
"""What is under way over gloo is given before any rank cuts a connection, and what begins meanwhile ends by itself.

gloo never wakes an operation whose connection ends in the middle of a transfer; one that waits for its peer it does.
"""


class RankShouldRestart(BaseException):
    """The function is to be left and called again; a function must not catch it for good."""


class Attempt:
    """One call of the function on the thread that makes this."""

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration
        self.groups: list[Abortable] = []
        self.sentence = ""
        """Why it was interrupted; empty while it was not."""
        self._thread = threading.get_ident()
        self._atomic = threading.RLock()
        self._depth = 0
        self._lock = threading.RLock()
        self._inside = True
        self._left = threading.Event()
        self._aborting = self._settled = False
        self._driver: threading.Thread | None = None
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            signal.signal(INTERRUPT_SIGNAL, self._signalled)

    def interrupt(self, iteration: int, sentence: str) -> None:
        """Have the function left; on another thread, and once."""
        with self._lock:
            if iteration != self.iteration or self._driver is not None or not self._inside:
                return
            self.sentence = sentence or "interrupted"
            self._driver = threading.Thread(target=self._drive, name="resurge-interrupt", daemon=True)
            self._driver.start()

    def add(self, group: Abortable) -> None:
        """Abort this group too when the function is to be left: at once, where the others have been aborted already."""
        with self._lock:
            self.groups.append(group)
            is_late = self._aborting
        if is_late:
            group.abort()

    def settle(self) -> None:
        """Let transfers over gloo end or come to a wait, on the peers too; once, before a group is let go of."""
        with self._lock:
            groups = () if self._settled else tuple(self.groups)
            self._settled = True
        bounded: list[Any] = [group for group in groups if hasattr(group, "enter_guard")]
        for group in bounded:
            with contextlib.suppress(RuntimeError):  # the function has destroyed it
                group.enter_guard(time.monotonic() + SETTLE_S)
        if bounded:
            time.sleep(SETTLE_S)

    @contextlib.contextmanager
    def atomic(self) -> Iterator[None]:
        """What is done inside is done whole: no exception is raised into it, and its groups are not aborted."""
        with self._atomic:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def left(self) -> None:
        """The function has been left, however; after this no exception is raised any more."""
        while True:
            try:
                self._inside = False
                self._left.set()
                with self._lock:
                    driver = self._driver
                if driver is not None:
                    driver.join()
                for _ in range(1000):  # what was raised in the last moment arrives here
                    pass
                return
            except RankShouldRestart:
                continue

    def _signalled(self, number: int, frame: object) -> None:
        """On the main thread, between two steps of its code."""
        if self._inside and not self._depth and self._driver is not None:
            raise RankShouldRestart

    def _drive(self) -> None:
        with self._atomic:
            self.settle()
            with self._lock:
                self._aborting = True
                groups = tuple(self.groups)
            AbortWork(lambda: None, groups).start()
        while not self._left.wait(PAUSE_S):
            with self._atomic:
                if self._inside and self._is_main:
                    signal.pthread_kill(self._thread, INTERRUPT_SIGNAL)
                elif self._inside:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(self._thread), ctypes.py_object(RankShouldRestart)
                    )
