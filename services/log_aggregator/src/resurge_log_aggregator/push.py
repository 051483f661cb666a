"""One sender's stream: sources and blocks come up, acknowledgements go down. Decides nothing about blocks.

A malformed message ends this stream with its refusal and harms no other; the sender begins anew from what is durable.
Serves the book, which writes, and a leaf, which passes on: to a sender they look alike.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol

import grpc.aio

from resurge_api.logs.v1 import logs_pb2
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest, Overloaded, RpcProblem
from resurge_libs.obs import log
from resurge_libs.rpc.errors import because_to_proto
from resurge_log_aggregator import wire
from resurge_log_aggregator.core.model import BlockHead, LogKey, SourceKey, SourceState
from resurge_log_aggregator.senders import Listener

HELLO_LIMIT_S = 10.0
SOURCES_MAX = 65_536
SOURCE_AGAIN_S = 5.0


class Taker(Protocol):
    """Where blocks go: into files, or on to the root."""

    @property
    def job(self) -> str:
        """The only job whose lines are taken; empty: any."""

    @property
    def is_leaf(self) -> bool:
        """Whether it passes on: then no leaf may send here."""

    def listen(self, listener: Listener) -> None:
        """A sender has come."""

    def forget(self, listener: Listener) -> None:
        """A sender has gone; what it sent stays."""

    async def open_source(self, key: SourceKey, world_size: int, listener: Listener) -> None:
        """Let the listener send this source. Raises RpcProblem."""

    def take(self, key: SourceKey, head: BlockHead, text: bytes, at: float) -> None:
        """A block of a source that was opened. Raises RpcProblem."""

    def is_pending(self, key: SourceKey) -> bool:
        """Whether something of the source came and is not durable yet."""

    async def room(self) -> None:
        """Wait until more may be read."""


class PushStream:
    """One sender, from its first message to its end."""

    def __init__(self, taker: Taker, window_bytes: int, named: Callable[[str], LogKey] | None = None) -> None:
        """`named` says which file a path is, for clients of another contract; asked on a thread."""
        self._taker, self._window_bytes, self._named = taker, window_bytes, named
        self._carries_many = False
        self._over: set[int] = set()
        """Numbers whose source is durable to its end."""
        self._openings: set[asyncio.Task[None]] = set()
        self._keys: dict[int, SourceKey] = {}
        self._numbers: dict[SourceKey, int] = {}
        self._acks: dict[int, logs_pb2.SourceAck] = {}
        self._trouble: str | None = None
        self._gather_s: float | None = None
        """To be told."""
        self._wake = asyncio.Event()
        self._problem: BaseException | None = None
        self._is_done = False
        self._sender = ""

    # --- told by the book ---

    def ack(self, key: SourceKey, state: SourceState, go_on_from: int | None = None) -> None:
        """Answer with how far the source is."""
        number = self._numbers.get(key)
        if number is None:
            return
        ack = logs_pb2.SourceAck(number=number, durable=state.durable, ended=state.end_is_durable)
        if state.end_is_durable:
            self._over.add(number)
        before = self._acks.get(number)
        if go_on_from is not None:
            ack.next = go_on_from
        elif before is not None and before.HasField("next"):
            ack.next = before.next
        self._acks[number] = ack
        self._wake.set()

    def trouble(self, sentence: str) -> None:
        """Tell the sender why acknowledgements are late."""
        self._trouble = sentence
        self._wake.set()

    def refuse(self, problem: RpcProblem) -> None:
        """End this stream with a refusal."""
        self._problem = problem
        self._wake.set()

    def paced(self, gather_s: float, at_once: bool) -> None:
        """Tell the sender how long lines are to gather, with the next answer or at once."""
        self._gather_s = gather_s
        if at_once:
            self._wake.set()

    # --- the stream ---

    async def answers(self, requests: AsyncIterator[Any]) -> AsyncIterator[logs_pb2.PushResponse]:
        """All that goes down, until the sender has closed its side or is refused. Raises RpcProblem."""
        reader = asyncio.create_task(self._read(requests))
        self._taker.listen(self)
        try:
            first = self._answer()
            first.window, first.takes_other = self._window_bytes, self._named is not None
            yield first
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._acks or self._trouble is not None or self._gather_s is not None:
                    yield self._answer()
                if self._problem is not None:
                    raise self._problem
                if self._is_done and not self._has_open_ends():
                    return
        finally:
            for task in (reader, *self._openings):
                task.cancel()
            self._taker.forget(self)

    def _answer(self) -> logs_pb2.PushResponse:
        response = logs_pb2.PushResponse(acks=self._acks.values())
        self._acks = {}
        if self._trouble is not None:
            code = Reason.LOG_NOT_WRITTEN if self._trouble else Reason.NOTHING_CHANGED
            if self._trouble:
                response.trouble.CopyFrom(because_to_proto(Because(code, self._trouble)))
            else:
                response.trouble.SetInParent()
            self._trouble = None
        if self._gather_s is not None:
            response.gather.FromNanoseconds(round(self._gather_s * 1e9))
            self._gather_s = None
        return response

    def _has_open_ends(self) -> bool:
        """A sender that closed its side still wants to know what became of the last blocks."""
        return any(self._taker.is_pending(key) for key in self._numbers)

    async def _read(self, requests: AsyncIterator[Any]) -> None:
        try:
            messages = aiter(requests)
            await self._introduced(messages)
            async for message in messages:
                await self._take(message)
            self._is_done = True
        except RpcProblem as problem:
            log.event("sender_refused", sender=self._sender, sentence=str(problem))
            self._problem = problem
        except grpc.aio.AbortError:  # this stream was ended from here: it has its refusal
            return
        except Exception as error:  # task root: what cannot be read at all costs its own stream only
            log.event("message_unreadable", sender=self._sender, error=repr(error))
            self._problem = BadRequest.of("message", "could not be read: it is malformed or of another release")
        self._wake.set()

    async def _introduced(self, messages: Any) -> None:
        try:
            first = await asyncio.wait_for(anext(messages), HELLO_LIMIT_S)
        except (TimeoutError, StopAsyncIteration):
            raise BadRequest.of("hello", f"is missing; it must come within {HELLO_LIMIT_S:g} s") from None
        if not first.HasField("hello"):
            raise BadRequest.of("hello", "is missing; the first message of a stream introduces the sender")
        wire.check_hello(first.hello, self._taker.job)
        self._sender, self._carries_many = first.hello.sender, first.hello.carries_many
        if self._carries_many and self._taker.is_leaf:
            raise BadRequest.of("hello.carries_many", "is set: a leaf sends to the root, and this is another leaf")
        await self._take(first)

    async def _take(self, message: logs_pb2.PushRequest) -> None:
        for opened in message.open:
            await self._taker.room()
            await self._open(opened)
        if not message.blocks:
            return
        await self._taker.room()
        now = time.time()
        for block in message.blocks:
            key = self._keys.get(block.number)
            if key is None:
                raise BadRequest.of("blocks.number", f"{block.number} was never opened on this stream")
            self._taker.take(key, wire.head_of(block), block.text, now)

    async def _open(self, opened: logs_pb2.OpenSource) -> None:
        if opened.number in self._keys:
            raise BadRequest.of("open.number", f"{opened.number} is in use on this stream")
        if len(self._numbers) - len(self._over) >= SOURCES_MAX:
            if self._carries_many:  # too much of one node is that node's trouble, not every other's
                self._refuse_source(opened.number, Overloaded(SOURCE_AGAIN_S, "sources of one leaf"))
                return
            raise BadRequest.of("open", f"no more than {SOURCES_MAX} sources go over one stream at a time")
        if self._carries_many and self._named is not None and opened.source.kind == logs_pb2.LOG_KIND_OTHER:
            self._apart(self._open_named(opened, self._named))
            return
        try:
            key, world_size = wire.source_of(opened)
        except BadRequest as problem:
            if not self._carries_many:
                raise
            self._refuse_source(opened.number, problem)  # what one node sends wrongly harms no other
            return
        self._opened(opened.number, key)
        if not self._carries_many:
            await self._taker.open_source(key, world_size, self)
            return
        # a file that cannot be opened now holds up its own sources only, not those of every other node
        self._apart(self._open_apart(opened.number, key, world_size))

    def _opened(self, number: int, key: SourceKey) -> None:
        self._over.discard(self._numbers.get(key, 0))
        self._keys[number] = key
        self._numbers[key] = number

    def _apart(self, work: Coroutine[Any, Any, None]) -> None:
        opening = asyncio.create_task(work)
        self._openings.add(opening)
        opening.add_done_callback(self._openings.discard)

    async def _open_named(self, opened: logs_pb2.OpenSource, named: Callable[[str], LogKey]) -> None:
        """Which file it is the file system says, which may hang: no block comes before the answer."""
        try:
            wire.check_named(opened.source.node_id, opened.source.file_path)
            of = await asyncio.to_thread(named, opened.source.file_path)
            key = wire.named_source_of(opened, of)
        except RpcProblem as problem:
            self._refuse_source(opened.number, problem)
            return
        self._opened(opened.number, key)
        await self._open_apart(opened.number, key, 0)

    async def _open_apart(self, number: int, key: SourceKey, world_size: int) -> None:
        try:
            await self._taker.open_source(key, world_size, self)
        except RpcProblem as problem:
            self._over.add(number)
            self._refuse_source(number, problem)

    def _refuse_source(self, number: int, problem: RpcProblem) -> None:
        self._acks[number] = logs_pb2.SourceAck(number=number, refused=wire.refusal_to_proto(problem))
        self._wake.set()
