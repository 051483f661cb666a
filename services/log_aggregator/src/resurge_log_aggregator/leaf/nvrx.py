"""The log contract of NVIDIA's extension at a leaf: what a client sends reaches the root, whatever ends.

Their clients keep nothing that they have sent. So a leaf keeps it for them, in bounded memory, until it is durable at
the root: over every loss of the root, which it is sent to again from where that is, and after the client has gone. A
client that sends more than may be kept is held back by its stream. Which file a path is, and whether it may be
written, the root decides.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from resurge_api.compat import log_aggregation_pb2 as pb
from resurge_api.compat import log_aggregation_pb2_grpc
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import Overloaded, RpcProblem, Unready
from resurge_libs.obs import log
from resurge_log_aggregator import wire
from resurge_log_aggregator.core.model import BlockHead, LogKey, LogKind, SourceKey, SourceState
from resurge_log_aggregator.leaf.uplink import Uplink
from resurge_log_aggregator.nvrx_lines import UNNAMED, ClientFile, Numbers

CLIENT_BYTES = 8 * 1024 * 1024
"""That are kept of one client at most."""
KEPT_BYTES = 256
"""What a block takes here beside its text, about: lines of many ranks in turn are a block each, and mostly shorter."""
BLOCK_BYTES = 1024 * 1024
"""Of one block; a longer line is broken."""
AGAIN_S = 1.0
LEFT_LIMIT_S = 600.0
"""So long the lines of a client that has gone are offered to a root that refuses them for now."""


NOT_TAKEN = Unready(Because(Reason.LOG_NOT_WRITTEN, "the log server did not take all lines"))


class Shelf:
    """How much is kept for all clients."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.held = 0
        self._moved = asyncio.Event()

    def put(self, size: int) -> None:
        """So much more is kept; less, where it is negative."""
        self.held += size
        if size < 0:
            self._moved.set()
            self._moved = asyncio.Event()

    async def room(self, client: Client) -> None:
        """Wait until the client may send more."""
        while self.held >= self._limit_bytes or client.held >= CLIENT_BYTES:
            await self._moved.wait()


@dataclass(frozen=True, slots=True)
class _Kept:
    key: SourceKey
    head: BlockHead
    text: bytes

    @property
    def size(self) -> int:
        """About its bytes here."""
        return KEPT_BYTES + len(self.text)


class _Ear:
    """Hears the root's word on one source."""

    def __init__(self, client: Client, key: SourceKey) -> None:
        self._client, self._key = client, key

    def ack(self, key: SourceKey, state: SourceState, go_on_from: int | None = None) -> None:
        """The source is so far."""
        self._client.reached(key, state, go_on_from)

    def trouble(self, sentence: str) -> None:
        """The contract has no word for it: the client is held back by its stream alone."""

    def refuse(self, problem: RpcProblem) -> None:
        """The root does not take it."""
        self._client.refused(self._key, problem)

    def paced(self, gather_s: float, at_once: bool) -> None:
        """The contract has no word for it."""


