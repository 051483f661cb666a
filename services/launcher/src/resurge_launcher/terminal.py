"""Writes workers' lines to this process's stdout and stderr, whole lines of one rank at a time. Never raises.

A line that is not finished is held back for a moment; carriage returns, as progress bars use them, count as line ends.
"""

from __future__ import annotations

import os
import re

LINE_LIMIT_BYTES = 64 * 1024
"""A longer unfinished line is shown in pieces."""
_END = re.compile(rb"\r\n|\n|\r")

Source = tuple[int, bool]


class Terminal:
    """The two outputs of the launcher. Used by one thread."""

    def __init__(self, stdout: int = 1, stderr: int = 2) -> None:
        self._outputs: dict[bool, int | None] = {False: stdout, True: stderr}
        self._unfinished: dict[Source, bytearray] = {}
        self._open_line: Source | None = None

    @property
    def has_unfinished(self) -> bool:
        """Whether some line is held back."""
        return any(self._unfinished.values())

    def write(self, rank: int, is_stderr: bool, data: bytes) -> None:
        """Show what a rank printed, up to its last line end."""
        source = (rank, is_stderr)
        held = self._unfinished.setdefault(source, bytearray())
        held += data
        cut = _last_line_end(held)
        if cut == 0 and len(held) > LINE_LIMIT_BYTES:
            cut = len(held)
        if cut:
            whole = bytes(held[:cut])
            del held[:cut]
            self._show(source, whole)

    def end(self, rank: int, is_stderr: bool) -> None:
        """The rank prints no more."""
        source = (rank, is_stderr)
        held = self._unfinished.pop(source, bytearray())
        if held:
            self._show(source, bytes(held))
        self._close_line(source)

    def flush_unfinished(self) -> None:
        """Show what is held back, as a prompt or a progress bar wants."""
        for source, held in self._unfinished.items():
            if held:
                whole = bytes(held)
                held.clear()
                self._show(source, whole)

    def say(self, text: str) -> None:
        """Lines of the launcher's own, on stderr."""
        self._close_line(None)
        self._put(True, text.encode(errors="replace"))

    def _show(self, source: Source, whole: bytes) -> None:
        rank, is_stderr = source
        prefix = b"[rank %d] " % rank
        continued = self._open_line == source
        if not continued:
            self._close_line(None)
        text = prefixed(whole, prefix)
        self._put(is_stderr, text[len(prefix) :] if continued else text)
        self._open_line = None if whole.endswith((b"\n", b"\r")) else source

    def _close_line(self, only: Source | None) -> None:
        if self._open_line is not None and only in (None, self._open_line):
            self._put(self._open_line[1], b"\n")
            self._open_line = None

    def _put(self, is_stderr: bool, text: bytes) -> None:
        output = self._outputs[is_stderr]
        if output is None:
            return
        try:
            view = memoryview(text)
            while view:
                view = view[os.write(output, view) :]
        except OSError:
            # the reader has gone; files and tails go on
            self._outputs[is_stderr] = None


def prefixed(whole: bytes, prefix: bytes) -> bytes:
    """The text with the prefix before each of its lines."""
    if b"\r" not in whole:
        body, end = (whole[:-1], b"\n") if whole.endswith(b"\n") else (whole, b"")
        return prefix + body.replace(b"\n", b"\n" + prefix) + end
    ends = [match.end() for match in _END.finditer(whole)]
    starts = [0, *(end for end in ends if end < len(whole))]
    return b"".join(prefix + whole[a:b] for a, b in zip(starts, [*starts[1:], len(whole)], strict=True))


def _last_line_end(held: bytearray) -> int:
    """How many bytes make whole lines; a carriage return at the very end may be half of a line end."""
    searched = len(held) - 1 if held.endswith(b"\r") else len(held)
    return max(held.rfind(b"\n", 0, searched), held.rfind(b"\r", 0, searched)) + 1
