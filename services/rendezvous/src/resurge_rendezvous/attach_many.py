"""The launchers behind one relay, on one stream: many links, each as good as a stream of its own. Decides nothing.

What many links say comes in one message; a goal that many are given is put together once. A launcher that is refused
loses its link alone. When the relay's stream ends, nothing is known of its launchers but that they cannot be heard on
this way: the relay's kernel does not speak for theirs, so their leases go on until they come back or are over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from operator import attrgetter
from typing import Any

from resurge_api.rendezvous.v1 import attach_pb2, relay_pb2
from resurge_libs.core.refusals import BadRequest, RpcProblem, VersionMismatch
from resurge_libs.obs import log
from resurge_libs.rpc.errors import to_status
from resurge_rendezvous import wire
from resurge_rendezvous.attach import Attachment, first_of
from resurge_rendezvous.core.model import PROTOCOL_VERSION, BeatReceived, BeatsReceived, Desired, Run
from resurge_rendezvous.desk import Desk
from resurge_rendezvous.pace import MOST_TOLD, Pace
from resurge_rendezvous.wire_out import desired_to_proto

MAX_LINKS = 4_096
"""Of one relay; a launcher beyond is refused."""


class RelaySession:
    """One relay's stream from its first message to its end."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._relay = ""
        self._links: dict[int, Attachment] = {}
        self._down = DownBatch()
        self._pace = Pace()
        self._over: RpcProblem | bool = False

    @asynccontextmanager
    async def introduced(
        self, requests: AsyncIterator[relay_pb2.AttachManyRequest], context: Any
    ) -> AsyncIterator[None]:
        """The stream between introduction and end. Raises the refusal that ends it."""
        self._desk.check_ready()
        context.add_done_callback(lambda _context: self._close())
        messages = aiter(requests)
        reader: asyncio.Task[None] | None = None
        try:
            self._introduce(await first_of(messages, self._desk.settings.hello_limit_s, "protocol_version"))
            reader = asyncio.create_task(self._read(messages))
            yield
        finally:
            if reader is not None:
                reader.cancel()
            self._close()

    async def next(self) -> relay_pb2.AttachManyResponse | None:
        """What the launchers are told next; None when the stream is over. Raises the refusal that ended it."""
        while True:
            message = self._down.take(MOST_TOLD)
            if message is not None:
                return message
            if isinstance(self._over, RpcProblem):
                raise self._over
            if self._over:
                return None
            await self._down.changed()
            if self._down.is_urgent:
                clock = asyncio.get_running_loop().time
                await asyncio.sleep(self._pace.wait_s(clock(), len(self._links)))
                self._pace.left(clock())

    def _introduce(self, first: relay_pb2.AttachManyRequest) -> None:
        if first.protocol_version != PROTOCOL_VERSION:
            raise VersionMismatch(first.protocol_version, PROTOCOL_VERSION)
        self._relay = first.relay[: wire.MAX_NAME_BYTES]
        self._down.shares_runs = first.fills_places
        log.event("relay_attached", relay=self._relay)
        self._take(first)

    async def _read(self, messages: AsyncIterator[relay_pb2.AttachManyRequest]) -> None:
        try:
            async for message in messages:
                self._take(message)
            self._end(True)
        except RpcProblem as problem:
            self._end(problem)
        except Exception as error:  # the root of this task: a message that cannot be read costs this stream only
            log.event("message_unreadable", relay=self._relay, error=repr(error))
            self._end(BadRequest.of("message", "could not be read: it is malformed or of another release"))

    def _take(self, message: relay_pb2.AttachManyRequest) -> None:
        for said in message.observed:
            self._on_link(said.link, said.observed)
        beats = [event for beat in message.beats if (event := self._beat_of(beat)) is not None]
        if beats:
            self._desk.post(BeatsReceived(beats[0].stamp, tuple(beats)))
        for gone in message.gone:
            launcher = self._links.pop(gone.link, None)
            if launcher is not None:
                launcher.close(gone.by_peer)

    def _on_link(self, link: int, said: attach_pb2.Observed) -> None:
        launcher = self._links.get(link)
        try:
            if launcher is not None:
                launcher.take(said)
            elif said.HasField("hello"):
                self._begin(link, said)
            # else: late words on a link that was ended meanwhile; the relay will have heard of that
        except RpcProblem as problem:
            log.event("message_refused", relay=self._relay, link=link, sentence=str(problem))
            self._cut(link, problem)

    def _begin(self, link: int, said: attach_pb2.Observed) -> None:
        if len(self._links) >= MAX_LINKS:
            raise BadRequest.of("link", f"a relay carries {MAX_LINKS} launchers at most; use another")
        launcher = Attachment(self._desk, LinkStream(link, self._down, self._cut))
        self._links[link] = launcher
        launcher.introduce(said)

    def _beat_of(self, beat: relay_pb2.LinkBeat) -> BeatReceived | None:
        launcher = self._links.get(beat.link)
        if launcher is None:
            return None
        try:
            return launcher.beat_of(beat.beat)
        except BadRequest as problem:
            self._cut(beat.link, problem)
            return None

    def _cut(self, link: int, problem: RpcProblem | None) -> None:
        """End one launcher's link."""
        launcher = self._links.pop(link, None)
        self._down.end(link, problem)
        if launcher is not None:
            launcher.close(by_peer=False)

    def _end(self, over: RpcProblem | bool) -> None:
        self._over = over
        self._down.wake()

    def _close(self) -> None:
        if self._links:
            log.event("relay_detached", relay=self._relay, launchers=len(self._links))
        while self._links:
            _, launcher = self._links.popitem()
            launcher.close(by_peer=False)


