"""A leaf's one stream to the root: blocks of many senders go up together, acknowledgements are handed to each.

While the root does not answer no sender is served: each is told so (Unready), keeps its lines, and comes back. Decides
nothing: see `links`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest, Unimplemented, Unready
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.obs import log
from resurge_libs.rpc.auth import token_metadata
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.errors import problem_of
from resurge_libs.rpc.passing import hold_for_ever
from resurge_log_aggregator import wire
from resurge_log_aggregator.core.model import BlockHead, LogKind, SourceKey
from resurge_log_aggregator.leaf.links import Bounds, Links, Opened, Sent
from resurge_log_aggregator.leaf.settings import MIB, LeafSettings
from resurge_log_aggregator.senders import Listener, Senders


class Uplink:
    """Takes blocks in place of the book, and passes them on. Belongs to one event loop."""

    is_leaf = True

    def __init__(self, root: Endpoint, limits: TimeLimits, token: str | None, job: str, settings: LeafSettings) -> None:
        self.job = job
        self._root, self._limits, self._token, self._settings = root, limits, token, settings
        self._links = Links(Bounds(settings.leaf_queue_mib * MIB, settings.leaf_queue_blocks))
        self._senders = Senders()
        self._gone, self._wake, self._room = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_found = asyncio.Event()
        self._is_up = self._takes_other = False
        self._trouble, self._lost = "", ""
        self._task: asyncio.Task[None] | None = None
        self.channel: grpc.aio.Channel | None = None
        """The channel to the root while there is one, for calls that are passed on one by one."""

    def start(self, name: str) -> None:
        """Begin to connect, and go on for ever."""
        self._name = self._settings.leaf_name or name
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self, limit_s: float) -> None:
        """Wait until every sender has gone, for at most so long, then let the others go: they come back elsewhere."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._senders:
                    self._gone.clear()
                    await self._gone.wait()
        if self._senders:
            log.event("senders_left", senders=len(self._senders), limit_s=limit_s)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # --- senders ---

    def listen(self, listener: Listener) -> None:
        """A sender has come."""
        self._senders.add(listener)
        if not self._is_up:
            listener.refuse(self._no_root())
        elif self._trouble:
            listener.trouble(self._trouble)

    def forget(self, listener: Listener) -> None:
        """A sender has gone; what it sent is passed on all the same."""
        self._senders.remove(listener)
        self._links.forget(listener)
        self._gone.set()

    async def open_source(self, key: SourceKey, world_size: int, listener: Listener) -> None:
        """Have it opened at the root, which answers from where to go on. Raises Unready without a root, Unimplemented
        for a file that a root of an older release does not know."""
        if not self._is_up:
            raise self._no_root()
        if key.kind is LogKind.OTHER and not self._takes_other:
            sentence = f"the log server at {self._root} is of an older release than the leaf and takes no files by path"
            raise Unimplemented(f"{sentence}: bring it to this release, or send {key.name} to it and not to the leaf")
        self._links.open(key, world_size, listener)
        self._queued()

    def take(self, key: SourceKey, head: BlockHead, text: bytes, at: float) -> None:
        """A block to be passed on. Raises BadRequest for one that came before the root had answered for its source."""
        if not self._links.put(key, head, text):
            raise BadRequest.of("blocks.number", "was opened, but not answered yet: wait for the ack's `next`")
        self._queued()

    def _queued(self) -> None:
        if self._links.is_full:
            self._room.clear()
        self._wake.set()

    def is_pending(self, key: SourceKey) -> bool:
        """Whether something of the source came and is not durable yet."""
        return self._links.is_pending(key)

    async def room(self) -> None:
        """Wait until more may be read."""
        await self._room.wait()

    async def found(self) -> None:
        """Wait until the root is there."""
        await self._is_found.wait()

    @property
    def is_well(self) -> bool:
        """Whether the root is there, and nothing keeps it from writing."""
        return self._is_up and not self._trouble

    def root_channel(self) -> grpc.aio.Channel:
        """The way to the root. Raises Unready while there is none."""
        if self.channel is None:
            raise self._no_root()
        return self.channel

    def _no_root(self) -> Unready:
        why = self._lost or "it has not answered yet"
        sentence = f"the leaf does not reach the log server at {self._root} ({why}); lines wait at the nodes"
        return Unready(Because(Reason.LOG_NOT_WRITTEN, sentence))

    # --- the root ---

    async def _run(self) -> None:
        limits = self._limits
        await hold_for_ever(self._root, limits, self._token, self._hold, self._let_go, self._told_lost)

    def _told_lost(self, sentence: str) -> None:
        if sentence != self._lost:  # it is tried every second, and said when it changes
            self._lost = sentence
            log.event("log_root_lost", root=str(self._root), senders=len(self._senders), sentence=sentence)

    async def _hold(self, channel: grpc.aio.Channel) -> None:
        stub: Any = logs_pb2_grpc.LogAggregatorServiceStub(channel)
        call = stub.Push(metadata=token_metadata(self._token))
        passing: asyncio.Task[None] | None = None
        try:
            hello = logs_pb2.PushHello(
                protocol_version=wire.PROTOCOL_VERSION, job_id=self.job, sender=self._name, carries_many=True
            )
            await call.write(logs_pb2.PushRequest(hello=hello))
            while (told := await call.read()) is not grpc.aio.EOF:
                if passing is None:
                    self._takes_other = told.takes_other
                    passing = self._found(channel, call)
                self._heard(told)
        except grpc.RpcError as error:
            raise problem_of(error) from None
        finally:
            call.cancel()
            if passing is not None:
                passing.cancel()
                await asyncio.wait({passing})

    def _found(self, channel: grpc.aio.Channel, call: Any) -> asyncio.Task[None]:
        self.channel, self._lost, self._is_up = channel, "", True
        self._room.set()
        self._is_found.set()
        log.event("log_root_found", root=str(self._root))
        return asyncio.get_running_loop().create_task(self._pass_on(call))

    async def _pass_on(self, call: Any) -> None:
        """Whatever came; a few lines wait a moment for others. A broken stream is told by the reading side."""
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            while True:
                await self._wake.wait()
                if self._links.is_little:
                    await asyncio.sleep(self._settings.leaf_gather_s)
                self._wake.clear()
                while taken := self._links.take():
                    await call.write(_message_of(taken))
                    if not self._links.is_full:
                        self._room.set()

    def _heard(self, told: logs_pb2.PushResponse) -> None:
        if told.window:
            self._links.window_bytes = told.window
        for ack in told.acks:
            if ack.HasField("refused"):
                link = self._links.refused(ack.number)
                if link is not None and link.listener is not None:
                    link.listener.refuse(wire.refusal_of(ack.refused))
                continue
            go_on_from = ack.next if ack.HasField("next") else None
            link = self._links.acknowledged(ack.number, ack.durable, ack.ended, go_on_from)
            if link is not None and link.listener is not None:
                link.listener.ack(link.state.key, link.state, go_on_from)
        if told.HasField("trouble"):
            self._trouble = told.trouble.sentence
            for sender in self._senders:
                sender.trouble(self._trouble)
        self._wake.set()  # there may be room in the window

    def _let_go(self) -> None:
        """Without the root nobody is served."""
        self.channel, self._is_up, self._trouble = None, False, ""
        self._is_found.clear()
        self._links.clear()
        self._room.set()
        for sender in self._senders:
            sender.refuse(self._no_root())


def _message_of(taken: Sequence[Opened | Sent]) -> logs_pb2.PushRequest:
    message = logs_pb2.PushRequest()
    for item in taken:
        if isinstance(item, Opened):
            source = wire.source_to_proto(item.key, item.world_size)
            message.open.append(logs_pb2.OpenSource(number=item.number, source=source))
            continue
        head = item.head
        block = message.blocks.add(
            number=item.number, offset=head.offset, length=head.length, text=item.text, lines=head.lines,
            ends=head.ends,
        )  # fmt: skip
        if head.gap_bytes:
            block.gap.bytes, block.gap.lines = head.gap_bytes, head.gap_lines
    return message
