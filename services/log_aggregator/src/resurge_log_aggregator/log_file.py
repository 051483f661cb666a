"""One file with its index: appends blocks in one order for both, and finds its way back after a crash.

Used by one thread for writing, and by one for syncing. Decides nothing about which block is wanted.

The text of a block is written first, then its index record; nothing is acknowledged before both are there. So what
stands behind the last indexed block was acknowledged to nobody and is cut off when the file is opened again.
"""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from resurge_log_aggregator import index
from resurge_log_aggregator.core.model import BlockHead, Follows, LogKey, SourceKey, SourceState
from resurge_log_aggregator.core.step import place

IOV_MAX = 512
CHECK_BYTES = 1 << 20
OLDER_MAX = 8
"""So many indexes of earlier jobs are kept beside a file; the text itself stays in any case."""


class FileTaken(OSError):
    """Another process writes this file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One block to be appended."""

    key: SourceKey
    world_size: int
    head: BlockHead
    text: bytes
    at: float


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a source is."""

    upto: int
    ended: bool


class LogFile:
    """An open file and its index."""

    def __init__(self, path: Path, job: str, key: LogKey) -> None:
        """Open or create both, and recover behind another job's text. Raises OSError, FileTaken, index.NotAnIndex."""
        self.path, self.key, self._job = path, key, job
        self.index_path = index_path(path)
        self.sources: dict[SourceKey, SourceState] = {}
        """As recovered; afterwards the book's."""
        self._numbers: dict[SourceKey, int] = {}
        self._dirty: dict[SourceKey, Reached] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._index_fd = self._claimed()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            os.close(self._index_fd)
            raise
        try:
            try:
                self._recover(job)
            except index.NotAnIndex:  # of an earlier job: what stands there stays, and we begin behind it
                self._put_aside()
                self._recover(job)
        except (OSError, index.NotAnIndex):
            self.close()
            raise

    def _claimed(self) -> int:
        """The index at its path, locked; nobody has put it aside meanwhile. Raises OSError, FileTaken."""
        while True:
            descriptor = os.open(self.index_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same(self.index_path, descriptor):
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                raise FileTaken(f"{self.path} is written by another process") from None
            except OSError:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _put_aside(self) -> None:
        """Rename the index of another job, which nobody writes: it is ours by its lock. Raises OSError, FileTaken."""
        aside = older_indexes(self.path)
        number = max(aside, default=0) + 1
        self.index_path.rename(self.index_path.with_name(f"{self.index_path.name}.{number}"))
        for old in sorted(aside)[: max(0, len(aside) + 1 - OLDER_MAX)]:
            aside[old].unlink(missing_ok=True)
        fresh = self._claimed()
        os.dup2(fresh, self._index_fd, inheritable=False)
        os.close(fresh)

    # --- recovery ---

    def _recover(self, job: str) -> None:
        size = os.fstat(self._fd).st_size
        data = _read_all(self._index_fd)
        if b"\n" not in data[len(index.MAGIC) :]:  # new, or torn within its first write
            if size and os.pread(self._fd, 1, size - 1) != b"\n":  # the first line of ours is one of its own
                size += os.pwrite(self._fd, b"\n", size)
            head = index.header(job, self.key, size)
            os.ftruncate(self._index_fd, 0)
            os.pwrite(self._index_fd, head, 0)
            self._index_at, self._at = len(head), size
            return
        self._index_at, self._at = index.read_header(data, job, self.key)
        self._take_records(data, size)
        os.ftruncate(self._index_fd, self._index_at)
        if size > self._at:  # written, but never acknowledged
            os.ftruncate(self._fd, self._at)

    def _take_records(self, data: bytes, size: int) -> None:
        marks = [
            record.position for record, _ in index.decode(data, self._index_at) if isinstance(record, index.MarkRecord)
        ]
        trusted = max(marks, default=0)
        keys: dict[int, SourceKey] = {}
        for record, behind in index.decode(data, self._index_at):
            match record:
                case index.SourceRecord(number, key, world_size):
                    keys[number] = key
                    self._numbers[key] = number
                    self.sources.setdefault(key, SourceState(key, world_size))
                case index.BlockRecord():
                    if not self._is_there(record, size, trusted) or record.number not in keys:
                        return
                    placed = place(self.sources[keys[record.number]], record.head)
                    if not isinstance(placed, Follows):
                        return
                    self.sources[keys[record.number]] = placed.after
                    self._at = record.end_position
                case index.MarkRecord():
                    pass
            self._index_at = behind

    def _is_there(self, record: index.BlockRecord, size: int, trusted: int) -> bool:
        if record.position != self._at or record.end_position > size:
            return False
        return record.end_position <= trusted or _checksum(self._fd, record) == record.checksum

    # --- writing ---

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._at

    def append(self, entries: Sequence[Entry]) -> None:
        """Write the blocks, then their index. Raises OSError, and then nothing of them counts as written."""
        with self._writing:
            self._append(entries)

    def _append(self, entries: Sequence[Entry]) -> None:
        _write_all(self._fd, [entry.text for entry in entries if entry.text], self._at)
        at, records = self._at, []
        numbers = dict(self._numbers)
        for entry in entries:
            number = numbers.get(entry.key)
            if number is None:
                number = numbers[entry.key] = len(numbers)
                records.append(index.encode(index.SourceRecord(number, entry.key, entry.world_size)))
            record = index.BlockRecord(number, entry.head, at, zlib.crc32(entry.text), entry.at)
            records.append(index.encode(record))
            at += entry.head.size
        blob = b"".join(records)
        with self._lock:
            _write_all(self._index_fd, [blob], self._index_at)
            self._numbers, self._at, self._index_at = numbers, at, self._index_at + len(blob)
            for entry in entries:
                self._dirty[entry.key] = Reached(entry.head.end, entry.head.ends)

    def taken(self) -> tuple[dict[SourceKey, Reached], int]:
        """What was written since the last call, and the position behind it: to be called durable after `sync`."""
        with self._lock:
            dirty, self._dirty = self._dirty, {}
            return dirty, self._at

    def give_back(self, dirty: dict[SourceKey, Reached]) -> None:
        """A sync failed: what it was for is still to be made durable."""
        with self._lock:
            self._dirty = {**dirty, **self._dirty}

    @property
    def is_dirty(self) -> bool:
        """Whether something was written that is not called durable yet."""
        return bool(self._dirty)

    @property
    def dirty_sources(self) -> int:
        """How many sources it was written of."""
        return len(self._dirty)

    def sync(self) -> None:
        """Make all that was written before durable, the data before its index. Raises OSError."""
        os.fdatasync(self._fd)
        os.fdatasync(self._index_fd)

    def mark(self, position: int) -> None:
        """Note that the data before `position` is durable. Raises OSError."""
        blob = index.encode(index.MarkRecord(position))
        with self._lock:
            _write_all(self._index_fd, [blob], self._index_at)
            self._index_at += len(blob)

    def has_vanished(self) -> bool:
        """Whether the path no longer leads to this file."""
        return not _is_same(self.path, self._fd)

    def restore(self) -> None:
        """Make the file anew at its path, with all that it held. Raises OSError; then nothing has changed.

        What the path leads to now stays before it. Blocks that it has already are not written again: it may be the
        file of a disk that was away.
        """
        with self._writing:
            if _is_same(self.index_path, self._index_fd):
                os.unlink(self.index_path)  # ours, and claimed: a fresh one takes its place
            fresh = LogFile(self.path, self._job, self.key)
            try:
                self._copy_to(fresh)
                fresh.sync()
                with self._lock:
                    os.dup2(fresh._fd, self._fd, inheritable=False)
                    os.dup2(fresh._index_fd, self._index_fd, inheritable=False)
                    self._numbers, self._at, self._index_at = fresh._numbers, fresh._at, fresh._index_at
            finally:
                fresh.close()

    def _copy_to(self, fresh: LogFile) -> None:
        data = _read_all(self._index_fd)[: self._index_at]
        start, _ = index.read_header(data, self._job, self.key)
        keys: dict[int, index.SourceRecord] = {}
        for record, _ in index.decode(data, start):
            if isinstance(record, index.SourceRecord):
                keys[record.number] = record
            elif isinstance(record, index.BlockRecord):
                source = keys[record.number]
                state = fresh.sources.get(source.key) or SourceState(source.key, source.world_size)
                placed = place(state, record.head)
                if isinstance(placed, Follows):
                    head, text = self._block(record)
                    fresh.append([Entry(source.key, source.world_size, head, text, record.at)])
                    fresh.sources[source.key] = placed.after

    def _block(self, record: index.BlockRecord) -> tuple[BlockHead, bytes]:
        """A block as it was written; where it cannot be read any more, a line that says what is missing."""
        head = record.head
        try:
            text = os.pread(self._fd, head.size, record.position)
            if zlib.crc32(text) == record.checksum:
                return head, text
            why = "it reads as something else"
        except OSError as error:
            why = error.strerror or "it cannot be read"
        lost_words = f"{head.length} bytes in {head.lines} lines are missing here: the file was lost, {why}"
        text = f"[resurge: {lost_words}]\n".encode()
        lost = replace(head, size=len(text), lines=1, gap_bytes=head.length, gap_lines=head.lines)
        return lost, text

    def close(self) -> None:
        """Close both; what was written stays."""
        os.close(self._fd)
        os.close(self._index_fd)


def index_path(path: Path) -> Path:
    """Where the index of a file is: beside it, hidden."""
    return path.with_name(f".{path.name}.index")


def older_indexes(path: Path) -> dict[int, Path]:
    """The indexes of earlier jobs that wrote this file, by their numbers: the highest is the latest."""
    stem = index_path(path).name + "."
    found = (name for name in os.listdir(path.parent) if name.startswith(stem) and name[len(stem) :].isdecimal())
    return {int(name[len(stem) :]): path.with_name(name) for name in found}


def is_of_job(path: Path, job: str, key: LogKey) -> bool:
    """Whether this job wrote the file last. Raises OSError."""
    descriptor = os.open(index_path(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        index.read_header(os.pread(descriptor, index.MAX_BODY, 0), job, key)
    except index.NotAnIndex:
        return False
    finally:
        os.close(descriptor)
    return True


def _is_same(path: Path, fd: int) -> bool:
    try:
        now, mine = os.stat(path), os.fstat(fd)
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino)


def _write_all(fd: int, parts: Sequence[bytes], at: int) -> None:
    """Write all parts from `at` on. Raises OSError; what was written by then is written over the next time."""
    queue = [memoryview(part) for part in parts]
    first = 0
    while first < len(queue):
        written = os.pwritev(fd, queue[first : first + IOV_MAX], at)
        at += written
        while first < len(queue) and written >= len(queue[first]):
            written -= len(queue[first])
            first += 1
        if written:
            queue[first] = queue[first][written:]


def _read_all(fd: int) -> bytes:
    parts, at = [], 0
    while part := os.pread(fd, CHECK_BYTES, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _checksum(fd: int, record: index.BlockRecord) -> int:
    checksum, at = 0, record.position
    while at < record.end_position:
        part = os.pread(fd, min(CHECK_BYTES, record.end_position - at), at)
        if not part:
            return -1
        checksum = zlib.crc32(part, checksum)
        at += len(part)
    return checksum
