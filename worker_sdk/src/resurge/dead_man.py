"""The kernel's own timer that kills this process: for when no thread of the interpreter can.

A Python thread kills nobody while native code holds the interpreter's lock, nor once the interpreter is being taken
apart. Decides nothing: it is armed behind a thread's deadline and disarmed where that thread spares the process. A
forked child and a program that replaces this one do not have it. What the platform lacks makes it useless, never
harmful. Effects: one timer of the kernel.
"""

from __future__ import annotations

import logging
import signal
from typing import Any

_log = logging.getLogger("resurge")
_CLOCK_MONOTONIC = 1
_SIGEVENT_BYTES = 64
_SIGNO_AT, _NOTIFY_AT = 8, 12
_NS_PER_S = 1_000_000_000


class DeadMan:
    """An armed timer; made by `arm_dead_man`."""

    def __init__(self, libc: Any, timer: Any) -> None:
        self._libc, self._timer = libc, timer

    def disarm(self) -> None:
        """The process may live on; a second call does nothing."""
        timer, self._timer = self._timer, None
        if timer is not None:
            self._libc.timer_delete(timer)


def arm_dead_man(after_s: float) -> DeadMan | None:
    """Have the kernel kill this process after so many seconds; None where it cannot be had. Never raises."""
    try:
        return _armed(max(after_s, 1 / _NS_PER_S))
    except (OSError, ImportError, AttributeError, ValueError, OverflowError) as error:
        _log.debug("resurge: no timer of the kernel stands behind the kill: %r", error)
        return None


def _armed(after_s: float) -> DeadMan:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "timer_create"):
        # before glibc 2.34
        libc = ctypes.CDLL("librt.so.1", use_errno=True)
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise ValueError("the layout of sigevent is known for 64-bit platforms only")
    event = ctypes.create_string_buffer(_SIGEVENT_BYTES)
    ctypes.c_int.from_buffer(event, _SIGNO_AT).value = signal.SIGKILL
    ctypes.c_int.from_buffer(event, _NOTIFY_AT).value = 0  # by a signal
    timer = ctypes.c_void_p()
    if libc.timer_create(_CLOCK_MONOTONIC, event, ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), "timer_create")
    whole_s, part_ns = divmod(int(after_s * _NS_PER_S), _NS_PER_S)
    # interval, then value: each seconds and nanoseconds
    times = (ctypes.c_long * 4)(0, 0, whole_s, part_ns)
    if libc.timer_settime(timer, 0, times, None):
        problem = ctypes.get_errno()
        libc.timer_delete(timer)
        raise OSError(problem, "timer_settime")
    return DeadMan(libc, timer)
