"""The launcher's one stream to rendezvous: what it observes goes up, what is wanted of it comes down.

Level-triggered: only the newest observed state is worth sending, the whole of it goes up on each new stream, and with
every change. Beats carry four times, which give the lease and the offset of the two clocks. Reconnects for ever, after
a short random wait; what ends it is a definite refusal or `stop`. Decides nothing: all news become events.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2, rendezvous_pb2_grpc
from resurge_launcher.core import clocks
from resurge_launcher.core import happenings as h
from resurge_launcher.core.ways import Ways
from resurge_launcher.usage import ConnectAttempt, attempt_of, foreign_answer
from resurge_launcher.wire import BadDesired, Times, desired_from_proto, duration, observed_to_proto
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import (
    AlreadyAttached,
    BadRequest,
    NotYourNode,
    Overloaded,
    RpcProblem,
    Superseded,
    Unauthenticated,
    Unimplemented,
    VersionMismatch,
    WrongJob,
)
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.obs import log
from resurge_libs.rpc.auth import token_metadata
from resurge_libs.rpc.channel import open_channel
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.errors import problem_of

GOODBYE_LIMIT_S = 0.5
"""How long the last observed state may take to leave."""
KEPT_TRIES = 16
SILENT_TRIES_S = 3.0
"""A control plane that starts beside its launchers needs about so long; later than this, people are told."""
_HOPELESS = (WrongJob, VersionMismatch, BadRequest, Unauthenticated, NotYourNode, Unimplemented)


@dataclass(frozen=True, slots=True)
class Where:
    """How rendezvous is reached."""

    endpoint: Endpoint
    limits: TimeLimits
    token: str | None = None
    peers: int = 1
    """Launchers of this job, as far as its own words say."""
    relays: tuple[Endpoint, ...] = ()
    """Ways to the endpoint, tried before the endpoint itself."""


class ControlStream:
    """Holds the stream open. `post` takes events; `hello` makes the greeting, as it should be at that moment."""

    def __init__(
        self, where: Where, times: Times, hello: Callable[[], attach_pb2.Hello], post: Callable[[h.Event], None]
    ) -> None:
        self._where = where
        self._times = times
        self._hello = hello
        self._post = post
        self._observed: attach_pb2.Observed | None = None
        self._changed = asyncio.Event()
        self._closing = False
        self._hurried = self._beats_now = False
        self._offset: clocks.ClockOffset | None = None
        self._same_clock = False
        """Whether the offset is of the service at the other end of this stream, and not of one before it."""
        self._lease_s = where.limits.lease_ttl_s
        """The lease last granted: with very many launchers it grows, and with it the time between beats."""
        self._not_before = 0.0
        # every launcher begins at another relay, so that they share the launchers among them
        self._ways = Ways.through(random.sample(where.relays, len(where.relays)), where.endpoint)
        self._sequence = 0
        self._task: asyncio.Task[None] | None = None
        self._sent_all = asyncio.Event()
        self._began_at = time.monotonic()
        self.failed_tries: deque[ConnectAttempt] = deque(maxlen=KEPT_TRIES)
        """The last tries that failed, for a launcher that never met its control plane."""
        self.is_up = False
        self._met = self._said_awaited = False

    def start(self) -> asyncio.Task[None]:
        """Begin to connect; needs a running loop. The task ends after `stop` and after a definite refusal."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self._task

    def observed(self, observed: h.Observed, beats: bool = False) -> None:
        """The newest state, with a beat if it is not to wait for the next; what was not sent yet is replaced."""
        self._beats_now |= beats
        self._observed = observed_to_proto(observed, self._times)
        self._sent_all.clear()
        self._changed.set()

    async def stop(self) -> None:
        """Send what is left, for a short time, and close."""
        if self.is_up:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._sent_all.wait(), GOODBYE_LIMIT_S)
        self._closing = True
        self._changed.set()
        if self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=GOODBYE_LIMIT_S)
            if not done:
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=GOODBYE_LIMIT_S)

    # ------------------------------------------------------------------------------------------------ connecting

    def hurry(self) -> None:
        """Somebody answers there again: try now."""
        self._hurried = True
        self._changed.set()

    async def _run(self) -> None:
        where = self._where
        while not self._closing:
            # a channel of its own each time: an old one would wait out its own backoff first
            channel = open_channel(self._ways.now, where.limits, where.token, where.peers)
            try:
                if not await self._attach(channel):
                    return
            finally:
                await channel.close(None)
            await self._pause()

    async def _pause(self) -> None:
        limits = self._where.limits
        # many launchers come back over a longer time: together they must not keep the service from answering any
        longest_s = limits.reconnect_backoff_max_s * self._lease_s / limits.lease_ttl_s
        now = time.monotonic()
        give_up_at = max(now, self._not_before) + random.uniform(limits.reconnect_backoff_min_s, longest_s)
        while not self._closing and not self._hurried and (left_s := give_up_at - time.monotonic()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left_s)
        self._hurried = False

    async def _attach(self, channel: grpc.aio.Channel) -> bool:
        """Hold one stream until it ends; False when there is no use in another."""
        stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
        call: Any = stub.Attach(metadata=token_metadata(self._where.token))
        sender = asyncio.get_running_loop().create_task(self._send(call))
        way = str(self._ways.now)
        sentence = "rendezvous closed the stream"
        # whoever does not answer beats for a whole lease is as good as gone, whatever its kernel says
        try:
            while (response := await asyncio.wait_for(call.read(), self._lease_s)) is not grpc.aio.EOF:
                self._received(response.desired)
        except grpc.RpcError as error:
            problem = problem_of(error)
            refused = _refused(problem, "" if self._met else foreign_answer(way, str(problem)))
            if refused is not None:
                self._post(refused)
                return False
            if isinstance(problem, Overloaded):
                self._not_before = time.monotonic() + problem.retry_after_s
            sentence = f"{way}: {problem}"
            self._ways = self._ways.failed(problem)
        except TimeoutError:
            sentence = f"rendezvous said nothing for {self._lease_s:g} s"
            self._ways = self._ways.failed(None)
        except BadDesired as error:
            sentence = str(error)
        finally:
            self.is_up = False
            call.cancel()
            sender.cancel()
            await asyncio.wait({sender})
        if not self._closing:
            after_s = time.monotonic() - self._began_at
            self.failed_tries.append(attempt_of(way, sentence, after_s))
            self._say_awaited(sentence, after_s)
            self._post(h.StreamLost(sentence))
        return not self._closing

    def _say_awaited(self, sentence: str, after_s: float) -> None:
        if self._met or self._said_awaited or after_s < SILENT_TRIES_S:
            return
        self._said_awaited = True
        limit_s = self._where.limits.first_contact_limit_s
        log.event("control_awaited", sentence=sentence, tries=len(self.failed_tries), limit_s=limit_s)

    # --------------------------------------------------------------------------------------------------- sending

    async def _send(self, call: Any) -> None:
        """Whatever is new, at once; a beat when it is due. A broken stream is told by the reading side."""
        hello: attach_pb2.Hello | None = self._hello()
        beat_at = time.monotonic()
        self._changed.set()
        try:
            while not self._closing:
                wait_s = beat_at - time.monotonic()
                if wait_s > 0 and not self._changed.is_set():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), wait_s)
                beats = self._beats_now or time.monotonic() >= beat_at
                if beats:
                    self._beats_now = False
                    beat_at = time.monotonic() + self._beat_interval_s()
                self._changed.clear()
                message = self._message(hello, beats)
                if message is not None:
                    hello = None
                    await call.write(message)
                    if not self._changed.is_set():
                        self._sent_all.set()
            await call.done_writing()
        except (grpc.RpcError, asyncio.InvalidStateError):
            return

    def _beat_interval_s(self) -> float:
        limits = self._where.limits
        return limits.beat_interval_s * self._lease_s / limits.lease_ttl_s

    def _message(self, hello: attach_pb2.Hello | None, beats: bool) -> rendezvous_pb2.AttachRequest | None:
        if self._observed is None:
            return None
        request = rendezvous_pb2.AttachRequest(observed=self._observed)
        if hello is not None:
            request.observed.hello.CopyFrom(hello)
        if beats:
            self._sequence += 1
            beat = request.observed.beat
            beat.sequence = self._sequence
            beat.sent.CopyFrom(self._times.stamp(Instant(time.monotonic())))
            if self._offset is not None:
                told = self._offset.simplest()
                beat.clock_offset.CopyFrom(duration(told.offset_s))
                beat.clock_error.CopyFrom(duration(told.error_s))
        return request

    # ------------------------------------------------------------------------------------------------- receiving

    def _received(self, desired: attach_pb2.Desired) -> None:
        if not self.is_up:
            self.is_up = self._met = True
            self._same_clock = False
            self._post(h.StreamUp())
        event = desired_from_proto(desired)
        if event is not None:
            self._post(event)
        if desired.HasField("beat_reply"):
            self._acknowledged(desired.beat_reply)

    def _acknowledged(self, reply: attach_pb2.BeatReply) -> None:
        now = time.monotonic()
        sent = self._times.of(reply.launcher_sent)
        received, answered = self._times.of(reply.received), self._times.of(reply.sent)
        known, self._same_clock = self._offset if self._same_clock else None, True
        self._offset = clocks.narrowed(known, clocks.measured(sent, received, answered, now))
        granted_s = reply.lease_ttl.ToNanoseconds() / 1e9
        self._lease_s = max(self._where.limits.lease_ttl_s, granted_s)
        # never trust more than was asked for: the lease counts from sending, and sending cannot lie ahead
        self._post(h.BeatAcked(Instant(min(sent, now)), granted_s))


def _refused(problem: RpcProblem, foreign: str) -> h.Refused | None:
    """The definite answers after which trying again is wrong; `foreign` where another program gave this one."""
    if foreign:
        return h.Refused(h.Refusal.NOT_WELCOME, Because(Reason.BAD_REQUEST, foreign))
    match problem:
        case Superseded():
            return h.Refused(h.Refusal.SUPERSEDED, Because(Reason.SUPERSEDED, str(problem)))
        case AlreadyAttached():
            return h.Refused(h.Refusal.ALREADY_ATTACHED, Because(Reason.ALREADY_ATTACHED, str(problem)))
        case VersionMismatch():
            return h.Refused(h.Refusal.NOT_WELCOME, Because(Reason.VERSION_MISMATCH, str(problem)))
        case _ if isinstance(problem, _HOPELESS):
            return h.Refused(h.Refusal.NOT_WELCOME, Because(Reason.BAD_REQUEST, str(problem)))
        case _:
            return None
