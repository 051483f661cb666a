"""One launcher's words become events, in order; what the core wants told goes back. Decides nothing.

An `Attachment` is one launcher from its introduction to its end, whichever way its words come; a `LauncherSession` is
one on a stream of its own (`attach_many` has those behind a relay). The first message introduces the launcher. A
malformed message ends this launcher's stream with its refusal and harms no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_libs.core.ids import JobId, NodeId
from resurge_libs.core.refusals import BadRequest, InternalFault, RpcProblem, WrongJob
from resurge_libs.obs import log
from resurge_rendezvous import wire
from resurge_rendezvous.core.model import (
    BeatReceived,
    Hello,
    HelloReceived,
    Observed,
    ObservedReceived,
    StreamClosed,
)
from resurge_rendezvous.desk import Answered, Desk
from resurge_rendezvous.streams import DownStream, LauncherStream

FIRST = "observed.hello"
NEVER_BEGAN = "is missing; the stream ended before it began"


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

    def introduce(self, said: attach_pb2.Observed) -> None:
        """The first words. The core lets it in, or ends its stream with a refusal, once that is durable.

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
        event = HelloReceived(self._desk.stamp(), self.name, hello, observed.revision_seen)
        self._desk.post(event, Answered(lambda problem: self._introduced(hello, problem)))
        said.ClearField("hello")
        self._take(said, observed)  # behind the introduction, in the same inbox

    def _introduced(self, hello: Hello, problem: BaseException | None) -> None:
        """The introduction was decided about: let in, refused, or nothing is decided any more."""
        if problem is not None:
            self.stream.end(problem if isinstance(problem, RpcProblem) else InternalFault(repr(problem)))
        if self.stream.refusal is not None:
            self.leave()  # it was never attached, so it is not detached either
            self._desk.note_refused(hello, self.stream.refusal)
        elif self._is_known:
            self._desk.note_attached(hello, self.name)

    def take(self, said: attach_pb2.Observed) -> None:
        """Later words. Raises BadRequest, Unready or Overloaded."""
        if said.HasField("hello"):
            raise BadRequest.of("observed.hello", "belongs to the first message of a stream only")
        beat = self.beat_of(said.beat) if said.HasField("beat") else None
        said.ClearField("beat")
        is_news = beat is None or said != self._last  # a beat that says nothing new is only a beat, and is not read
        observed = wire.observed_of(said) if is_news else None
        self._post(beat, observed)
        self._last = said

    def _take(self, said: attach_pb2.Observed, observed: Observed) -> None:
        """The rest of the first words, which were looked at already."""
        beat = self.beat_of(said.beat) if said.HasField("beat") else None
        said.ClearField("beat")
        self._post(beat, observed)
        self._last = said

    def _post(self, beat: BeatReceived | None, observed: Observed | None) -> None:
        # the beat last: its answer says that what came with it has arrived too
        if observed is not None:
            self._desk.post(ObservedReceived(self._desk.stamp(), self.name, self.node, observed))
        if beat is not None:
            self._desk.post(beat)

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


class LauncherSession:
    """One launcher on a stream of its own, from its first message to its end.

    Whatever ends it, a refusal of the first message too, ends what goes down: there is one place to wait for.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._heard_at = desk.clock.monotonic()
        self._reader: asyncio.Task[None] | None = None
        self._introduce_by: asyncio.TimerHandle
        self.stream = LauncherStream()
        self._launcher = Attachment(desk, self.stream)

    def open(self, requests: AsyncIterator[rendezvous_pb2.AttachRequest], context: Any) -> None:
        """Begin to listen. Raises Unready."""
        self._desk.check_ready()
        context.add_done_callback(lambda _context: self._close())  # also when nobody reads what we would send
        self._reader = asyncio.get_running_loop().create_task(self._read(requests))

    def close(self) -> None:
        """Listen no more."""
        if self._reader is not None:
            self._reader.cancel()
        self._close()

    async def _read(self, messages: AsyncIterator[rendezvous_pb2.AttachRequest]) -> None:
        name, limit_s = self._launcher.name, self._desk.settings.hello_limit_s
        self._await_introduction(limit_s)
        is_first = True
        try:
            async for message in messages:
                self._heard_at = self._desk.clock.monotonic()
                if is_first:
                    is_first = False
                    self._introduce_by.cancel()
                    self._launcher.introduce(message.observed)
                else:
                    self._launcher.take(message.observed)
            # the launcher closed its side
            self.stream.end(BadRequest.of(FIRST, NEVER_BEGAN) if is_first else None)
        except RpcProblem as problem:
            if not is_first or self._launcher.node:
                log.event("message_refused", node=self._launcher.node, stream=name, sentence=str(problem))
            self.stream.end(problem)
        except Exception as error:  # the root of this task: what cannot be read at all costs its own stream only
            log.event("message_unreadable", node=self._launcher.node, stream=name, error=repr(error))
            self.stream.end(BadRequest.of("message", "could not be read: it is malformed or of another release"))
        finally:
            self._introduce_by.cancel()

    def _await_introduction(self, limit_s: float) -> None:
        due = self._desk.clock.monotonic() + limit_s
        self._introduce_by = asyncio.get_running_loop().call_later(limit_s, self._never_introduced, limit_s, due)

    def _never_introduced(self, limit_s: float, due: float) -> None:
        if self._desk.clock.monotonic() > due + self._desk.limits.late_tick_s:
            self._await_introduction(limit_s)  # it was this service that had no time: the words may be here unread
        else:
            self.stream.end(BadRequest.of(FIRST, f"did not come within {limit_s:g} s"))

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
        raise BadRequest.of(what, NEVER_BEGAN) from None
    except TimeoutError:
        raise BadRequest.of(what, f"did not come within {limit_s:g} s") from None
