"""From the raw bytes of a worker's output to whole lines for a file of text, each with its rank. Pure.

Nothing that a file of text can hold is changed. Bytes that are no UTF-8 become U+FFFD, NUL becomes <NUL>. Of a progress
bar, which writes over its own line with carriage returns, the last state within a part stays. ANSI codes stay.
"""

from __future__ import annotations

from dataclasses import dataclass

LINE_MAX = 512 * 1024
"""A line longer than this is broken, so that it fits a message whatever becomes of its bytes; the rest says so."""
BROKEN = "[resurge: the line goes on] "
NUL = b"<NUL>"


@dataclass(frozen=True, slots=True)
class Shaped:
    """Lines for the file, and how many raw bytes they stand for."""

    text: bytes
    lines: int
    taken: int
    is_broken: bool = False
    """The last line was cut for its length, and goes on with the next part."""


def prefix_of(rank: int, world_size: int) -> bytes:
    """The global rank, right-aligned to the width of the highest one: `  3: `."""
    return b"%*d: " % (len(str(max(0, world_size - 1))), rank)


def shape(raw: bytes, prefix: bytes, at_end: bool = False, goes_on: bool = False) -> Shaped:
    """The whole lines of `raw`; at the source's end the unfinished one too.

    `goes_on`: the first line continues one that was broken. An unfinished line stays for the next part, unless it is
    longer than `LINE_MAX`.
    """
    cut = len(raw) if at_end else raw.rfind(b"\n") + 1
    is_broken = False
    if cut == 0 and len(raw) >= LINE_MAX:
        cut, is_broken = _whole_characters(raw, LINE_MAX), True
    if cut == 0:
        return Shaped(b"", 0, 0, goes_on)
    body = _clean(raw[:cut])
    if body.endswith(b"\n"):
        body = body[:-1]
    lines = body.count(b"\n") + 1
    first = prefix + BROKEN.encode() if goes_on else prefix
    text = first + body.replace(b"\n", b"\n" + prefix) + b"\n"
    return Shaped(text, lines, cut, is_broken)


def _clean(raw: bytes) -> bytes:
    if b"\0" in raw:
        raw = raw.replace(b"\0", NUL)
    if not raw.isascii():
        raw = raw.decode("utf-8", "replace").encode()
    return _without_overwritten(raw) if b"\r" in raw else raw


def _without_overwritten(raw: bytes) -> bytes:
    raw = raw.replace(b"\r\n", b"\n")
    if b"\r" not in raw:
        return raw
    return b"\n".join(_last_state(line) if b"\r" in line else line for line in raw.split(b"\n"))


def _last_state(line: bytes) -> bytes:
    return next((state for state in reversed(line.split(b"\r")) if state), b"")


def _whole_characters(raw: bytes, upto: int) -> int:
    """The last place not after `upto` that lies between two characters; for what is no UTF-8, `upto`."""
    for place in range(upto, max(0, upto - 4), -1):
        if place == len(raw) or raw[place] & 0xC0 != 0x80:
            return place
    return upto


def gap_line(prefix: bytes, lost_bytes: int, lost_lines: int, why: str) -> bytes:
    """The line that stands for what was given up."""
    return prefix + f"[resurge: {lost_bytes} bytes in {lost_lines} lines are missing here: {why}]\n".encode()
