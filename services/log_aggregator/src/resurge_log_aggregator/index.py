"""The index of one file: which bytes of it belong to which source. Written after the data, read back after a crash.

A header names the file; records follow, each with a checksum of its own, so that a torn end is found and cut off:

    S  a source gets a number              number, JSON of the source
    B  a block of a source                 source, offset, length, position, size, lines, checksum, time, ...
    M  all data before `position` is durable, so its checksums need not be looked at again
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from resurge_log_aggregator.core.model import BlockHead, LogKey, LogKind, SourceKey

MAGIC = b"resurge-log-index 1\n"
MAX_BODY = 1 << 16
_HEAD = struct.Struct("<cI")  # kind, length of the body; a CRC32 of both follows the body
_CRC = struct.Struct("<I")
_BLOCK = struct.Struct("<IQQQIIIdB QQ")
_MARK = struct.Struct("<Q")
_SOURCE = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A source gets a number."""

    number: int
    key: SourceKey
    world_size: int


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A block stands at `position` in the file since `at` (Unix seconds)."""

    number: int
    head: BlockHead
    position: int
    checksum: int
    at: float

    @property
    def end_position(self) -> int:
        """The position behind its text."""
        return self.position + self.head.size


@dataclass(frozen=True, slots=True)
class MarkRecord:
    """All data before `position` is durable."""

    position: int


Record = SourceRecord | BlockRecord | MarkRecord


class NotAnIndex(Exception):
    """The file is no index of this release, or of another log; the sentence says which."""


def header(job: str, key: LogKey, base: int) -> bytes:
    """The first bytes of an index. `base`: how long the file was before anything of ours."""
    told = {"job": job, "kind": key.kind, "attempt": key.attempt, "cycle": key.cycle, "base": base}
    told |= {"name": key.name} if key.name else {}
    return MAGIC + json.dumps(told).encode() + b"\n"


def read_header(data: bytes, job: str, key: LogKey) -> tuple[int, int]:
    """The length of the header, and `base`. Raises NotAnIndex."""
    end = data.find(b"\n", len(MAGIC))
    if not data.startswith(MAGIC) or end < 0:
        raise NotAnIndex("it is no log index of this release")
    try:
        told: dict[str, Any] = json.loads(data[len(MAGIC) : end])
        found = LogKey(LogKind(told["kind"]), int(told["attempt"]), int(told["cycle"]), told.get("name", ""))
        base = int(told["base"])
    except (ValueError, KeyError, TypeError) as error:
        raise NotAnIndex(f"its header cannot be read: {error}") from None
    if (told.get("job"), found) != (job, key):
        raise NotAnIndex(f"it belongs to {found.kind.lower()} cycle {found.cycle} of job {told.get('job')!r}")
    return end + 1, base


def encode(record: Record) -> bytes:
    """One record as bytes."""
    match record:
        case SourceRecord(number, key, world_size):
            named = {field: value for field, value in asdict(key).items() if field != "name" or value}
            body = _SOURCE.pack(number) + json.dumps({**named, "world_size": world_size}).encode()
            return _framed(b"S", body)
        case BlockRecord(number, head, position, checksum, at):
            body = _BLOCK.pack(
                number, head.offset, head.length, position, head.size, head.lines, checksum, at, head.ends,
                head.gap_bytes, head.gap_lines,
            )  # fmt: skip
            return _framed(b"B", body)
        case MarkRecord(position):
            return _framed(b"M", _MARK.pack(position))


def _framed(kind: bytes, body: bytes) -> bytes:
    framed = _HEAD.pack(kind, len(body)) + body
    return framed + _CRC.pack(zlib.crc32(framed))


def decode(data: bytes, start: int = 0) -> Iterator[tuple[Record, int]]:
    """Every whole record from `start` on, with the offset behind it; ends before the first that is torn or wrong."""
    at = start
    while at + _HEAD.size <= len(data):
        kind, length = _HEAD.unpack_from(data, at)
        behind = at + _HEAD.size + length + _CRC.size
        if length > MAX_BODY or behind > len(data):
            return
        framed = data[at : at + _HEAD.size + length]
        if _CRC.unpack_from(data, at + _HEAD.size + length)[0] != zlib.crc32(framed):
            return
        record = _record(kind, framed[_HEAD.size :])
        if record is None:
            return
        yield record, behind
        at = behind


def _record(kind: bytes, body: bytes) -> Record | None:
    try:
        if kind == b"S":
            told = json.loads(body[_SOURCE.size :])
            world_size = told.pop("world_size")
            key = SourceKey(**{**told, "kind": LogKind(told["kind"])})
            return SourceRecord(_SOURCE.unpack_from(body)[0], key, world_size)
        if kind == b"B":
            number, offset, length, position, size, lines, checksum, at, ends, gap, gap_lines = _BLOCK.unpack(body)
            head = BlockHead(offset, length, size, lines, bool(ends), gap, gap_lines)
            return BlockRecord(number, head, position, checksum, at)
        if kind == b"M":
            return MarkRecord(_MARK.unpack(body)[0])
    except (struct.error, ValueError, KeyError, TypeError):
        return None
    return None
