"""Asks a thread of a worker's interpreter whether it can run: a number on the page, and a wake-up in the kernel.

Decides nothing, never waits. A worker whose SDK has no such thread is never asked.
"""

from __future__ import annotations

import ctypes
import mmap
import os

from resurge.death_lock import Futex
from resurge.page import CELL_BYTES, PAGE_BYTES, Cell
from resurge_libs.core.instant import Instant


class Probe:
    """The questions to one worker: one at a time, so that an old one tells since when nobody answers."""

    def __init__(self, page: str) -> None:
        """Map its page; raises OSError, NotImplementedError where that cannot be done."""
        self._futex = Futex()
        descriptor = os.open(page, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            self._map = mmap.mmap(descriptor, PAGE_BYTES)  # unmapped with this object
        finally:
            os.close(descriptor)
        self._word = ctypes.c_uint32.from_buffer(self._map, Cell.PROBE_ASKED * CELL_BYTES)
        self._cells = memoryview(self._map).cast("Q")
        self._asked_at = Instant(0.0)
        self._number = 0

    def ask(self, now: Instant) -> bool:
        """Ask, unless nobody is there to answer or an answer is still due; whether a question was put."""
        if not self.is_answerable or not self.is_answered:
            return False
        self._number += 1
        self._asked_at = now
        self._cells[Cell.PROBE_ASKED] = self._number
        self._futex.wake(ctypes.addressof(self._word))
        return True

    @property
    def is_answerable(self) -> bool:
        """Whether the worker has a thread for it."""
        return bool(self._cells[Cell.PROBE_ANSWERED])

    @property
    def is_answered(self) -> bool:
        """Whether the last question was answered, or none was put."""
        return self._cells[Cell.PROBE_ANSWERED] > self._number

    @property
    def unanswered_since(self) -> Instant | None:
        """When the question was put that nobody answers; None where nothing is due."""
        return self._asked_at if self._number and self.is_answerable and not self.is_answered else None

    @property
    def answer_took_s(self) -> float | None:
        """How long the last answer took; None while there is none."""
        if not self._number or not self.is_answered:
            return None
        return max(0.0, self._cells[Cell.PROBE_ANSWERED_NS] / 1e9 - self._asked_at)
