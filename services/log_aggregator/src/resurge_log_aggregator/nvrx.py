"""The log contract of NVIDIA's extension: text for a file that the client names. Decides where it may go.

Each stream is taken as one source per file and rank, which begins with the stream and ends with it, so the lines stand
in the same files under the same single writer as our own senders'. The contract has no offsets: what was under way when
a stream broke is not sent again. What came is durable when the stream is answered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resurge_api.compat import log_aggregation_pb2 as pb
from resurge_api.compat import log_aggregation_pb2_grpc
from resurge_libs.core.refusals import BadRequest, RpcProblem
from resurge_log_aggregator.book import Book, Places
from resurge_log_aggregator.core.model import BlockHead, LogKey, LogKind, SourceKey, SourceState
from resurge_log_aggregator.names import BadPath, application_key, confined
from resurge_log_aggregator.nvrx_lines import UNNAMED, ClientFile, Numbers


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
        self._numbers = Numbers()

    async def StreamLogs(self, request_iterator: AsyncIterator[pb.LogChunk], context: Any) -> pb.StreamResponse:
        """Append what comes; answer when it is durable."""
        stream = NvrxStream(self._book, self._targets, self._numbers)
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

    def __init__(self, book: Book, targets: Targets, numbers: Numbers) -> None:
        self._book, self._targets, self._numbers = book, targets, numbers
        self._files: dict[tuple[str, str], ClientFile] = {}
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

    def paced(self, gather_s: float, at_once: bool) -> None:
        """The contract has no word for it."""

    # --- the stream ---

    async def take(self, chunk: pb.LogChunk) -> None:
        """Text for one file. Raises BadRequest, Unready."""
        file = self._files.get((chunk.node_id, chunk.file_path))
        if file is None:
            key = await asyncio.to_thread(self._targets.key_of, chunk.file_path)
            file = ClientFile(key, chunk.node_id or UNNAMED, self._numbers.next())
            self._files[(chunk.node_id, chunk.file_path)] = file
        await self._book.room()
        self.bytes_received += len(chunk.data)
        for rank, text in file.runs(chunk.data):
            await self._put(file, rank, text)

    async def _put(self, file: ClientFile, rank: int, text: bytes) -> None:
        if rank not in file.sent:
            await self._book.open_source(file.key(rank), 0, self)
            file.sent[rank] = 0
        self._append(file, rank, text)

    def _append(self, file: ClientFile, rank: int, text: bytes, ends: bool = False) -> None:
        at = file.sent[rank]
        head = BlockHead(at, len(text), len(text), text.count(b"\n"), ends)
        file.sent[rank] = at + len(text)
        self._book.take(file.key(rank), head, text, time.time())

    def finish(self) -> None:
        """No more will come: the last line of each file gets its end."""
        for file in self._files.values():
            for rank in file.sent:
                self._append(file, rank, file.rest(rank), ends=True)
            file.sent, file.partial = {}, b""

    async def durable(self) -> None:
        """Wait until all that came is durable."""
        keys = [file.key(rank) for file in self._files.values() for rank in file.known]
        while any(self._book.is_pending(key) for key in keys):
            self._moved.clear()
            await self._moved.wait()
