"""Asks the kernel to let a thread run soon after it is woken: by a short slice, which Python does not wrap.

A thread that asks for less at a time is, of all that wait for a processor, the one whose turn comes first, and it may
take a processor from one that runs. It gets no more of the machine by that, and nobody else's niceness or policy is
touched. Kernels before 6.12 take the wish and do nothing about it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

SLICE_NS = 100_000
"""The shortest that a kernel takes."""
NORMAL = 0
RESET_ON_FORK = 1
"""What this thread starts, threads and processes, has the usual slices again."""
_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
_SET, _GET = 0, 1


class _Attributes(ctypes.Structure):
    """`struct sched_attr` as the first kernels that had it know it, which later ones take too."""

    _fields_ = (
        ("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64), ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32), ("runtime_ns", ctypes.c_uint64), ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )  # fmt: skip


def wake_soon() -> bool:
    """Have the calling thread woken soon; False where that is not known, not allowed, or not to be touched.

    A thread of another policy, or one with a raised priority (which its children would lose), is left as it is.
    """
    found = _attributes()
    if found is None or found.policy != NORMAL or found.nice < 0:
        return False
    wanted = _Attributes(ctypes.sizeof(found), NORMAL, RESET_ON_FORK, found.nice, 0, SLICE_NS, 0, 0)
    return _syscall(_SET, ctypes.byref(wanted), ctypes.c_uint(0))


def slice_ns() -> int:
    """The slice of the calling thread; 0 where the kernel does not tell."""
    found = _attributes()
    return found.runtime_ns if found is not None else 0


def _attributes() -> _Attributes | None:
    found = _Attributes()
    size = ctypes.c_uint(ctypes.sizeof(found))
    return found if _syscall(_GET, ctypes.byref(found), size, ctypes.c_uint(0)) else None


def _syscall(which: int, *words: object) -> bool:
    """Of the calling thread; whether the kernel did it."""
    numbers = _CALLS.get(os.uname().machine)
    if numbers is None or sys.platform != "linux":
        return False
    return bool(_libc().syscall(ctypes.c_long(numbers[which]), ctypes.c_int(0), *words) == 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    """Made once: each makes a class of its own, several KiB that wait for the collector of cycles."""
    return ctypes.CDLL(None)