class Client:
    """What came over one client's stream, until all of it is durable. To the uplink it is a sender like any other."""

    def __init__(self, uplink: Uplink, shelf: Shelf, numbers: Numbers) -> None:
        self._uplink, self._shelf, self._numbers = uplink, shelf, numbers
        self._files: dict[tuple[str, str], ClientFile] = {}
        self._kept: deque[_Kept] = deque()
        self._first = 0
        """Blocks that were kept and are durable."""
        self._states: dict[SourceKey, SourceState] = {}
        """As the root says on this stream of the uplink; a source that is refused for good is not asked for again."""
        self._over: set[SourceKey] = set()
        """Sources that are durable to their end, or refused."""
        self._is_lost = False
        self._has_ended = False
        self._got_on_at = time.monotonic()
        """When it ended or got on last, later by as long as the root was away since."""
        self._wake = asyncio.Event()
        self.problem: asyncio.Future[RpcProblem] = asyncio.get_running_loop().create_future()
        """Why the client is refused."""
        self.held = 0
        self.bytes_received = 0

    # --- told by the uplink ---

    def ack(self, key: SourceKey, state: SourceState, go_on_from: int | None = None) -> None:
        """Told of each source by its own ear."""

    def trouble(self, sentence: str) -> None:
        """The contract has no word for it."""

    def refuse(self, problem: RpcProblem) -> None:
        """The root is lost: what is kept is offered again when it is there."""
        self._lose()

    def paced(self, gather_s: float, at_once: bool) -> None:
        """The contract has no word for it."""

    def reached(self, key: SourceKey, state: SourceState, go_on_from: int | None) -> None:
        """The root's word on a source."""
        if go_on_from is not None and key in self._states:
            self._lose()  # it was turned back: all is offered again from where the root is
        self._states[key] = state
        if state.end_is_durable:
            self._over.add(key)
        self._drop_durable()
        self._wake.set()

    def refused(self, key: SourceKey, problem: RpcProblem) -> None:
        """The root does not take a source: for now, or for good."""
        if isinstance(problem, Unready | Overloaded):
            self._lose()
            return
        self._over.add(key)
        if not self.problem.done():
            self.problem.set_result(problem)
        self._drop_durable()
        self._wake.set()

    def _lose(self) -> None:
        self._is_lost = True
        self._wake.set()

    def _drop_durable(self) -> None:
        while self._kept and self._is_durable(self._kept[0]):
            size = self._kept.popleft().size
            self._first += 1
            self.held -= size
            self._shelf.put(-size)
            self._got_on_at = time.monotonic()

    def _is_durable(self, kept: _Kept) -> bool:
        state = self._states.get(kept.key)
        if kept.key in self._over:
            return True
        return state is not None and kept.head.end <= state.durable and not kept.head.ends

    # --- from the client ---

    async def read(self, chunks: AsyncIterator[pb.LogChunk]) -> None:
        """Take all that comes. Raises BadRequest for a name that cannot be."""
        async for chunk in chunks:
            await self._shelf.room(self)
            self.take(chunk)

    def take(self, chunk: pb.LogChunk) -> None:
        """Keep the text of one file. Raises BadRequest."""
        name = (chunk.node_id, chunk.file_path)
        file = self._files.get(name)
        if file is None:
            node = chunk.node_id or UNNAMED
            wire.check_named(node, chunk.file_path)
            of = LogKey(LogKind.OTHER, 0, 0, chunk.file_path)
            file = self._files[name] = ClientFile(of, node, self._numbers.next())
        self.bytes_received += len(chunk.data)
        for rank, run in file.runs(chunk.data):
            file.sent.setdefault(rank, 0)
            for text in _blocks(run):
                self._keep(file, rank, text)

    def finish(self) -> None:
        """No more will come: the last line of each file gets its end."""
        for file in self._files.values():
            for rank in file.sent:
                self._keep(file, rank, file.rest(rank), ends=True)
            file.sent, file.partial = {}, b""
        if not self._has_ended:
            self._has_ended, self._got_on_at = True, time.monotonic()
        self._wake.set()

    def _keep(self, file: ClientFile, rank: int, text: bytes, ends: bool = False) -> None:
        at = file.sent[rank]
        file.sent[rank] = at + len(text)
        kept = _Kept(file.key(rank), BlockHead(at, len(text), len(text), text.count(b"\n"), ends), text)
        self._kept.append(kept)
        self.held += kept.size
        self._shelf.put(kept.size)
        self._wake.set()

    # --- to the root ---

    async def deliver(self) -> None:
        """Offer what is kept until all of it is durable and no more will come. Raises Unready where nobody takes it."""
        while True:
            before = time.monotonic()
            await self._uplink.found()
            self._got_on_at += time.monotonic() - before
            await self._offer()
            if self._has_ended and not self._kept:
                return
            if self._has_ended and time.monotonic() - self._got_on_at > LEFT_LIMIT_S:
                raise NOT_TAKEN
            await asyncio.sleep(AGAIN_S)

    async def _offer(self) -> None:
        """All that is kept and what comes, in its order, over one stream of the uplink, until that is lost."""
        self._is_lost, self._states = False, {}
        at = self._first
        while not self._is_lost:
            at = max(at, self._first)
            if at == self._first + len(self._kept):
                if self._has_ended and not self._kept:
                    return
                await self._woken()
                continue
            kept = self._kept[at - self._first]
            if await self._is_open(kept.key) and not self._is_there(kept):
                await self._uplink.room()
                if not self._is_lost:
                    self._uplink.take(kept.key, kept.head, kept.text, time.time())
            at += 1

    async def _is_open(self, key: SourceKey) -> bool:
        """Whether blocks of this source may be passed on; the root is asked, once."""
        if key not in self._states and key not in self._over:
            try:
                await self._uplink.open_source(key, 0, _Ear(self, key))
            except RpcProblem as problem:
                self.refused(key, problem)
            while not (self._is_lost or key in self._states or key in self._over):
                await self._woken()
        return not self._is_lost and key not in self._over

    def _is_there(self, kept: _Kept) -> bool:
        """Whether the root has it, from an earlier stream of the uplink."""
        return kept.head.end <= self._states[kept.key].written and not kept.head.ends

    async def _woken(self) -> None:
        self._wake.clear()
        await self._wake.wait()

    def let_go(self) -> None:
        """Keep nothing more; what is lost by that is said."""
        if self._kept:
            lines = sum(kept.head.lines for kept in self._kept)
            paths = sorted({kept.key.name for kept in self._kept})
            size = sum(len(kept.text) for kept in self._kept)
            sentence = f"{size} bytes in {lines} lines for {', '.join(paths[:4])} did not reach the log server"
            log.event("client_lines_lost", bytes=size, lines=lines, sentence=sentence)
        self._shelf.put(-self.held)
        self._kept.clear()
        self.held = 0


