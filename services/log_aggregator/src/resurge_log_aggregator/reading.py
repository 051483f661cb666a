"""Reads a file's lines by its index, so that one rank's lines of a cycle are found without reading all the others'.

A reader has descriptors of its own and touches nothing of the writer's. Every call reads a bounded part; what the
writer has not finished is left for the next.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _Place:
    key: SourceKey
    world_size: int
    position: int
    size: int
    lines: int


class LogReader:
    """Goes through one file from its beginning, as far as it is written."""

    def __init__(self, path: Path, job: str, key: LogKey, wanted: Wanted) -> None:
        """Raises OSError, index.NotAnIndex."""
        self._wanted = wanted
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
        except (OSError, index.NotAnIndex):
            self.close()
            raise

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
            parts[0] = Part(first.key, first.world_size, text)
        return parts

    def more(self) -> list[Part]:
        """What is there and was not read yet, up to about a mebibyte; empty at the end. Raises OSError."""
        took = 0

        def enough() -> bool:
            return took >= TEXT_PART_BYTES

        places = []
        for place in self._places(enough):
            places.append(place)
            took += place.size
        return list(self._parts(places))

    def _places(self, enough: Callable[[], bool]) -> Iterator[_Place]:
        while not enough():
            data = os.pread(self._index_fd, INDEX_PART_BYTES, self._at)
            begun = self._at
            for record, behind in index.decode(data):
                self._at = begun + behind
                place = self._place(record)
                if place is not None:
                    yield place
                    if enough():
                        return
            if self._at == begun:
                return

    def _place(self, record: index.Record) -> _Place | None:
        match record:
            case index.SourceRecord(number, key, world_size):
                self._sources[number] = key, world_size
            case index.BlockRecord(number=number, head=head) if number in self._sources and head.size:
                key, world_size = self._sources[number]
                if self._wanted.takes(key, record.at):
                    return _Place(key, world_size, record.position, head.size, head.lines)
        return None

    def _parts(self, places: Iterator[_Place] | list[_Place] | deque[_Place]) -> Iterator[Part]:
        """The texts, those of one source that stand together as one."""
        run: list[_Place] = []
        for place in places:
            if run and (run[-1].key != place.key or run[-1].position + run[-1].size != place.position):
                yield self._text(run)
                run = []
            run.append(place)
        if run:
            yield self._text(run)

    def _text(self, run: list[_Place]) -> Part:
        size = sum(place.size for place in run)
        return Part(run[0].key, run[0].world_size, os.pread(self._fd, size, run[0].position))
