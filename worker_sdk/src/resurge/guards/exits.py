"""The end of a process with a thread that is stuck in native code: within a budget, with the code it was to end with.

An interpreter that ends joins the threads of its native libraries; one that waits for a dead peer is waited for as
long. Decides nothing while no thread is known to be stuck. Then the process ends at the end of Python's own tidying up,
or, if that takes longer, EXIT_BUDGET_S after its begin. The code of a bare `raise SystemExit(code)` is not seen; that
of `sys.exit(code)` and of uncaught exceptions is. Effects: functions of atexit; sys.exit and sys.excepthook, once a
thread is stuck.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
from types import TracebackType
from typing import Any, NoReturn

EXIT_BUDGET_S = 5.0
"""From the begin of the process's end to its end."""
_log = logging.getLogger("resurge")
_lock = threading.RLock()
_stuck: list[str] = []
_code = 0


def note_stuck(what: str) -> None:
    """A native thread is stuck and will be for good: do not wait for it when this process ends."""
    with _lock:
        is_first = not _stuck
        _stuck.append(what)
    _log.warning("resurge: %s is stuck in native code; the end of this process will not wait for it", what)
    if is_first:
        _record_codes()
        # what is registered last runs first
        atexit.register(_bound_tidying_up)


def stuck() -> tuple[str, ...]:
    """What is known to be stuck."""
    return tuple(_stuck)


def _record_codes() -> None:
    leave, hook = sys.exit, sys.excepthook

    def recording_exit(status: Any = None) -> NoReturn:
        global _code
        _code = status if isinstance(status, int) else int(status is not None)
        leave(status)

    def recording_hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        global _code
        _code = 1
        hook(kind, error, trace)

    sys.exit, sys.excepthook = recording_exit, recording_hook


def _bound_tidying_up() -> None:
    def end() -> None:
        if not threading.Event().wait(EXIT_BUDGET_S):
            _end()

    with contextlib.suppress(RuntimeError):
        threading.Thread(target=end, name="resurge-exit-bound", daemon=True).start()


def _at_last() -> None:
    if _stuck:
        _end()


def _end() -> None:
    for stream in (sys.stdout, sys.stderr):
        # a stream that is closed, or None, or whose reader is gone has nothing left to lose
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()
    os._exit(_code & 0xFF)


def _after_fork_in_child() -> None:
    # the native thread did not come along
    _stuck.clear()


# registered at the import, so that it runs after what a script registers
atexit.register(_at_last)
os.register_at_fork(after_in_child=_after_fork_in_child)