class LinkStream:
    """What goes down one link."""

    is_direct = False

    def __init__(self, link: int, batch: DownBatch, cut: Any) -> None:
        self._link, self._batch, self._cut = link, batch, cut
        self.refusal: RpcProblem | None = None
        """What the link was ended with."""

    def put_desired(self, desired: Desired) -> None:
        """The node's whole desired state."""
        self._batch.put_desired(self._link, desired)

    def put_beat_reply(self, reply: attach_pb2.BeatReply) -> None:
        """The answer to a beat."""
        self._batch.put_beat_reply(self._link, reply)

    def end(self, refusal: RpcProblem | None = None) -> None:
        """Close the link."""
        self.refusal = refusal
        self._cut(self._link, refusal)


class DownBatch:
    """What the launchers of one relay are to be told: the newest goal, beat reply and end of each link."""

    def __init__(self) -> None:
        self._goals: dict[int, Desired] = {}
        self._replies: dict[int, attach_pb2.BeatReply] = {}
        self._ends: dict[int, RpcProblem | None] = {}
        self._changed = asyncio.Event()
        self.shares_runs = False
        """Whether the relay fills each launcher's place into a Run that many share."""

    def put_desired(self, link: int, desired: Desired) -> None:
        """An older goal that was not sent yet is forgotten."""
        known = self._goals.get(link)
        if known is None or desired.revision >= known.revision:
            self._goals[link] = desired
            self._changed.set()

    def put_beat_reply(self, link: int, reply: attach_pb2.BeatReply) -> None:
        """It covers all earlier beats of the link."""
        self._replies[link] = reply
        self._changed.set()

    def end(self, link: int, problem: RpcProblem | None) -> None:
        """Nothing follows on this link; with a problem, what is still to be sent is not."""
        if problem is not None:
            self._goals.pop(link, None)
            self._replies.pop(link, None)
        self._ends[link] = problem
        self._changed.set()

    @property
    def is_urgent(self) -> bool:
        """Whether there is more than answers to beats, which came together already."""
        return bool(self._goals or self._ends)

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._changed.set()

    async def changed(self) -> None:
        """Wait for the next change."""
        self._changed.clear()
        if not (self._goals or self._replies or self._ends):
            await self._changed.wait()

    def take(self, most: int) -> relay_pb2.AttachManyResponse | None:
        """The next message; goals that are alike share one. None when there is nothing to tell."""
        if not (self._goals or self._replies or self._ends):
            return None
        message = relay_pb2.AttachManyResponse()
        shared: dict[object, relay_pb2.SharedDesired] = {}
        for link in list(self._goals)[:most]:
            desired = self._goals.pop(link)
            goal, is_shared_run = desired.goal, self.shares_runs and isinstance(desired.goal, Run)
            key = (_but_for_its_place(goal) if is_shared_run else goal, desired.current_generation)
            group = shared.get(key)
            if group is None:
                group = shared[key] = message.desired.add()
                group.desired.CopyFrom(desired_to_proto(desired))
                group.desired.revision = 0
            order = group.to.add(link=link, revision=desired.revision)
            if isinstance(goal, Run) and is_shared_run:
                order.group_rank, order.base_rank = goal.group_rank, goal.base_rank
        for link in list(self._replies)[:most]:
            message.beat_replies.add(link=link, reply=self._replies.pop(link))
        for link in [link for link in self._ends if link not in self._goals][:most]:
            _add_end(message, link, self._ends.pop(link))
        return message


_but_for_its_place = attrgetter(*(item.name for item in fields(Run) if item.name not in ("group_rank", "base_rank")))
"""What all members of a generation are told alike."""


def _add_end(message: relay_pb2.AttachManyResponse, link: int, problem: RpcProblem | None) -> None:
    end = message.ends.add(link=link)
    if problem is not None:
        code, status = to_status(problem)
        end.code, end.message = code.value[0], status.message
        end.details.extend(status.details)
