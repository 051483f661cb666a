"""Simulated launchers of the scale bench: each has a channel and a connection of its own and speaks the real protocol.

One process holds many. Commands come as lines on stdin, answers go as JSON lines to stdout; all times are
CLOCK_MONOTONIC, which is one clock for all processes of a machine. Nothing is judged here.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.duration_pb2 import Duration

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.options import channel_options
from tests.fakes.launcher import job_spec

BEAT_INTERVAL_S = 2.0
LEASE_TTL_S = 5.0
CROWD = 5_000
"""From here on the launchers are too many for the one core they share, and would lose their leases by it alone."""
CROWD_LEASE_TTL_S = 30.0
CROWD_BEAT_INTERVAL_S = 10.0
"""The pace of 10,000 direct launchers, also behind relays: the one core could not beat faster."""
AT_ONCE = 200
"""Connections that are opened side by side: what one machine can, not what the service can."""
BEAT_ROUND_S = 0.05
PATIENCE_MS = 60_000
STEPS = (
    attach_pb2.MILESTONE_KIND_WORKER_STARTED,
    attach_pb2.MILESTONE_KIND_PROCESS_GROUP_READY,
    attach_pb2.MILESTONE_KIND_CHECKPOINT_RESTORED,
    attach_pb2.MILESTONE_KIND_FIRST_STEP,
)


@dataclass
class Node:
    """One simulated launcher: obeys at once, has one worker that is never there."""

    name: str
    fleet: Fleet
    channel: grpc.aio.Channel
    state: attach_pb2.Observed = field(default_factory=attach_pb2.Observed)
    call: Any = None
    sequence: int = 0
    growth: float = 1.0
    """Of its lease over the job's own."""
    beat_at: float = 0.0
    error: str = ""
    rank: int = 0
    is_writing: bool = False
    has_news: bool = False
    beats_next: bool = False

    async def attend(self) -> None:
        """Join, then follow what comes down until the stream ends."""
        stub = rendezvous_pb2_grpc.RendezvousServiceStub(self.channel)
        self.call = stub.Attach()
        self.state.phase = attach_pb2.NODE_PHASE_READY
        self.state.store_offer.address, self.state.store_offer.port = "127.0.0.1", 29500
        self.beat_at = time.monotonic() + self.fleet.beat_interval_s
        self.beats_next = True
        first = self.message()
        first.observed.hello.CopyFrom(self.fleet.hello(self.name))
        try:
            self.is_writing = True
            await self.call.write(first)
            self.is_writing = False
            while (response := await self.call.read()) is not grpc.aio.EOF:
                self.obey(response.desired)
        except grpc.aio.AioRpcError as error:
            self.error = f"{error.code().name}: {error.details()}"
            self.fleet.errors.append(self.error)

    def obey(self, desired: attach_pb2.Desired) -> None:
        """Do what a good launcher without work would do, and say so in one message."""
        now = time.monotonic()
        if desired.HasField("beat_reply"):
            self.growth = desired.beat_reply.lease_ttl.ToNanoseconds() / 1e9 / self.fleet.lease_s or self.growth
            self.fleet.beats += 1
        goal = desired.WhichOneof("goal")
        if goal is None:
            return
        self.state.revision_seen = desired.revision
        if goal == "run":
            self.fleet.reached["run", desired.run.generation].append(now)
            self.rank = desired.run.base_rank
            self.started(desired.run.generation)
        elif goal == "down":
            self.fleet.reached["down", desired.down.generation].append(now)
            self.cleared(desired.down.generation)
        else:
            return
        self.tell()

    def started(self, generation: int) -> None:
        del self.state.milestones[:], self.state.exits[:]
        self.state.phase, self.state.generation = attach_pb2.NODE_PHASE_RUNNING, generation
        for kind in STEPS:
            self.state.milestones.add(rank=self.rank, kind=kind).at.GetCurrentTime()

    def cleared(self, generation: int) -> None:
        del self.state.milestones[:]
        self.state.phase, self.state.generation = attach_pb2.NODE_PHASE_READY, generation

    def broken(self) -> None:
        """The one worker is killed."""
        record = self.state.exits.add(rank=self.rank, pid=1, signal=9)
        record.at.GetCurrentTime()

    def tell(self, beats: bool = False) -> None:
        """Say the whole state, with a beat if it is due. One write at a time: news in between make one more."""
        self.has_news, self.beats_next = True, self.beats_next or beats
        if not self.is_writing:
            self.is_writing = True
            self.fleet.begin(self.write())

    async def write(self) -> None:
        try:
            while self.has_news and not self.error:
                self.has_news = False
                await self.call.write(self.message())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            self.error = self.error or repr(error)
        finally:
            self.is_writing = False

    def message(self) -> rendezvous_pb2.AttachRequest:
        request = rendezvous_pb2.AttachRequest(observed=self.state)
        if self.beats_next:
            self.beats_next = False
            self.sequence += 1
            request.observed.beat.sequence = self.sequence
            request.observed.beat.sent.GetCurrentTime()
        return request


