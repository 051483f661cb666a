"""The text of a client of NVIDIA's extension, as sources: whole lines, each of the rank that its prefix names."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from resurge_log_aggregator.core.model import LogKey, LogKind, SourceKey

UNNAMED = "unnamed"
"""The node of a client that does not name itself."""
PARTIAL_MAX = 1024 * 1024
"""Of a line without an end; a longer one is broken."""
_RANK = re.compile(rb" *(\d{1,9}): ")


class ClientFile:
    """One file as one client writes it."""

    def __init__(self, of: LogKey, node: str, number: int) -> None:
        """`number` tells it apart from every other file of every stream."""
        self.of, self.node, self.number = of, node, number
        self.sent: dict[int, int] = {}
        """Bytes of each rank so far."""
        self.known: set[int] = set()
        self.partial = b""
        self.rank = 0
        """Of the last line: a line without a rank of its own belongs to it."""
        self._keys: dict[int, SourceKey] = {}

    def key(self, rank: int) -> SourceKey:
        """The source of its rank."""
        key, of = self._keys.get(rank), self.of
        if key is None:
            key = SourceKey(of.kind, of.attempt, of.cycle, 0, rank, self.node, self.number, of.name)
            self._keys[rank] = key
        return key

    def rest(self, rank: int) -> bytes:
        """The last line, where it has no end and is this rank's; it is given its end."""
        return self.partial + b"\n" if self.partial and rank == self.rank else b""

    def runs(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The whole lines, those of one rank that stand together as one; an unfinished line is kept."""
        data, self.partial = self.partial + data, b""
        cut = data.rfind(b"\n") + 1
        if len(data) - cut > PARTIAL_MAX:
            data, cut = data + b"\n", len(data) + 1
        text, self.partial = data[:cut], data[cut:]
        if text:
            for run in self._ranked(text) if self.of.kind is not LogKind.LAUNCHER else ((0, text),):
                self.known.add(run[0])
                yield run
        if self.partial and not self.known:  # it will need somebody to belong to at the end
            self.known.add(self.rank)
            yield self.rank, b""

    def _ranked(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        first = _RANK.match(text)
        if first is not None and text.count(b"\n" + first[0]) == text.count(b"\n") - 1:
            self.rank = int(first[1])
            yield self.rank, text
            return
        run: list[bytes] = []
        for line in text.split(b"\n")[:-1]:
            found = _RANK.match(line)
            rank = self.rank if found is None else int(found[1])
            if run and rank != self.rank:
                yield self.rank, b"\n".join(run) + b"\n"
                run = []
            self.rank = rank
            run.append(line)
        yield self.rank, b"\n".join(run) + b"\n"


class Numbers:
    """Never the same one twice in one process, nor, by the clock, in another one."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """The next one."""
        self._last = max(self._last + 1, time.time_ns())
        return self._last
