"""Looks at the journal's write-ahead log before SQLite does: SQLite ends at the first bad frame and says nothing.

The log is a header and frames, each with the salts of the header and a checksum over everything before it. Frames of
an earlier use of the same file lie behind the valid ones with older salts; those are no damage.
"""

from __future__ import annotations

import sys
from array import array
from pathlib import Path

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
MAGIC = (0x377F0682, 0x377F0683)
"""The second one's checksums read big-endian words."""
MAX_LOG_BYTES = 256 * 1024 * 1024
"""A longer log is judged by its beginning."""
OLDER_SALTS = 1 << 20
"""The first salt rises by one with each use: one within so many below the header's is of an earlier use."""

Sums = tuple[int, int]


def log_problem(path: Path) -> str:
    """What is wrong with the log of the journal at `path`; empty when it is whole, empty or not there.

    A log cut to nothing, or between two commits, cannot be told from one to which nothing was written. Raises OSError.
    """
    try:
        with open(path.with_name(path.name + "-wal"), "rb") as file:
            data = file.read(MAX_LOG_BYTES)
    except FileNotFoundError:
        return ""
    if not data:
        return ""
    if len(data) < HEADER_BYTES or _word(data, 0) not in MAGIC:
        return "its log has no whole header"
    is_big = _word(data, 0) == MAGIC[1]
    sums = _summed(data[:24], (0, 0), is_big)
    if sums != (_word(data, 24), _word(data, 28)):
        return "the header of its log is not as it was written"
    return _frames_problem(data, sums, is_big)


def _frames_problem(data: bytes, sums: Sums, is_big: bool) -> str:
    frame_bytes = FRAME_HEADER_BYTES + _word(data, 8)
    salts = data[16:24]
    at, is_whole, is_committed = HEADER_BYTES, True, True
    while at + FRAME_HEADER_BYTES <= len(data) and is_whole:
        frame = data[at : at + frame_bytes]
        sums = _summed(frame[FRAME_HEADER_BYTES:], _summed(frame[:8], sums, is_big), is_big)
        is_whole = len(frame) == frame_bytes and frame[8:16] == salts and sums == (_word(frame, 16), _word(frame, 20))
        if is_whole:
            is_committed = _word(frame, 4) != 0
            at += frame_bytes
    if not is_committed or at < len(data) < at + frame_bytes:
        return "its log was cut inside a record"
    for later in range(at, len(data) - FRAME_HEADER_BYTES, frame_bytes):
        if not _is_older(data[later + 8 : later + 16], salts):
            return "a record of its log is not as it was written"
    return ""


def _is_older(found: bytes, salts: bytes) -> bool:
    """Whether a frame is of an earlier use of the file."""
    return 0 < (_word(salts, 0) - _word(found, 0)) % (1 << 32) <= OLDER_SALTS


def _summed(data: bytes, sums: Sums, is_big: bool) -> Sums:
    words = array("I", data[: len(data) // 8 * 8])
    if is_big != (sys.byteorder == "big"):
        words.byteswap()
    first, second = sums
    pairs = iter(words)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")
