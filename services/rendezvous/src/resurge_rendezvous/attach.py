"""One launcher's stream: its messages become events, in order; what the core wants told goes back. Decides nothing.

The first message introduces the launcher. A malformed message ends this stream with its refusal and harms no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_libs.core.ids import JobId, NodeId
from resurge_libs.core.refusals import BadRequest, RpcProblem, WrongJob
from resurge_libs.obs import log
from resurge_rendezvous import wire
from resurge_rendezvous.core.model import BeatReceived, HelloReceived, ObservedReceived, StreamClosed
from resurge_rendezvous.desk import Desk
from resurge_rendezvous.streams import LauncherStream

Beat = tuple[int, float, float | None, float | None]
"""Sequence, when it was sent, and the launcher's clock offset and error."""


class LauncherSession:
    """One stream from its first message to its end."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._name = desk.ids.new("stream")
        self._node = NodeId("")
        self._is_known = False
        self._heard_at = desk.clock.monotonic()
        self._last: attach_pb2.Observed | None = None
        """What was said last, without its beat."""
        self.stream = LauncherStream()

    @asynccontextmanager
    async def introduced(
        self, requests: AsyncIterator[rendezvous_pb2.AttachRequest], context: Any
    ) -> AsyncIterator[None]:
        """The stream between introduction and end. Raises the refusal that ends it."""
        self._desk.check_ready()
        context.add_done_callback(lambda _context: self._close())  # also when nobody reads what we would send
        messages = aiter(requests)
        reader: asyncio.Task[None] | None = None
        try:
            await self._introduce(await self._first(messages))
            reader = asyncio.create_task(self._read(messages))
            yield
        finally:
            if reader is not None:
                reader.cancel()
            self._close()

    async def _first(self, messages: AsyncIterator[Any]) -> rendezvous_pb2.AttachRequest:
        limit_s = self._desk.settings.hello_limit_s
        try:
            async with asyncio.timeout(limit_s):
                return await anext(messages)
        except StopAsyncIteration:
            raise BadRequest.of("observed.hello", "is missing; the stream ended before it began") from None
        except TimeoutError:
            raise BadRequest.of("observed.hello", f"did not come within {limit_s:g} s") from None

    async def _introduce(self, first: rendezvous_pb2.AttachRequest) -> None:
        hello = wire.hello_of(first.observed, self._desk.limits)
        observed, said = wire.observed_of(first.observed), first.observed
        only = self._desk.job_id
        if only and hello.spec.job_id != only:
            raise WrongJob(hello.spec.job_id, JobId(only))
        beat = _beat_of(said)
        said.ClearField("hello")
        self._node, self._is_known = hello.node, True
        self._desk.streams[self._name] = self.stream
        answer = self._desk.ask_now(
            HelloReceived(self._desk.stamp(), self._name, hello, revision_seen=observed.revision_seen)
        )
        self._take(said, beat)  # behind the introduction, in the same inbox
        await answer
        if self.stream.refusal is not None:
            self._leave()  # it was never attached, so it is not detached either
            why = str(self.stream.refusal)
            log.event("launcher_refused", node=hello.node, incarnation=hello.incarnation, sentence=why)
            raise self.stream.refusal
        log.event(
            "launcher_attached",
            job=hello.spec.job_id,
            node=hello.node,
            incarnation=hello.incarnation,
            generation=hello.highest_generation,
            host=hello.host,
            pid=hello.pid,
            stream=self._name,
        )

    async def _read(self, messages: AsyncIterator[rendezvous_pb2.AttachRequest]) -> None:
        try:
            async for message in messages:
                if message.observed.HasField("hello"):
                    raise BadRequest.of("observed.hello", "belongs to the first message of a stream only")
                self._take(message.observed, _beat_of(message.observed))
            self.stream.end()  # the launcher closed its side
        except RpcProblem as problem:
            log.event("message_refused", node=self._node, stream=self._name, sentence=str(problem))
            self.stream.end(problem)
        except Exception as error:  # the root of this task: what cannot be read at all costs its own stream only
            log.event("message_unreadable", node=self._node, stream=self._name, error=repr(error))
            self.stream.end(BadRequest.of("message", "could not be read: it is malformed or of another release"))

    def _take(self, said: attach_pb2.Observed, beat: Beat | None) -> None:
        said.ClearField("beat")
        is_news = beat is None or said != self._last  # a beat that says nothing new is only a beat, and is not read
        observed = wire.observed_of(said) if is_news else None
        self._heard_at = self._desk.clock.monotonic()
        if beat is not None:
            self._desk.post(BeatReceived(self._desk.stamp(), self._name, self._node, *beat))
        if observed is not None:
            self._desk.post(ObservedReceived(self._desk.stamp(), self._name, self._node, observed))
        self._last = said

    def _leave(self) -> bool:
        """Forget the stream; False when it was not known, or not any more."""
        was_known, self._is_known = self._is_known, False
        self._desk.streams.pop(self._name, None)
        return was_known

    def _close(self) -> None:
        if not self._leave():
            return
        silent_s = self._desk.clock.monotonic() - self._heard_at
        # our own ping gives a peer up only after this long; an end before it is the word of the peer's kernel
        by_peer = silent_s < self._desk.limits.server_ping_timeout_s
        log.event("launcher_detached", node=self._node, stream=self._name, by_peer=by_peer, silent_s=silent_s)
        self._desk.post_if_ready(StreamClosed(self._desk.stamp(), self._name, self._node, by_peer))


def _beat_of(observed: attach_pb2.Observed) -> Beat | None:
    return (observed.beat.sequence, *wire.beat_times_of(observed.beat)) if observed.HasField("beat") else None
