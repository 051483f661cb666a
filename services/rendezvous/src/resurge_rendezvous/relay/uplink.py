"""The relay's one stream to the root: what launchers say goes up in batches, what they are told is handed to each.

While the root does not answer, no launcher is served: each is told so (Unready), keeps its workers, and comes back,
here or elsewhere. So there is nothing that a relay could have to remember. Decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
import grpc.aio
from google.rpc import status_pb2

from resurge_api.rendezvous.v1 import attach_pb2, relay_pb2, rendezvous_pb2_grpc
from resurge_libs.core.refusals import RpcProblem
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.obs import log
from resurge_libs.rpc.auth import token_metadata
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.errors import from_status, problem_of
from resurge_libs.rpc.passing import hold_for_ever
from resurge_rendezvous.core.model import PROTOCOL_VERSION
from resurge_rendezvous.pace import MOST_SAID, Pace
from resurge_rendezvous.relay.links import NO_ROOT, Links
from resurge_rendezvous.relay.settings import RelaySettings
from resurge_rendezvous.relay.words import message_of, words_of
from resurge_rendezvous.streams import LauncherStream

CODES = {code.value[0]: code for code in grpc.StatusCode}


class Uplink:
    """Holds the stream to the root; belongs to one event loop."""

    def __init__(self, root: Endpoint, limits: TimeLimits, token: str | None, settings: RelaySettings) -> None:
        self._root, self._limits, self._token, self._settings = root, limits, token, settings
        self._name = settings.relay_name
        self._links: Links[LauncherStream, attach_pb2.Hello, attach_pb2.Observed, attach_pb2.Beat] = Links(
            settings.max_launchers, limits.lease_ttl_s
        )
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._lost = ""
        self._task: asyncio.Task[None] | None = None
        self.channel: grpc.aio.Channel | None = None
        """The channel to the root while there is one, for calls that are passed on one by one."""

    def start(self, name: str) -> None:
        """Begin to connect, and go on for ever."""
        self._name = self._name or name
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Let every launcher go."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # launchers

    def open(self, stream: LauncherStream) -> int:
        """A link for one launcher, told on this stream. Raises Unready without a root, Overloaded when full."""
        return self._links.open(stream)

    def say(self, link: int, said: attach_pb2.Observed) -> None:
        """Pass on what a launcher said."""
        if self._links.say(link, words_of(said)):
            self._wake()

    def go(self, link: int, by_peer: bool) -> None:
        """A launcher's stream is over, unless the root ended it."""
        if self._links.go(link, by_peer):
            self._wake()

    def root_channel(self) -> grpc.aio.Channel:
        """The way to the root. Raises Unready while there is none."""
        if self.channel is None:
            raise NO_ROOT
        return self.channel

    def _wake(self) -> None:
        self._changed.set()
        if self._links.batch.is_urgent:
            self._urgent.set()

    # the root

    async def _run(self) -> None:
        limits = self._limits
        await hold_for_ever(self._root, limits, self._token, self._hold, self._let_go, self._told_lost)

    def _told_lost(self, sentence: str) -> None:
        if sentence != self._lost:  # it is tried every second, and said when it changes
            self._lost = sentence
            log.event("root_lost", root=str(self._root), launchers=len(self._links), sentence=sentence)

    async def _hold(self, channel: grpc.aio.Channel) -> None:
        call: Any = rendezvous_pb2_grpc.RendezvousServiceStub(channel).AttachMany(metadata=token_metadata(self._token))
        sender: asyncio.Task[None] | None = None
        try:
            await call.write(
                relay_pb2.AttachManyRequest(protocol_version=PROTOCOL_VERSION, relay=self._name, fills_places=True)
            )
            self.channel, self._lost = channel, ""
            self._links.found()
            log.event("root_found", root=str(self._root))
            sender = asyncio.get_running_loop().create_task(self._send(call))
            while (told := await call.read()) is not grpc.aio.EOF:
                self._hand_out(told)
        except grpc.RpcError as error:
            raise problem_of(error) from None
        finally:
            call.cancel()
            if sender is not None:
                sender.cancel()
                await asyncio.wait({sender})

    async def _send(self, call: Any) -> None:
        """Whatever is new; beats alone wait a moment for others. A broken stream is told by the reading side."""
        pace, clock, links = Pace(), asyncio.get_running_loop().time, self._links
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            while True:
                await self._changed.wait()
                if not links.batch.is_urgent:
                    self._urgent.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._urgent.wait(), self._settings.beat_wait_s)
                if links.batch.is_urgent:
                    await asyncio.sleep(pace.wait_s(clock(), len(links)))
                    pace.left(clock())
                self._changed.clear()
                while (upward := links.batch.take(MOST_SAID)) is not None:
                    await call.write(message_of(upward))

    def _hand_out(self, told: relay_pb2.AttachManyResponse) -> None:
        for shared in told.desired:
            for order in shared.to:
                stream = self._links.down(order.link)
                if stream is not None:
                    desired = attach_pb2.Desired()
                    desired.CopyFrom(shared.desired)
                    desired.revision = order.revision
                    if order.HasField("base_rank"):
                        desired.run.group_rank, desired.run.base_rank = order.group_rank, order.base_rank
                    stream.put_goal(desired)
        for answer in told.beat_replies:
            stream = self._links.down(answer.link)
            if stream is not None:
                stream.put_beat_reply(answer.reply)
        for end in told.ends:
            stream = self._links.ended(end.link)
            if stream is not None:
                stream.end(_problem_in(end))

    def _let_go(self) -> None:
        """Without the root no launcher is held."""
        self.channel = None
        for stream in self._links.let_go():
            stream.end(NO_ROOT)


def _problem_in(end: relay_pb2.LinkEnd) -> RpcProblem | None:
    if end.code == 0:
        return None
    status = status_pb2.Status(code=end.code, message=end.message, details=end.details)
    return from_status(CODES.get(end.code, grpc.StatusCode.UNKNOWN), end.message, status)
