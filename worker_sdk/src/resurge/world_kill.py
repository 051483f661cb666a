"""The end of a rank that cannot go on, so that its world ends with it instead of waiting for it.

Decides nothing about when: one kill, at the deadline that was set at the crash, unless the error reached who had to
know. The rank ends itself alone: its launcher sees that within milliseconds, ends the others of its node and reports
the fault, and rendezvous has every launcher end its own. A rank never signals its peers: that would race for the cause.
Effects: a thread, the standard streams, the end of the process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Protocol

from resurge.dead_man import DeadMan

DEAD_MAN_MARGIN_S = 1.0
"""How much later than the thread's kill the kernel's comes."""
FLUSH_LIMIT_S = 0.5
"""How long the last output is waited for before the end."""
RECORDED_EXIT_CODE = 1
"""Of a rank whose error stands in its error file; a rank without a record dies by SIGKILL."""
_log = logging.getLogger("resurge")
_monotonic = time.monotonic


class Gate(Protocol):
    """Whether the error has reached who had to know; a threading.Event is one."""

    def is_set(self) -> bool:
        """True: nobody needs to be killed for it."""


class WorldKill:
    """The kill of one crash: by whatever way it comes, it happens once. Never raises."""

    def __init__(
        self,
        error: BaseException,
        delivered: Gate | None,
        end_process: Callable[[], object],
        on_spared: Callable[[], object] = lambda: None,
    ) -> None:
        self._error = error
        self._delivered = delivered
        self._end_process = end_process
        self._on_spared = on_spared
        self._lock = threading.Lock()
        self._begun = False
        self.dead_man: DeadMan | None = None
        """What kills where no thread can; disarmed when the world is spared."""

    def now(self) -> bool:
        """End this process, unless the error was delivered; False when that was not done, or is being done already."""
        try:
            return self._now()
        except Exception:  # task root: raising would hide the loop's own error
            _log.exception("resurge: the world could not be killed")
            return False

    def at(self, deadline_s: float) -> bool:
        """The same at an instant of time.monotonic(); at once when it has passed. Sleeps no more than once."""
        left_s = deadline_s - _monotonic()
        if left_s > 0:
            _log.error("resurge: this rank has crashed and ends its world in %.1f s", left_s)
            time.sleep(left_s)
        return self.now()

    def _now(self) -> bool:
        with self._lock:
            if self._begun:
                return False
            if self._delivered is not None and self._delivered.is_set():
                _log.warning("resurge: the crash of this rank was delivered, its world is not killed")
                if self.dead_man is not None:
                    self.dead_man.disarm()
                self._on_spared()
                return False
            self._begun = True
        say_last_words(self._error)
        self._end_process()
        return True


class KillWatchdog:
    """Kills at its deadline, whatever its process is blocked in; cancelled only to hand its deadline over."""

    def __init__(self, kill: WorldKill, grace_s: float) -> None:
        self._kill = kill
        self._deadline_s = _monotonic() + max(0.0, grace_s)
        self._cancelled = threading.Event()

    @property
    def deadline(self) -> float:
        """The instant of the kill, by time.monotonic()."""
        return self._deadline_s

    @property
    def cancelled(self) -> bool:
        """Whether it was told to leave the kill to another."""
        return self._cancelled.is_set()

    def start(self) -> bool:
        """Begin to wait on a daemon thread; False where no thread can be had."""
        try:
            threading.Thread(target=self._run, name="resurge-crash-kill", daemon=True).start()
        except RuntimeError as error:
            _log.warning("resurge: no thread for the kill after a crash: %s", error)
            return False
        return True

    def cancel(self) -> None:
        """Leave the kill to whoever has the deadline now; may be called again."""
        self._cancelled.set()

    def _run(self) -> None:
        if self._cancelled.wait(max(0.0, self._deadline_s - _monotonic())):
            _log.debug("resurge: the kill was handed over, %.1f s before it", self._deadline_s - _monotonic())
            return
        self._kill.now()


def say_last_words(error: BaseException) -> None:
    """Print the error and flush the standard streams, on a thread: an output that nobody reads delays nothing."""

    def say() -> None:
        # a stream that is closed, or None, or whose reader is gone has nothing left to lose
        with contextlib.suppress(AttributeError, ValueError, OSError):
            print("resurge: this rank has crashed and ends its world:", file=sys.stderr)
            traceback.print_exception(error, file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError, OSError):
                stream.flush()

    try:
        thread = threading.Thread(target=say, name="resurge-last-words", daemon=True)
        thread.start()
    except RuntimeError:
        return
    thread.join(FLUSH_LIMIT_S)


def end_recorded() -> None:
    """End by an exit code: the launcher takes the cause from the error file."""
    os._exit(RECORDED_EXIT_CODE)


def end_unrecorded() -> None:
    """End by SIGKILL: there is no record that could tell more."""
    os.kill(os.getpid(), signal.SIGKILL)
