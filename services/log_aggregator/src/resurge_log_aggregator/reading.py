"""Reads a file's lines by its index, so that one rank's lines of a cycle are found without reading all the others'.

A reader has descriptors of its own and touches nothing of the writer's. Every call reads a bounded part; what the
writer has not finished is left for the next.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from resurge_log_aggregator import index
from resurge_log_aggregator.core.model import LogKey, SourceKey
from resurge_log_aggregator.log_file import index_path

INDEX_PART_BYTES = 4 * 1024 * 1024
TEXT_PART_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines: of these ranks and nodes (empty: all), not before `since` (Unix seconds)."""

    ranks: frozenset[int] = frozenset()
    nodes: frozenset[str] = frozenset()
    since: float = 0.0

    def takes(self, key: SourceKey, at: float) -> bool:
        """Whether a block is wanted."""
        return (
            (not self.ranks or key.rank in self.ranks)
            and (not self.nodes or key.node in self.nodes)
            and at >= self.since
        )


@dataclass(frozen=True, slots=True)
class Part:
    """Whole lines of one source."""

    key: SourceKey
    world_size: int
    text: bytes
    blocks: int
    """Blocks of the file up to its end, wanted or not."""
    position: int
    """Of its end in the file."""


@dataclass(frozen=True, slots=True)
class _Place:
    key: SourceKey
    world_size: int
    position: int
    size: int
    lines: int
    number: int

    @property
    def end(self) -> int:
        return self.position + self.size


class LogReader:
    """Goes through one file, as far as it is written, from its beginning or behind some of its blocks."""

    def __init__(self, path: Path, job: str, key: LogKey, wanted: Wanted, skip: int = 0) -> None:
        """Raises OSError, index.NotAnIndex."""
        self._path, self._job, self._key, self._wanted = path, job, key, wanted
        self.blocks = self.position = 0
        """How far it is, in blocks and in bytes of the file."""
        self._skip = 0
        self._sources: dict[int, tuple[SourceKey, int]] = {}
        self._index_fd = os.open(index_path(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._index_fd)
            raise
        try:
            head = os.pread(self._index_fd, index.MAX_BODY, 0)
            self._at, _ = index.read_header(head, job, key)
            if skip:
                self._go_behind(skip)
        except (OSError, index.NotAnIndex):
            self.close()
            raise

    def _go_behind(self, skip: int) -> None:
        """Past so many blocks; past all where there are fewer: what a loss of power took is sent anew, and is read."""
        self._skip = skip
        for record in self._records():
            self._place(record)
            if self.blocks >= skip:
                break
        self._skip = self.blocks

    def close(self) -> None:
        """Read no more."""
        os.close(self._fd)
        os.close(self._index_fd)

    def last(self, lines: int) -> list[Part]:
        """The last lines of what is there; what comes later is for `more`. Raises OSError."""
        kept: deque[_Place] = deque()
        held = 0
        for place in self._places(lambda: False):
            kept.append(place)
            held += place.lines
            while held - kept[0].lines >= lines:
                held -= kept.popleft().lines
        parts = list(self._parts(kept))
        too_many = held - lines
        if parts and too_many > 0:
            first = parts[0]
            text = b"".join(first.text.splitlines(keepends=True)[too_many:])
            parts[0] = replace(first, text=text)
        return parts

    def more(self) -> list[Part]:
        """What is there and was not read yet, up to about a mebibyte; empty at the end. Raises OSError.

        Where the file was made anew meanwhile, it is gone on with there.
        """
        parts = self._more()
        return parts if parts or not self._is_made_anew() else self._more()

    def _is_made_anew(self) -> bool:
        """Whether the path leads to another file by now, of the same text; then that one is open."""
        try:
            if os.path.samestat(os.stat(index_path(self._path)), os.fstat(self._index_fd)):
                return False
            fresh = LogReader(self._path, self._job, self._key, self._wanted)
        except (OSError, index.NotAnIndex):  # it is not there yet: its writer tells readers when it is
            return False
        self.close()
        self._fd, self._index_fd, self._at, self._sources = fresh._fd, fresh._index_fd, fresh._at, fresh._sources
        self.blocks, self._skip = 0, max(self.blocks, self._skip)
        return True

    def _more(self) -> list[Part]:
        took = 0

        def enough() -> bool:
            return took >= TEXT_PART_BYTES

        places = []
        for place in self._places(enough):
            places.append(place)
            took += place.size
        return list(self._parts(places))

    def _places(self, enough: Callable[[], bool]) -> Iterator[_Place]:
        for record in self._records():
            place = self._place(record)
            if place is not None:
                yield place
                if enough():
                    return

    def _records(self) -> Iterator[index.Record]:
        while True:
            data = os.pread(self._index_fd, INDEX_PART_BYTES, self._at)
            begun = self._at
            for record, behind in index.decode(data):
                self._at = begun + behind
                yield record
            if self._at == begun:
                return

    def _place(self, record: index.Record) -> _Place | None:
        match record:
            case index.SourceRecord(number, key, world_size):
                self._sources[number] = key, world_size
            case index.BlockRecord(number=number, head=head):
                self.blocks, self.position = self.blocks + 1, record.end_position
                if self.blocks <= self._skip or number not in self._sources or not head.size:
                    return None
                key, world_size = self._sources[number]
                if self._wanted.takes(key, record.at):
                    return _Place(key, world_size, record.position, head.size, head.lines, self.blocks)
        return None

    def _parts(self, places: Iterator[_Place] | list[_Place] | deque[_Place]) -> Iterator[Part]:
        """The texts, those of one source that stand together as one."""
        run: list[_Place] = []
        for place in places:
            if run and (run[-1].key != place.key or run[-1].end != place.position):
                yield self._text(run)
                run = []
            run.append(place)
        if run:
            yield self._text(run)

    def _text(self, run: list[_Place]) -> Part:
        size = sum(place.size for place in run)
        text = os.pread(self._fd, size, run[0].position)
        return Part(run[0].key, run[0].world_size, text, run[-1].number, run[-1].end)
