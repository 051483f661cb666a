"""Waits for the lock on a worker's page: the kernel lets go of it before it frees the memory of a worker that ends.

One thread per worker, asleep in the kernel. It tells that the holder is gone, which an `exec` brings about too, so the
caller must look at the process. Decides nothing. A worker that never takes the lock is never told of.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable

from resurge import death_lock
from resurge_launcher.processes import promptness
from resurge_libs.core.instant import Instant

SLICE_S = 60
"""A wait is begun anew so often, should a wake-up be lost."""
Woken = Callable[[Instant], None]


class DeathWatch:
    """The watch over one page. `woken` runs in the watch's own thread, with the instant of the wake-up."""

    def __init__(self, page: str, woken: Woken) -> None:
        """Begin to wait; raises OSError, NotImplementedError, RuntimeError where that cannot be done."""
        self._futex = death_lock.Futex()
        descriptor = os.open(page, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            # unmapped with this object, which the thread keeps until it ends
            self._map = mmap.mmap(descriptor, death_lock.OFFSET_BYTES + death_lock.LOCK_BYTES)
        finally:
            os.close(descriptor)
        self._word = ctypes.c_uint32.from_buffer(self._map, death_lock.OFFSET_BYTES)
        self._woken = woken
        threading.Thread(target=self._wait, name="death-watch", daemon=True).start()

    def close(self) -> None:
        """End the thread; the worker is gone, or nobody waits for it any more. May be called again."""
        # first the word, then the call: whoever is about to wait for the old word does not
        self._word.value = death_lock.NOBODY_WAITS_ON
        self._futex.wake(ctypes.addressof(self._word))

    def _wait(self) -> None:
        promptness.wake_soon()
        address, told = ctypes.addressof(self._word), 0
        while (value := self._word.value) != death_lock.NOBODY_WAITS_ON:
            if value & death_lock.HOLDER_DIED and value != told:
                self._woken(Instant(time.monotonic()))
            told = value
            self._futex.wait(address, value, SLICE_S)