class NvrxLeafServicer(log_aggregation_pb2_grpc.LogAggregationServiceServicer):
    """The contract's calls."""

    def __init__(self, uplink: Uplink, keep_bytes: int) -> None:
        self._uplink, self._shelf, self._numbers = uplink, Shelf(keep_bytes), Numbers()
        self._deliveries: set[asyncio.Task[None]] = set()
        self._streams = 0

    async def StreamLogs(self, request_iterator: AsyncIterator[pb.LogChunk], context: Any) -> pb.StreamResponse:
        """Keep and pass on what comes; answer when all of it is durable at the root."""
        client = Client(self._uplink, self._shelf, self._numbers)
        self._uplink.listen(client)
        loop = asyncio.get_running_loop()
        delivery = loop.create_task(self._deliver(client))  # goes on where the client breaks off
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._delivered)
        reading = loop.create_task(client.read(request_iterator))
        self._streams += 1
        either: tuple[asyncio.Future[Any], ...] = (reading, client.problem)
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not client.problem.done():
                reading.result()
                client.finish()
                either = (delivery, client.problem)
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            client.finish()
            self._streams -= 1
        if client.problem.done():
            raise client.problem.result()
        if delivery.cancelled():
            raise NOT_TAKEN
        delivery.result()
        return pb.StreamResponse(status="OK", bytes_received=client.bytes_received)

    async def HealthCheck(self, request: pb.HealthRequest, context: Any) -> pb.HealthResponse:
        """Whether the root is there, and can write."""
        return pb.HealthResponse(healthy=self._uplink.is_well, connected_clients=self._streams)

    async def _deliver(self, client: Client) -> None:
        try:
            await client.deliver()
        finally:
            client.let_go()
            self._uplink.forget(client)

    def _delivered(self, delivery: asyncio.Task[None]) -> None:
        self._deliveries.discard(delivery)
        if not delivery.cancelled():
            delivery.exception()  # the client heard of it, if it was still there

    async def stop(self) -> None:
        """The uplink has waited for clients: what has not reached the root by now is said to be lost."""
        for delivery in self._deliveries:
            delivery.cancel()
        if self._deliveries:
            await asyncio.wait(set(self._deliveries))


def _blocks(run: bytes) -> Iterator[bytes]:
    """Whole lines in blocks that a message can hold."""
    while len(run) > BLOCK_BYTES:
        cut = run.rfind(b"\n", 0, BLOCK_BYTES) + 1
        if cut:
            block, run = run[:cut], run[cut:]
        else:
            block, run = run[: BLOCK_BYTES - 1] + b"\n", run[BLOCK_BYTES - 1 :]
        yield block
    if run:
        yield run
