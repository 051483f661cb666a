"""The launcher's own log lines on their way into the spool. Written at the spool's desk: the launcher never waits.

While the disk hangs the newest lines are kept, and the oldest given up. Decides nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from resurge_launcher.logs.desk import SpoolDesk

LINES_MAX = 4096
"""Lines that may wait for the disk."""


class OwnCopy:
    """Takes lines at once; `open_file` and all writing are done by the desk's thread."""

    def __init__(self, desk: SpoolDesk, open_file: Callable[[], int], failed: Callable[[OSError], None]) -> None:
        """`failed` hears, in the desk's thread, why there is no file; with the next line it is tried again."""
        self._desk, self._open_file, self._failed = desk, open_file, failed
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._is_asked = False
        self._is_closed = False
        self._descriptor: int | None = None

    def write(self, text: str) -> int:
        """Hand over whole lines."""
        self._lines.append(text)
        if not self._is_asked:
            self._is_asked = True
            self._desk.put(self._write_all).add_done_callback(self._asked)
        return len(text)

    def close(self) -> None:
        """No line is taken any more. In the desk's thread, behind all that were handed over before."""
        self._is_closed = True
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _asked(self, done: Future[None]) -> None:
        if done.exception() is not None:  # refused, as much waits already, or no file: the next line asks again
            self._is_asked = False

    def _write_all(self) -> None:
        self._is_asked = False
        if self._is_closed:
            return
        if self._descriptor is None:
            try:
                self._descriptor = self._open_file()
            except OSError as error:
                self._failed(error)
                return
        while self._lines:
            view = memoryview(self._lines.popleft().encode(errors="backslashreplace"))
            with contextlib.suppress(OSError):  # a full disk costs the copy of the line
                while view:
                    view = view[os.write(self._descriptor, view) :]
