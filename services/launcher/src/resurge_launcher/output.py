"""Carries what workers print to the terminal, with a rank prefix, and to one file per rank and stream.

A thread of its own reads the workers' pipes, so that a slow terminal or disk slows the workers that print, as it would
without a launcher, but never the launcher itself; files have another, for a disk may hang. Bytes are passed on as they
are; memory is bounded by a tail, one unfinished line per stream, and what may wait for files. Decides nothing about
workers.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from resurge_launcher.output_files import FileWriters, LogFile
from resurge_launcher.terminal import Terminal

READ_BYTES = 256 * 1024
TAIL_BYTES = 16 * 1024
OWN_LINES_LIMIT = 4096
IDLE_FLUSH_S = 0.1
"""An unfinished line is shown after so long without more."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One output stream of one worker and where it goes."""

    generation: int
    rank: int
    is_stderr: bool
    file: Path | None = None
    to_terminal: bool = True


@dataclass
class _Pipe:
    stream: Stream
    descriptor: int
    file: LogFile | None
    tail: bytearray = field(default_factory=bytearray)
    ended: threading.Event = field(default_factory=threading.Event)


class Copy(Protocol):
    """Where the launcher's own lines go as well."""

    def write(self, text: str) -> int:
        """Hand over whole lines; waits for nothing."""


class OwnLines:
    """The funnel as a text stream for log events, so that a terminal that blocks does not block the launcher."""

    def __init__(self, funnel: Funnel, copy: Copy | None = None) -> None:
        self._funnel, self._copy = funnel, copy

    def write(self, text: str) -> int:
        """Hand over whole lines."""
        self._funnel.say(text)
        if self._copy is not None:
            self._copy.write(text)
        return len(text)

    def isatty(self) -> bool:
        """Whether people read them: they end on stderr."""
        return sys.stderr.isatty()

    def flush(self) -> None:
        """The funnel's thread writes at once."""


class Funnel:
    """Reads pipes until all are at their end; started once, closed once."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._coming: deque[_Pipe] = deque()
        self._pipes: dict[tuple[int, int, bool], _Pipe] = {}
        self._own_lines: deque[str] = deque(maxlen=OWN_LINES_LIMIT)
        self._closing = False
        self._files = FileWriters(self.say)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="resurge-output", daemon=True)
        self._thread.start()

    def open(self, stream: Stream, file_descriptor: int | None = None) -> int:
        """A descriptor for the worker's end; the caller closes its copy after the start. Raises OSError.

        `file_descriptor`: the stream's file, open for appending; the funnel closes it.
        """
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        file = None
        if stream.file is not None and file_descriptor is not None:
            file = LogFile(stream.file, file_descriptor)
        pipe = _Pipe(stream, reader, file)
        with self._lock:
            self._forget_older(stream)
            self._pipes[(stream.generation, stream.rank, stream.is_stderr)] = pipe
            self._coming.append(pipe)
        self._wake()
        return writer

    def say(self, text: str) -> None:
        """Lines of the launcher's own, on stderr between whole lines of workers; the oldest go if nobody reads."""
        with self._lock:
            self._own_lines.append(text)
        self._wake()

    def tail(self, generation: int, rank: int, limit_lines: int) -> tuple[str, ...]:
        """The last lines a worker printed, stderr if there is any, else stdout."""
        with self._lock:
            for is_stderr in (True, False):
                pipe = self._pipes.get((generation, rank, is_stderr))
                if pipe is not None and pipe.tail:
                    return tuple(bytes(pipe.tail).decode(errors="replace").splitlines()[-limit_lines:])
        return ()

    def at_end(self, generation: int, rank: int | None = None) -> bool:
        """Whether everything that a rank, or all of a generation, printed has been passed on."""
        with self._lock:
            pipes = [p for key, p in self._pipes.items() if key[0] == generation and rank in (None, key[1])]
        return all(pipe.ended.is_set() for pipe in pipes)

    def close(self, limit_s: float) -> None:
        """Pass on what is left, for at most so long, then stop."""
        with self._lock:
            pipes = list(self._pipes.values())
        give_up_at = time.monotonic() + limit_s
        for pipe in pipes:
            pipe.ended.wait(max(0.0, give_up_at - time.monotonic()))
        self._closing = True
        self._wake()
        self._thread.join(max(0.1, give_up_at - time.monotonic()))

    def _forget_older(self, stream: Stream) -> None:
        older = [key for key in self._pipes if key[0] < stream.generation - 1 and self._pipes[key].ended.is_set()]
        for key in older:
            del self._pipes[key]

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"\0")

    # ------------------------------------------------------------------------------------------ the thread's own

    def _run(self) -> None:
        while not self._closing:
            ready = self._selector.select(IDLE_FLUSH_S if self._terminal.has_unfinished else None)
            if not ready:
                self._terminal.flush_unfinished()
            for key, _ in ready:
                if key.data is None:
                    self._take_coming()
                else:
                    self._read(key.data)
        self._take_coming()

    def _take_coming(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        with self._lock:
            coming, lines = list(self._coming), list(self._own_lines)
            self._coming.clear()
            self._own_lines.clear()
        for pipe in coming:
            self._selector.register(pipe.descriptor, selectors.EVENT_READ, pipe)
        for line in lines:
            self._terminal.say(line)

    def _read(self, pipe: _Pipe) -> None:
        try:
            data = os.read(pipe.descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(pipe)
            return
        with self._lock:
            pipe.tail += data[-TAIL_BYTES:]
            del pipe.tail[:-TAIL_BYTES]
        if pipe.file is not None:
            self._files.write(pipe.file, data)
        if pipe.stream.to_terminal:
            self._terminal.write(pipe.stream.rank, pipe.stream.is_stderr, data)

    def _end(self, pipe: _Pipe) -> None:
        self._selector.unregister(pipe.descriptor)
        os.close(pipe.descriptor)
        if pipe.stream.to_terminal:
            self._terminal.end(pipe.stream.rank, pipe.stream.is_stderr)
        if pipe.file is None:
            pipe.ended.set()
        else:
            self._files.end(pipe.file, pipe.ended.set)
