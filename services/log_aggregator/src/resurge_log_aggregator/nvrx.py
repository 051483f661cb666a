"""The log contract of NVIDIA's extension: text for a file that the client names. Decides where it may go.

Each stream is taken as one source per file and rank, which begins with the stream and ends with it, so the lines stand
in the same files under the same single writer as our own senders'. The contract has no offsets: what was under way when
a stream broke is not sent again. What came is durable when the stream is answered.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resurge_api.compat import log_aggregation_pb2 as pb
from resurge_api.compat import log_aggregation_pb2_grpc
from resurge_libs.core.refusals import BadRequest, RpcProblem
from resurge_log_aggregator.book import Book, Places
from resurge_log_aggregator.core.model import BlockHead, LogKey, LogKind, SourceKey, SourceState
from resurge_log_aggregator.names import BadPath, application_key, confined

PARTIAL_MAX = 1024 * 1024
"""Of a line without an end; a longer one is broken."""
_RANK = re.compile(rb" *(\d{1,9}): ")


@dataclass(frozen=True, slots=True)
class Targets:
    """Which paths may be named, and which of our files each is."""

    places: Places
    roots: tuple[Path, ...]

    def key_of(self, path: str) -> LogKey:
        """The file at a path, all links followed. Asks the file system. Raises BadRequest."""
        try:
            real = confined(path, self.roots)
        except BadPath as problem:
            raise BadRequest.of("file_path", str(problem)) from None
        launcher, prefix = self.places.launcher_path, self.places.prefix
        if launcher is not None and real == launcher.resolve():
            return LogKey(LogKind.LAUNCHER, 0, 0)
        if prefix is not None:
            key = application_key(prefix.parent.resolve() / prefix.name, real)
            if key is not None:
                return key
        return LogKey(LogKind.OTHER, 0, 0, str(real))


class NvrxServicer(log_aggregation_pb2_grpc.LogAggregationServiceServicer):
    """The contract's calls."""

    def __init__(self, book: Book, targets: Targets) -> None:
        self._book, self._targets = book, targets
        self._streams = 0

    async def StreamLogs(self, request_iterator: AsyncIterator[pb.LogChunk], context: Any) -> pb.StreamResponse:
        """Append what comes; answer when it is durable."""
        stream = NvrxStream(self._book, self._targets)
        self._streams += 1
        self._book.listen(stream)
        try:
            async for chunk in request_iterator:
                await stream.take(chunk)
            stream.finish()
            await stream.durable()
        finally:
            stream.finish()
            self._book.forget(stream)
            self._streams -= 1
        return pb.StreamResponse(status="OK", bytes_received=stream.bytes_received)

    async def HealthCheck(self, request: pb.HealthRequest, context: Any) -> pb.HealthResponse:
        """Whether the files can be written."""
        return pb.HealthResponse(healthy=not self._book.trouble, connected_clients=self._streams)


class NvrxStream:
    """One client's stream; to the book it is a sender like any other."""

    def __init__(self, book: Book, targets: Targets) -> None:
        self._book, self._targets = book, targets
        self._files: dict[tuple[str, str], _File] = {}
        self._number = time.time_ns()
        """Told apart from every other stream by it."""
        self._moved = asyncio.Event()
        self.bytes_received = 0

    # --- told by the book ---

    def ack(self, key: SourceKey, state: SourceState, go_on_from: int | None = None) -> None:
        """Something is durable, or a source is open."""
        self._moved.set()

    def trouble(self, sentence: str) -> None:
        """The contract has no word for it: the client is held back by its stream alone."""

    def refuse(self, problem: RpcProblem) -> None:
        """The book refuses where it is asked."""

    # --- the stream ---

    async def take(self, chunk: pb.LogChunk) -> None:
        """Text for one file. Raises BadRequest, Unready."""
        file = self._files.get((chunk.node_id, chunk.file_path))
        if file is None:
            key = await asyncio.to_thread(self._targets.key_of, chunk.file_path)
            file = self._files[(chunk.node_id, chunk.file_path)] = _File(key, chunk.node_id or "unnamed")
        await self._book.room()
        self.bytes_received += len(chunk.data)
        for rank, text in file.runs(chunk.data):
            await self._put(file, rank, text)

    async def _put(self, file: _File, rank: int, text: bytes) -> None:
        if rank not in file.sent:
            await self._book.open_source(self._key(file, rank), 0, self)
            file.sent[rank] = 0
        self._append(file, rank, text)

    def _append(self, file: _File, rank: int, text: bytes, ends: bool = False) -> None:
        at = file.sent[rank]
        head = BlockHead(at, len(text), len(text), text.count(b"\n"), ends)
        file.sent[rank] = at + len(text)
        self._book.take(self._key(file, rank), head, text, time.time())

    def _key(self, file: _File, rank: int) -> SourceKey:
        of = file.of
        return SourceKey(of.kind, of.attempt, of.cycle, 0, rank, file.node, self._number, of.name)

    def finish(self) -> None:
        """No more will come: the last line of each file gets its end."""
        for file in self._files.values():
            rest, file.partial = file.partial, b""
            for rank in file.sent:
                text = rest + b"\n" if rest and rank == file.rank else b""
                self._append(file, rank, text, ends=True)
            file.sent = {}

    async def durable(self) -> None:
        """Wait until all that came is durable."""
        keys = [self._key(file, rank) for file in self._files.values() for rank in file.known]
        while any(self._book.is_pending(key) for key in keys):
            self._moved.clear()
            await self._moved.wait()


class _File:
    """One file as one client writes it."""

    def __init__(self, of: LogKey, node: str) -> None:
        self.of, self.node = of, node
        self.sent: dict[int, int] = {}
        """Bytes of each rank so far."""
        self.known: set[int] = set()
        self.partial = b""
        self.rank = 0
        """Of the last line: a line without a rank of its own belongs to it."""

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
