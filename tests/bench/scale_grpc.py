"""The same simulated launchers on gRPC's own client, a channel and a connection each: what `scale_fleet` is checked
against. A thousand of them cost more than the service that is measured.

    python -m tests.bench.scale_grpc TARGET[,TARGET...] FIRST COUNT NODES LEASE
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from typing import Any

import grpc
import grpc.aio

from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc
from resurge_libs.rpc.options import channel_options
from tests.bench.scale_clients import Given, answered, given_fleet, say
from tests.bench.scale_words import Heard, Job, Words

CONNECTING_MOST = 200


class Node:
    """One simulated launcher."""

    def __init__(self, words: Words, fleet: GrpcFleet, channel: grpc.aio.Channel) -> None:
        self.words, self.fleet, self.channel = words, fleet, channel
        self.call: Any = None
        self.attached_at = 0.0
        self.is_writing = self.has_news = self.beats_next = False

    async def attend(self) -> None:
        """Join, then follow what comes down until the stream ends."""
        self.call = rendezvous_pb2_grpc.RendezvousServiceStub(self.channel).Attach()
        try:
            self.is_writing = True
            await self.call.write(self.words.first())
            self.is_writing = False
            while (response := await self.call.read()) is not grpc.aio.EOF:
                self.attached_at = self.attached_at or time.monotonic()
                if self.words.obey(response.desired, time.monotonic()):
                    self.tell()
        except grpc.aio.AioRpcError as error:
            self.fleet.heard.errors.append(f"{error.code().name}: {error.details()}")

    def tell(self, beats: bool = False) -> None:
        """Say the whole state. One write at a time: news in between make one more."""
        self.has_news, self.beats_next = True, self.beats_next or beats
        if not self.is_writing and self.call is not None:
            self.is_writing = True
            self.fleet.begin(self.write())

    async def write(self) -> None:
        try:
            while self.has_news:
                self.has_news, beats, self.beats_next = False, self.beats_next, False
                await self.call.write(self.words.message(beats))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reading side has said why
        finally:
            self.is_writing = False

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(self.words.beat_interval_s)
            self.tell(beats=True)


class GrpcFleet:
    """All launchers of this process."""

    def __init__(self, given: Given) -> None:
        self.job, self.heard, self.times_lost = Job(given.nodes, given.lease_s), Heard(), 0
        options = channel_options(self.job.limits, given.nodes)
        self.nodes = [
            Node(
                Words(f"n{number}", self.job, self.heard),
                self,
                grpc.aio.insecure_channel(given.targets[number % len(given.targets)], options=options),
            )
            for number in range(given.first, given.first + given.count)
        ]
        self.tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def connect(self) -> None:
        """Every channel connected, a bounded number at a time."""
        gate = asyncio.Semaphore(CONNECTING_MOST)

        async def one(node: Node) -> None:
            async with gate:
                await node.channel.channel_ready()

        await asyncio.gather(*(one(node) for node in self.nodes))

    def join(self) -> None:
        """All of them at once."""
        for node in self.nodes:
            self.begin(node.attend())
            self.begin(node.beat())

    def fault(self) -> None:
        """One worker of the first launcher is killed."""
        self.nodes[0].words.broken()
        self.nodes[0].tell()

    def back(self, since: float) -> list[float]:
        """As the other fleet's; these launchers do not come back by themselves."""
        return [node.attached_at for node in self.nodes if node.attached_at > since]

    async def close(self) -> None:
        under_way = tuple(self.tasks)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def serve(given: Given) -> None:
    """Answer the driver until it says quit or is gone."""
    fleet, reader = GrpcFleet(given), asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().split():
        if line == ["connect"]:
            await fleet.connect()
            say(connected=len(fleet.nodes))
        elif not answered(fleet, line):
            break
    await fleet.close()


if __name__ == "__main__":
    asyncio.run(serve(given_fleet()))
