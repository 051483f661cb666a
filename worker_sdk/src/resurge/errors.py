"""The error file: an uncaught exception, written where torchrun's launchers look for it.

The file has the format that torch's `@record` writes. A file that is already there is left alone: the user's own
`@record` knew more. Effects: sys.excepthook is replaced by one that calls the one before it; one file; the end of the
process when the script has asked for a quick one: taking an interpreter with torch apart needs a second, in which peers
wait in their collectives for a rank that is dead already.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

_TEXT_LIMIT = 64 * 1024
Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def install(path: str, is_quick_exit: Callable[[], bool]) -> None:
    """Write uncaught exceptions to this file, if one is named; do what was done before; then end, if that is wanted."""
    before: Hook = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if path and not issubclass(kind, KeyboardInterrupt):
            write_error_file(path, error, at_s=time.time())
        before(kind, error, trace)
        if is_quick_exit() and not issubclass(kind, KeyboardInterrupt):
            # not here: a hook around this one (torch's) may still hold the traceback in a buffer. What is registered
            # last runs first.
            atexit.register(_end)

    sys.excepthook = hook


def _end() -> None:
    for stream in (sys.stdout, sys.stderr):
        # a stream that is closed, or None, or whose reader is gone has nothing left to lose
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()
    os._exit(1)


def write_error_file(path: str, error: BaseException, *, at_s: float) -> bool:
    """True when the file was written; a file already there, or a place that cannot be written, gives False."""
    record = {
        "message": {
            "message": f"{type(error).__name__}: {error}"[:_TEXT_LIMIT],
            "extraInfo": {
                "py_callstack": "".join(traceback.format_exception(error))[-_TEXT_LIMIT:],
                "timestamp": str(int(at_s)),
            },
        }
    }
    try:
        if os.path.exists(path) and os.path.getsize(path) > 0:
            return False
        with open(path, "w", encoding="utf-8") as file:
            json.dump(record, file)
    except OSError:
        return False
    return True
