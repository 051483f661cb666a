"""One launcher's words become events, in order; what the core wants told goes back. Decides nothing.

An `Attachment` is one launcher from its introduction to its end, whichever way its words come; a `LauncherSession` is
one on a stream of its own (`attach_many` has those behind a relay). The first message introduces the launcher. A
malformed message ends this launcher's stream with its refusal and harms no other.
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
from resurge_rendezvous.core.model import BeatReceived, Hello, HelloReceived, ObservedReceived, StreamClosed
from resurge_rendezvous.desk import Desk
from resurge_rendezvous.streams import DownStream, LauncherStream


class Attachment:
    """One launcher, as its words arrive. What it is told goes down the stream given."""

    def __init__(self, desk: Desk, stream: DownStream) -> None:
        self._desk = desk
        self._is_known = False
        self._last: attach_pb2.Observed | None = None
        """What was said last, without its beat."""
        self.name = desk.ids.new("stream")
        self.node = NodeId("")
        self.stream = stream

    def introduce(self, said: attach_pb2.Observed) -> tuple[Hello, asyncio.Future[Any]]:
        """The first words; the future ends when the core has let it in, or has ended its stream with a refusal.

        Raises BadRequest, VersionMismatch, WrongJob or Unready.
        """
        hello = wire.hello_of(said, self._desk.limits)
        observed = wire.observed_of(said)
        only = self._desk.job_id
        if only and hello.spec.job_id != only:
            raise WrongJob(hello.spec.job_id, JobId(only))
        if said.HasField("beat"):
            wire.beat_times_of(said.beat)  # refused before anything is asked
        self.node, self._is_known = hello.node, True
        self._desk.add_stream(self.name, self.stream)
        revision_seen = observed.revision_seen
        answer = self._desk.ask_now(HelloReceived(self._desk.stamp(), self.name, hello, revision_seen))
        said.ClearField("hello")
        self.take(said)  # behind the introduction, in the same inbox
        return hello, answer

    def take(self, said: attach_pb2.Observed) -> None:
        """Later words. Raises BadRequest, Unready or Overloaded."""
        if said.HasField("hello"):
            raise BadRequest.of("observed.hello", "belongs to the first message of a stream only")
        beat = self.beat_of(said.beat) if said.HasField("beat") else None
        said.ClearField("beat")
        is_news = beat is None or said != self._last  # a beat that says nothing new is only a beat, and is not read
        observed = wire.observed_of(said) if is_news else None
        if beat is not None:
            self._desk.post(beat)
        if observed is not None:
            self._desk.post(ObservedReceived(self._desk.stamp(), self.name, self.node, observed))
        self._last = said

    def beat_of(self, beat: attach_pb2.Beat) -> BeatReceived:
        """The event of one beat. Raises BadRequest."""
        direct = self._desk.direct if self.stream.is_direct else 0
        times = wire.beat_times_of(beat)
        return BeatReceived(self._desk.stamp(), self.name, self.node, beat.sequence, *times, direct=direct)

    def leave(self) -> bool:
        """Forget the stream; False when it was not known, or not any more."""
        was_known, self._is_known = self._is_known, False
        self._desk.drop_stream(self.name)
        return was_known

    def close(self, by_peer: bool) -> None:
        """The launcher's stream is over: the launcher's kernel said so, or it was silent for too long."""
        if self.leave():
            self._desk.post_if_ready(StreamClosed(self._desk.stamp(), self.name, self.node, by_peer))

    def log_attached(self, hello: Hello) -> None:
        """Tell people."""
        log.event(
            "launcher_attached",
            job=hello.spec.job_id,
            node=hello.node,
            incarnation=hello.incarnation,
            generation=hello.highest_generation,
            host=hello.host,
            pid=hello.pid,
            stream=self.name,
        )

    def log_refused(self, hello: Hello, problem: RpcProblem) -> None:
        """Tell people."""
        log.event("launcher_refused", node=hello.node, incarnation=hello.incarnation, sentence=str(problem))


class LauncherSession:
    """One launcher on a stream of its own, from its first message to its end."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._heard_at = desk.clock.monotonic()
        self.stream = LauncherStream()
        self._launcher = Attachment(desk, self.stream)

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
            await self._introduce(await first_of(messages, self._desk.settings.hello_limit_s, "observed.hello"))
            reader = asyncio.create_task(self._read(messages))
            yield
        finally:
            if reader is not None:
                reader.cancel()
            self._close()

    async def _introduce(self, first: rendezvous_pb2.AttachRequest) -> None:
        self._heard_at = self._desk.clock.monotonic()
        hello, answer = self._launcher.introduce(first.observed)
        await answer
        if self.stream.refusal is not None:
            self._launcher.leave()  # it was never attached, so it is not detached either
            self._launcher.log_refused(hello, self.stream.refusal)
            raise self.stream.refusal
        self._launcher.log_attached(hello)

    async def _read(self, messages: AsyncIterator[rendezvous_pb2.AttachRequest]) -> None:
        node, name = self._launcher.node, self._launcher.name
        try:
            async for message in messages:
                self._heard_at = self._desk.clock.monotonic()
                self._launcher.take(message.observed)
            self.stream.end()  # the launcher closed its side
        except RpcProblem as problem:
            log.event("message_refused", node=node, stream=name, sentence=str(problem))
            self.stream.end(problem)
        except Exception as error:  # the root of this task: what cannot be read at all costs its own stream only
            log.event("message_unreadable", node=node, stream=name, error=repr(error))
            self.stream.end(BadRequest.of("message", "could not be read: it is malformed or of another release"))

    def _close(self) -> None:
        silent_s = self._desk.clock.monotonic() - self._heard_at
        # our own ping gives a peer up only after this long; an end before it is the word of the peer's kernel
        by_peer = silent_s < self._desk.limits.server_ping_timeout_s
        name, node = self._launcher.name, self._launcher.node
        if name in self._desk.streams:
            log.event("launcher_detached", node=node, stream=name, by_peer=by_peer, silent_s=silent_s)
        self._launcher.close(by_peer)


async def first_of(messages: AsyncIterator[Any], limit_s: float, what: str) -> Any:
    """The first message of a stream. Raises BadRequest when the stream ends before it, or when it takes too long."""
    try:
        async with asyncio.timeout(limit_s):
            return await anext(messages)
    except StopAsyncIteration:
        raise BadRequest.of(what, "is missing; the stream ended before it began") from None
    except TimeoutError:
        raise BadRequest.of(what, f"did not come within {limit_s:g} s") from None
