"""What a worker keeps ready for the moment in which it hangs: a thread that answers, and the stacks of all threads.

The launcher looks from outside, and two things cannot be seen from there. Whether the interpreter still runs: a thread
sleeps on a word of the page and copies the launcher's number when it is woken; it can do so only while nobody keeps the
GIL. And where each thread stands: a handler in C writes that into a file in memory, also while the GIL is held.
Decides nothing, never raises; what cannot be set up is left out, and the launcher then says less. Effects: a thread, a
signal handler, the page's cells.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import signal
import threading
import time

from resurge.death_lock import Futex
from resurge.page import CELL_BYTES, PAGE_BYTES, Cell, stacks_path

STACKS_SIGNAL = signal.SIGRTMIN + 9
"""A signal that neither Python, nor the C library, nor any scheduler uses."""
SLICE_S = 60
"""A wait is begun anew so often, should a wake-up be lost."""
_stacks_file: int | None = None
"""Kept open for good: the handler writes into it."""


def offer_stacks(page: str) -> int:
    """Write the stacks of all threads beside the page at each such signal from now on; its number, 0 where none is."""
    global _stacks_file
    with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
        if _stacks_file is None:
            flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            _stacks_file = os.open(stacks_path(page), flags, 0o600)
        if signal.getsignal(STACKS_SIGNAL) is signal.SIG_DFL:
            faulthandler.register(STACKS_SIGNAL, file=_stacks_file, all_threads=True, chain=False)
            return int(STACKS_SIGNAL)
    return 0


class Answering:
    """The thread that answers probes. It sleeps in the kernel: a worker that is not asked pays nothing."""

    def __init__(self, page: str) -> None:
        """Map the page once more, for good; raises OSError, ImportError, NotImplementedError."""
        import ctypes

        self._futex = Futex()
        descriptor = os.open(page, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            self._map = mmap.mmap(descriptor, PAGE_BYTES)
        finally:
            os.close(descriptor)
        self._word = ctypes.c_uint32.from_buffer(self._map, Cell.PROBE_ASKED * CELL_BYTES)
        self._address = ctypes.addressof(self._word)
        self._cells = memoryview(self._map).cast("Q")

    def start(self) -> None:
        """Answer from now on; raises RuntimeError where no thread can be had."""
        self.answer()
        threading.Thread(target=self._run, name="resurge-answering", daemon=True).start()

    def answer(self) -> int:
        """Say which number was seen; gives its lower half, which the next wait is for."""
        asked = self._cells[Cell.PROBE_ASKED]
        self._cells[Cell.PROBE_ANSWERED_NS] = time.monotonic_ns()
        self._cells[Cell.PROBE_ANSWERED] = asked + 1
        return int(asked) & 0xFFFFFFFF

    def _run(self) -> None:
        while True:
            self._futex.wait(self._address, self.answer(), SLICE_S)


def answer_probes(page: str) -> bool:
    """Have a thread answer the launcher's probes; False where that cannot be done."""
    try:
        Answering(page).start()
    except (OSError, ImportError, AttributeError, NotImplementedError, ValueError, RuntimeError):
        return False
    return True