class Fleet:
    """All launchers of this process."""

    def __init__(self, targets: list[str], first: int, count: int, nodes: int) -> None:
        limits = TimeLimits()
        is_crowd = nodes >= CROWD
        self.lease_s = CROWD_LEASE_TTL_S if is_crowd else LEASE_TTL_S
        self.beat_interval_s = CROWD_BEAT_INTERVAL_S if is_crowd else BEAT_INTERVAL_S
        # thousands of launchers share this processor: one that waits for its turn must not take the service for dead
        patient = {"grpc.keepalive_timeout_ms": PATIENCE_MS, "grpc.http2.ping_timeout_ms": PATIENCE_MS}
        options = list((dict(channel_options(limits, nodes)) | patient).items())
        self.spec = job_spec("scale", f"{nodes}:{nodes}", max_restarts=1_000, lease_ttl=_duration(self.lease_s))
        self.reached: dict[tuple[str, int], list[float]] = defaultdict(list)
        self.errors: list[str] = []
        self.beats = 0
        self.nodes = [
            Node(f"n{number}", self, grpc.aio.insecure_channel(targets[number % len(targets)], options=options))
            for number in range(first, first + count)
        ]
        self.tasks: list[asyncio.Task[None]] = []
        self.writes: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.writes.add(task)
        task.add_done_callback(self.writes.discard)

    def hello(self, name: str) -> attach_pb2.Hello:
        return attach_pb2.Hello(
            protocol_version=1,
            job=self.spec,
            node_id=name,
            incarnation=1,
            boot_id="boot",
            host=name,
            pid=1,
            local_world_size=1,
            address="127.0.0.1",
        )

    async def connect(self) -> None:
        """Every channel connected, a bounded number at a time."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(node: Node) -> None:
            async with gate:
                await node.channel.channel_ready()

        await asyncio.gather(*(one(node) for node in self.nodes))

    async def join(self) -> None:
        """All of them at once."""
        self.tasks = [asyncio.ensure_future(node.attend()) for node in self.nodes]
        self.tasks.append(asyncio.ensure_future(self.keep_beating()))

    async def keep_beating(self) -> None:
        """Each node's beat when it is due."""
        for index, node in enumerate(self.nodes):  # spread, as launchers that started at different times are
            node.beat_at += index / len(self.nodes) * self.beat_interval_s
        while True:
            now = time.monotonic()
            for node in self.nodes:
                if node.beat_at <= now and not node.error:
                    node.beat_at += max(BEAT_INTERVAL_S * node.growth, self.beat_interval_s)
                    node.tell(beats=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), BEAT_ROUND_S)

    async def close(self) -> None:
        under_way = [*self.tasks, *self.writes]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


def _duration(seconds: float) -> Duration:
    return Duration(seconds=int(seconds))


def say(**answer: Any) -> None:
    print(json.dumps(answer), flush=True)


async def commands() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def serve(fleet: Fleet) -> None:
    """Answer the driver until it says quit or is gone."""
    reader = await commands()
    while line := (await reader.readline()).decode().split():
        match line:
            case ["connect"]:
                await fleet.connect()
                say(connected=len(fleet.nodes))
            case ["join"]:
                began = time.monotonic()
                await fleet.join()
                say(began=began)
            case ["fault"]:
                at = time.monotonic()
                fleet.nodes[0].broken()
                fleet.nodes[0].tell()
                say(at=at)
            case ["reached", kind, generation]:
                times = fleet.reached[kind, int(generation)]
                say(count=len(times), last=max(times, default=0.0), errors=fleet.errors[:3], failed=len(fleet.errors))
            case ["beats"]:
                say(beats=fleet.beats)
            case _:
                break
    await fleet.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("nodes", type=int)
    given = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def run() -> None:
        await serve(Fleet(given.target.split(","), given.first, given.count, given.nodes))

    asyncio.run(run())


if __name__ == "__main__":
    main()
