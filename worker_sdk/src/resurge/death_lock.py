"""A lock on the page that a worker holds as long as it lives: its launcher hears of the end before the memory is freed.

A pidfd says that a process is over when the kernel has freed its memory, which takes as long as there is memory to
free, and longer with a device context. A robust lock is let go of before that: when the thread that holds it ends,
the kernel marks the lock's word and wakes who waits for it. An `exec` lets go of it too: the mark alone says nothing.

Both sides use this file: the worker `hold`s, the launcher waits for the word to change. The fork server loads it by its
path, without the package: it imports nothing of ours, and at first only what every interpreter has loaded anyway. What
the platform lacks makes it useless, never harmful.
"""

from __future__ import annotations

import os
import sys
from _thread import get_native_id
from typing import Any

OFFSET_BYTES = 1024
"""Where the lock lies in a page. Its first four bytes are its word; a fresh page has 0 there: held by nobody."""
LOCK_BYTES = 64
"""Room for a `pthread_mutex_t` of any 64-bit platform."""
HOLDER_MASK = 0x3FFFFFFF
"""The part of the word that names the thread that holds the lock; 0 for nobody."""
HOLDER_DIED = 0x40000000
"""Set in the word by the kernel when the holder has ended, or has replaced its program."""
NOBODY_WAITS_ON = HOLDER_MASK
"""Written by the launcher when the worker is gone: no thread has this number."""
_SOMEBODY_WAITS = 0x80000000
_FUTEX_CALL = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1
_ALL = 2**31 - 1
_ATTRIBUTES_BYTES = 64
_READ_WRITE, _SHARED = 3, 1
_holding_pid = 0
"""This process, once it holds a lock: one is enough, and the C library's list then leads to no second page."""


_c_library: Any = None


class Futex:
    """Waiting for a word in shared memory, which Python does not wrap. Raises NotImplementedError where it cannot."""

    def __init__(self) -> None:
        import ctypes

        number = _FUTEX_CALL.get(os.uname().machine)
        if number is None or sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
            raise NotImplementedError(f"not known on {sys.platform} {os.uname().machine}")
        self._number = ctypes.c_long(number)
        self._ctypes = ctypes
        self.libc = _libc()

    def wait(self, address: int, value: int, limit_s: int) -> None:
        """Sleep while the word has this value; returns at any wake-up, after the limit, and when it has another one."""
        c = self._ctypes
        limit = (c.c_long * 2)(limit_s, 0)
        self.libc.syscall(self._number, c.c_void_p(address), c.c_int(_FUTEX_WAIT), c.c_uint32(value), limit, None, 0)

    def wake(self, address: int) -> None:
        """Wake all that wait for the word."""
        c = self._ctypes
        self.libc.syscall(self._number, c.c_void_p(address), c.c_int(_FUTEX_WAKE), c.c_int(_ALL), None, None, 0)


def _libc() -> Any:
    """Made once: each makes a class of its own, several KiB that wait for the collector of cycles."""
    global _c_library
    if _c_library is None:
        import ctypes

        _c_library = ctypes.CDLL(None, use_errno=True)
    return _c_library


def hold(path: str) -> str:
    """Hold the lock of the page at this path until this process ends; empty, or why not. Never waits, never raises.

    To be called by the main thread: the lock ends with its thread. A forked child does not hold it.
    """
    try:
        return _hold(path)
    except (OSError, ImportError, AttributeError, NotImplementedError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _hold(path: str) -> str:
    global _holding_pid
    thread = get_native_id()
    if _holding_pid == os.getpid():
        return "held already"
    if thread != os.getpid():
        return "not the main thread"
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        word = os.pread(descriptor, 4, OFFSET_BYTES)
        if os.fstat(descriptor).st_size < OFFSET_BYTES + LOCK_BYTES:
            return "the page is too short"
        if int.from_bytes(word, sys.byteorder) & HOLDER_MASK:
            return "held already"
        futex = Futex()
        address = _mapped(futex.libc, descriptor) + OFFSET_BYTES
    finally:
        os.close(descriptor)
    why_not = _lock(futex, address, thread)
    if not why_not:
        _holding_pid = thread
    return why_not


def _mapped(libc: Any, descriptor: int) -> int:
    """Map the page for good: the C library keeps the lock in a list of its own, and must find it until the end."""
    import ctypes

    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    address = libc.mmap(None, OFFSET_BYTES + LOCK_BYTES, _READ_WRITE, _SHARED, descriptor, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    return int(address)


def _lock(futex: Futex, address: int, thread: int) -> str:
    import ctypes

    libc = futex.libc
    attributes, mutex = ctypes.create_string_buffer(_ATTRIBUTES_BYTES), ctypes.c_void_p(address)
    libc.pthread_mutexattr_init(attributes)
    failed = (
        libc.pthread_mutexattr_setpshared(attributes, 1)
        or libc.pthread_mutexattr_setrobust(attributes, 1)
        or libc.pthread_mutex_init(mutex, attributes)
        or libc.pthread_mutex_trylock(mutex)
    )
    if failed:
        return f"the lock cannot be had: {os.strerror(failed)}"
    word = ctypes.c_uint32.from_address(address)
    if word.value & HOLDER_MASK != thread:
        libc.pthread_mutex_unlock(mutex)
        return "this C library keeps its locks in another way"
    # The kernel wakes at the end only where the word says so; the launcher waits without being able to set it.
    word.value |= _SOMEBODY_WAITS
    futex.wake(address)
    return ""
