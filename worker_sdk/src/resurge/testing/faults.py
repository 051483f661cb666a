"""Faults to inject: a process that is frozen or killed, an interpreter that is held, a phase that is held by a file.

Decides nothing. Effects: signals to the process named; files in the folder given; the calling thread's time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

HOLD_LOOK_S = 0.02


def kill(pid: int) -> None:
    """End this process at once."""
    os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """The process is stopped inside the block, and goes on after it, if it is still there."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def hold_gil(for_s: float) -> None:
    """Keep every other thread of this interpreter from running, as native code that does not let go of it."""
    import ctypes

    ctypes.PyDLL(None).usleep(ctypes.c_uint(int(for_s * 1_000_000)))


class HoldFiles:
    """A file per phase, in a folder that the test and the process under test share: the phase waits while it exists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hold(self, phase: str) -> None:
        """For the test: from now on this phase is held."""
        self._path(phase).touch()

    def release(self, phase: str) -> None:
        """For the test: it goes on."""
        self._path(phase).unlink(missing_ok=True)

    def is_held(self, phase: str) -> bool:
        """For the test: whether the process has come to the phase, and is held there."""
        return self._path(phase).exists() and self._there(phase).exists()

    def here(self, phase: str, limit_s: float = 120.0) -> bool:
        """For the process under test, at the phase: wait while it is held. False when the limit ended it."""
        if not self._path(phase).exists():
            return True
        there = self._there(phase)
        there.touch()
        until_s = time.monotonic() + limit_s
        while self._path(phase).exists():
            if time.monotonic() >= until_s:
                return False
            time.sleep(HOLD_LOOK_S)
        there.unlink(missing_ok=True)
        return True

    def _path(self, phase: str) -> Path:
        return self._folder / f"hold-{phase}"

    def _there(self, phase: str) -> Path:
        return self._folder / f"held-{phase}"
