"""Appends what workers print to their files, in a thread of its own. Decides nothing about workers.

A slow disk slows the workers that print, as it would without a launcher; a disk that does not answer costs the files,
with a word about it, and never the run: what could not be written by then is left out of them. Memory is bounded.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

QUEUE_BYTES = 4 * 1024 * 1024
"""What may wait for a slow disk before the workers that print do."""
STALL_LIMIT_S = 5.0
"""A write that takes longer counts as one that hangs."""
LOOK_EVERY_S = 0.05


class LogFile:
    """One stream's file, open for appending; the writers' thread closes it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor: int | None = descriptor


class FileWriters:
    """One queue and one thread for all files of a launcher."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._changed = threading.Condition()
        self._queue: deque[tuple[LogFile, bytes | Callable[[], None]]] = deque()
        self._waiting_bytes = 0
        self._busy_since: float | None = None
        self._busy_with: Path | None = None
        self._lost_bytes = 0
        self._thread: threading.Thread | None = None

    def write(self, file: LogFile, data: bytes) -> None:
        """Append; waits while too much does, unless the disk does not answer at all: then it is left out."""
        with self._changed:
            while self._waiting_bytes >= QUEUE_BYTES and not self._hangs():
                self._changed.wait(LOOK_EVERY_S)
            if self._waiting_bytes >= QUEUE_BYTES:
                self._lose(len(data))
                return
            self._put(file, data)

    def end(self, file: LogFile, then: Callable[[], None]) -> None:
        """Close the file after what is waiting; `then` is called once that is done, or at once where the disk hangs."""
        with self._changed:
            if self._hangs():
                self._put(file, _nothing)
                hangs = True
            else:
                self._put(file, then)
                hangs = False
        if hangs:
            then()

    def _put(self, file: LogFile, what: bytes | Callable[[], None]) -> None:
        self._queue.append((file, what))
        self._waiting_bytes += len(what) if isinstance(what, bytes) else 0
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="resurge-log-files", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _hangs(self) -> bool:
        since = self._busy_since
        return since is not None and time.monotonic() - since > STALL_LIMIT_S

    def _lose(self, count: int) -> None:
        first = self._lost_bytes == 0
        self._lost_bytes += count
        if first:
            self._say(
                f"resurge: {self._busy_with} has not answered for {STALL_LIMIT_S:g} s: what workers print is left out "
                "of their files until it does. The job goes on; --log-dir names another directory.\n"
            )

    # ------------------------------------------------------------------------------------------ the thread's own

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                file, what = self._queue.popleft()
                self._busy_since, self._busy_with = time.monotonic(), file.path
            if isinstance(what, bytes):
                self._append(file, what)
            else:
                _close(file)
                what()
            with self._changed:
                self._busy_since = None
                self._waiting_bytes -= len(what) if isinstance(what, bytes) else 0
                lost, self._lost_bytes = self._lost_bytes, 0
                self._changed.notify_all()
            if lost:
                self._say(f"resurge: {file.path} answers again; {lost} bytes are missing in the workers' files\n")

    def _append(self, file: LogFile, data: bytes) -> None:
        if file.descriptor is None:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file.descriptor, view) :]
        except OSError as error:
            # a full disk costs the file, not the training run
            _close(file)
            self._say(f"resurge: output goes to {file.path} no longer: {error.strerror}\n")


def _close(file: LogFile) -> None:
    if file.descriptor is not None:
        descriptor, file.descriptor = file.descriptor, None
        try:
            os.close(descriptor)
        except OSError:  # of a file system that is gone: the descriptor is free all the same
            return


def _nothing() -> None:
    """What is left to be done at an end that nobody waits for."""
