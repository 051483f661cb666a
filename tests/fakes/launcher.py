"""A scripted launcher without workers: attaches, obeys its desired state at once, and does what a test tells it.

It speaks only the wire, so it tests the service from outside. By default it follows every order the way a good
launcher would (RUN: STARTING, RUNNING and all milestones; DOWN: TEARING_DOWN, then READY; EXIT: acknowledged); a test
switches single habits off to play a bad one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2, rendezvous_pb2_grpc

PROTOCOL_VERSION = 1
STEPS = (
    attach_pb2.MILESTONE_KIND_WORKER_STARTED,
    attach_pb2.MILESTONE_KIND_PROCESS_GROUP_READY,
    attach_pb2.MILESTONE_KIND_CHECKPOINT_RESTORED,
    attach_pb2.MILESTONE_KIND_FIRST_STEP,
)

COME_BACK_AFTER_S = 0.1
ASKED_AGAIN = 20
REFUSED_FOR_GOOD = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)


def job_spec(job_id: str = "job", nodes: str = "2:2", **fields: Any) -> attach_pb2.JobSpec:
    """A specification with short limits; `nodes` is MIN:MAX."""
    least, most = (int(part) for part in nodes.split(":"))
    given: dict[str, Any] = {
        "job_id": job_id,
        "min_nodes": least,
        "max_nodes": most,
        "max_restarts": 3,
        "command_digest": "d1",
        "lease_ttl": _duration(5.0),
        "fault_grace": _duration(0.5),
        "no_restart_exit_code": 93,
    }
    return attach_pb2.JobSpec(**{**given, **fields})


@dataclass
class Habits:
    """What a well-behaved launcher does by itself."""

    beats_every_s: float = 0.5
    """0 for never."""
    starts: bool = True
    reports_milestones: bool = True
    tears_down: bool = True
    acknowledges_exit: bool = True
    comes_back: bool = False
    """Attaches again when the stream was lost, as long as it was not refused for good."""


class Waits:
    """Waiting for what comes down a stream, each wait with a limit and with what is there instead."""

    node_id: str
    desired: attach_pb2.Desired | None
    refused: grpc.aio.AioRpcError | None
    _changed: asyncio.Event

    async def until(self, condition: Callable[[Any], bool], limit_s: float = 10.0) -> Any:
        """Wait until the condition holds on what has come down. Raises AssertionError with what is there instead."""
        try:
            async with asyncio.timeout(limit_s):
                while not condition(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(
                f"{self.node_id}: not within {limit_s} s; last desired {self.desired}, refused {self.refused}"
            ) from None
        return self

    async def until_goal(self, goal: str, limit_s: float = 10.0, **fields: Any) -> Any:
        """Wait for a goal of the given kind (run, down, park, exit) whose fields have the given values; return it."""

        def holds(launcher: Waits) -> bool:
            desired = launcher.desired
            if desired is None or desired.WhichOneof("goal") != goal:
                return False
            return all(getattr(getattr(desired, goal), name) == value for name, value in fields.items())

        await self.until(holds, limit_s)
        return getattr(self.desired, goal)

    async def until_refused(self, limit_s: float = 10.0) -> grpc.aio.AioRpcError:
        """Wait until the service ends the stream with an error; return it."""
        await self.until(lambda launcher: launcher.refused is not None, limit_s)
        assert self.refused is not None
        return self.refused


@dataclass
class FakeLauncher(Waits):
    """One scripted node. `async with` it, or call `attach` and `vanish` by hand."""

    channel: grpc.aio.Channel
    spec: attach_pb2.JobSpec
    node_id: str
    incarnation: int = 1
    local_world_size: int = 2
    metadata: tuple[tuple[str, str], ...] = ()
    habits: Habits = field(default_factory=Habits)
    hello_fields: dict[str, Any] = field(default_factory=dict)
    clock_s: Callable[[], float] = time.time

    desired: attach_pb2.Desired | None = None
    """The newest goal; beats' replies are kept apart."""
    goals: list[attach_pb2.Desired] = field(default_factory=list)
    beat_replies: list[attach_pb2.BeatReply] = field(default_factory=list)
    refused: grpc.aio.AioRpcError | None = None
    observed: attach_pb2.Observed = field(default_factory=attach_pb2.Observed)
    streams_lost: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """The stream is over, for whatever reason."""

    def __post_init__(self) -> None:
        self._outgoing: asyncio.Queue[rendezvous_pb2.AttachRequest | None] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._call: Any = None
        self._returning: asyncio.Task[None] | None = None
        self._beat_sequence = 0
        self.observed.phase = attach_pb2.NODE_PHASE_READY
        self.observed.store_offer.CopyFrom(attach_pb2.StoreOffer(address="127.0.0.1", port=29500))

    async def __aenter__(self) -> FakeLauncher:
        await self.attach()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.vanish()

    async def until_refused(self, limit_s: float = 10.0) -> grpc.aio.AioRpcError:
        """As everywhere; but where grpc lost the answer between its own write and the stream's end, ask again.

        A client's write that fails after the end of a call overwrites the status it had (grpc issue 36066). The
        launcher takes INTERNAL for "it may have been done" and comes back, as this one does.
        """
        error = await super().until_refused(limit_s)
        for _ in range(ASKED_AGAIN):
            if "Internal error from Core" not in str(error.details()):
                break
            await self.attach()
            error = await super().until_refused(limit_s)
        return error

    # ------------------------------------------------------------------ the stream

    async def attach(self) -> None:
        """Open a stream and introduce this node; a second call reconnects with the state it has."""
        await self._cut()
        self.ended.clear()
        self.refused = None
        self._outgoing = asyncio.Queue()
        stub = rendezvous_pb2_grpc.RendezvousServiceStub(self.channel)
        self._call = stub.Attach(metadata=self.metadata)
        self.report(first=True)
        self._tasks = [asyncio.create_task(self._send(self._call)), asyncio.create_task(self._receive(self._call))]
        if self.habits.beats_every_s > 0:
            self._tasks.append(asyncio.create_task(self._keep_beating()))
        if self.habits.comes_back and self._returning is None:
            self._returning = asyncio.create_task(self._come_back())

    async def vanish(self) -> None:
        """Cut the stream without a word, as a dying launcher's kernel does, and stay away."""
        if self._returning is not None:
            self._returning.cancel()
            with suppress(asyncio.CancelledError):
                await self._returning
            self._returning = None
        await self._cut()

    async def _cut(self) -> None:
        if self._call is not None:
            self._call.cancel()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        self._call = None

    async def _come_back(self) -> None:
        while True:
            await self.ended.wait()
            if self.refused is not None and self.refused.code() in REFUSED_FOR_GOOD:
                return
            with suppress(TimeoutError):  # a real launcher backs off as well
                await asyncio.wait_for(asyncio.Event().wait(), COME_BACK_AFTER_S)
            with suppress(grpc.aio.AioRpcError, TimeoutError):
                await asyncio.wait_for(self.channel.channel_ready(), 1.0)
                await self.attach()

    async def _send(self, call: Any) -> None:
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while (message := await self._outgoing.get()) is not None:
                await call.write(message)
            await call.done_writing()

    async def _receive(self, call: Any) -> None:
        try:
            async for response in call:
                self._take(response.desired)
        except grpc.aio.AioRpcError as error:
            self.refused = error
        finally:
            self.streams_lost += 1
            self.ended.set()
            self._changed.set()

    async def _keep_beating(self) -> None:
        while not self.ended.is_set():
            self.beat()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.ended.wait(), self.habits.beats_every_s)

    # ------------------------------------------------------------------ what goes up

    def report(self, *, first: bool = False, beat: bool = False) -> None:
        """Send the whole observed state."""
        message = rendezvous_pb2.AttachRequest(observed=self.observed)
        if first:
            message.observed.hello.CopyFrom(self.hello())
        if beat:
            self._beat_sequence += 1
            message.observed.beat.CopyFrom(attach_pb2.Beat(sequence=self._beat_sequence, sent=self._now()))
        self._outgoing.put_nowait(message)

    def beat(self) -> None:
        """Renew the lease once."""
        self.report(beat=True)

    def send_raw(self, message: rendezvous_pb2.AttachRequest) -> None:
        """Send a message as it is, however wrong."""
        self._outgoing.put_nowait(message)

    def hello(self) -> attach_pb2.Hello:
        """The introduction, with the test's own fields on top."""
        given: dict[str, Any] = {
            "protocol_version": PROTOCOL_VERSION,
            "job": self.spec,
            "node_id": self.node_id,
            "incarnation": self.incarnation,
            "boot_id": f"boot-of-{self.node_id}",
            "host": f"host-of-{self.node_id}",
            "pid": 1000 + self.incarnation,
            "local_world_size": self.local_world_size,
            "address": "127.0.0.1",
        }
        return attach_pb2.Hello(**{**given, **self.hello_fields})

    def crash_rank(self, local_rank: int = 0, signal: int = 11) -> None:
        """Report that one worker of the running generation was ended by a signal."""
        run = self.run
        self.observed.exits.append(
            attach_pb2.ExitRecord(
                rank=run.base_rank + local_rank,
                local_rank=local_rank,
                pid=4000 + local_rank,
                signal=signal,
                at=self._now(),
            )
        )
        self.report()

    def finish(self) -> None:
        """Report that all workers of the generation exited 0."""
        self._enter(attach_pb2.NODE_PHASE_FINISHED, self.run.generation)

    def reach(self, *kinds: attach_pb2.MilestoneKind) -> None:
        """Report that every rank of this node reached the given milestones."""
        for kind in kinds:
            for local_rank in range(self.local_world_size):
                rank = self.run.base_rank + local_rank
                self.observed.milestones.append(attach_pb2.Milestone(rank=rank, kind=kind, at=self._now(), step=10))
        self.report()

    def confirm_teardown(self) -> None:
        """Report that nothing of the generation ordered down is alive here."""
        assert self.desired is not None and self.desired.WhichOneof("goal") == "down"
        self._forget_generation()
        self._enter(attach_pb2.NODE_PHASE_READY, self.desired.down.generation)

    def _enter(self, phase: attach_pb2.NodePhase, generation: int) -> None:
        self.observed.phase, self.observed.generation = phase, generation
        self.report()

    def _forget_generation(self) -> None:
        for name in ("exits", "faults", "milestones"):
            self.observed.ClearField(name)

    # ------------------------------------------------------------------ what comes down

    def _take(self, desired: attach_pb2.Desired) -> None:
        if desired.HasField("beat_reply"):
            self.beat_replies.append(desired.beat_reply)
        if desired.WhichOneof("goal") is not None:
            is_new = self.desired is None or desired.revision != self.desired.revision
            self.desired = desired
            self.observed.revision_seen = desired.revision
            if is_new:
                self.goals.append(desired)
                self._follow(desired)
        self._changed.set()

    def _follow(self, desired: attach_pb2.Desired) -> None:
        goal = desired.WhichOneof("goal")
        if goal == "run":
            running = (attach_pb2.NODE_PHASE_RUNNING, attach_pb2.NODE_PHASE_FINISHED)
            if not self.habits.starts or (
                self.observed.generation == desired.run.generation and self.observed.phase in running
            ):
                return
            self._forget_generation()
            self.observed.incident_id = desired.run.incident_id
            self._enter(attach_pb2.NODE_PHASE_STARTING, desired.run.generation)
            self._enter(attach_pb2.NODE_PHASE_RUNNING, desired.run.generation)
            if self.habits.reports_milestones:
                self.reach(*STEPS)
        elif goal == "down":
            if self.habits.tears_down:
                self._enter(attach_pb2.NODE_PHASE_TEARING_DOWN, desired.down.generation)
                self.confirm_teardown()
        elif goal == "exit" and self.habits.acknowledges_exit:
            self.observed.exit_acknowledged = True
            self.report()

    @property
    def run(self) -> attach_pb2.Run:
        """The newest RUN order."""
        return next(goal.run for goal in reversed(self.goals) if goal.WhichOneof("goal") == "run")

    def _now(self) -> Timestamp:
        stamp = Timestamp()
        stamp.FromNanoseconds(int(self.clock_s() * 1e9))
        return stamp


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration
