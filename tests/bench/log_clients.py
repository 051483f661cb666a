"""Senders for a log server under test: many streams from one process, each with sources that print without end.

    python -m tests.bench.log_clients --endpoint HOST:PORT --streams 8 --first 0 --sources 1 --lines 100000 --batch 2600

Prints `ready` once every source is opened, waits for a line on stdin, sends, and prints one JSON object once every
line is durable: when it began, when it ended (Unix seconds), how many lines and bytes. With `--rate` each source prints
so many lines a second, and what it printed goes up when a node's sender would send it: by the same rules, in the same
code.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc.aio

from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_launcher.logs.gathering import Gathering

LINE_BYTES = 100
MESSAGE_BLOCKS = 4
STEADY_AFTER_S, SAMPLE_S = 1.0, 0.05
POLL_S = 0.02
"""As a node's sender looks."""
WINDOW_BYTES = 8 * 1024 * 1024
"""As a node's sender keeps under way."""


@dataclass
class Plan:
    """What each stream sends."""

    endpoint: str
    sources: int
    lines: int
    """Of each source, in all."""
    batch: int
    """Lines of one block."""
    rate: float
    """Lines a second of each source; 0: as fast as they are taken."""
    world_size: int


class Stream:
    """One node's stream."""

    def __init__(self, plan: Plan, node: int) -> None:
        self.plan, self.node = plan, node
        line = b"%5d: " % node
        self.line = line + b"x" * (LINE_BYTES - len(line) - 1) + b"\n"
        self.block = self.line * plan.batch
        self.size = plan.lines * LINE_BYTES
        self.durable = dict.fromkeys(range(1, plan.sources + 1), 0)
        self.opened: set[int] = set()
        self.is_open, self.heard = asyncio.Event(), asyncio.Event()
        self.gathering = Gathering()
        self.late_s = 0.0
        self.messages = 0

    async def run(self, channel: grpc.aio.Channel, start: asyncio.Event) -> None:
        """Until everything is durable."""
        call = logs_pb2_grpc.LogAggregatorServiceStub(channel).Push(self.requests(start))
        async for response in call:
            if response.HasField("gather"):
                self.gathering.told(response.gather.ToNanoseconds() / 1e9)
            for ack in response.acks:
                self.durable[ack.number] = ack.durable
                self.opened.add(ack.number)
                assert not ack.HasField("next") or ack.next == 0, "a block was turned back"
            if len(self.opened) == len(self.durable):
                self.is_open.set()
            self.heard.set()
            if min(self.durable.values()) >= self.size:
                break
        call.cancel()

    def hello(self) -> logs_pb2.PushRequest:
        """The first message, with every source."""
        told = {"kind": logs_pb2.LOG_KIND_APPLICATION, "node_id": f"n{self.node}", "generation": 1}
        first = self.node * self.plan.sources
        opened = [
            logs_pb2.OpenSource(
                number=number,
                source=logs_pb2.Source(rank=first + number - 1, world_size=self.plan.world_size, **told),
            )
            for number in self.durable
        ]
        hello = logs_pb2.PushHello(protocol_version=1, job_id="job", sender=f"n{self.node}")
        return logs_pb2.PushRequest(hello=hello, open=opened)

    async def requests(self, start: asyncio.Event) -> AsyncIterator[logs_pb2.PushRequest]:
        """Blocks of all sources in turn, no more than the window ahead."""
        yield self.hello()
        await start.wait()
        async for request in self.printed() if self.plan.rate else self.in_batches():
            self.messages += 1
            yield request
        await asyncio.Event().wait()  # until the last acknowledgement has ended the stream

    async def in_batches(self) -> AsyncIterator[logs_pb2.PushRequest]:
        """As fast as they are taken."""
        at, waiting = 0, logs_pb2.PushRequest()
        while at < self.plan.lines:
            lines = min(self.plan.batch, self.plan.lines - at)
            for number in self.durable:
                self.add(waiting, number, at, lines)
                if len(waiting.blocks) >= MESSAGE_BLOCKS:
                    await self.room(at)
                    yield waiting
                    waiting = logs_pb2.PushRequest()
            at += lines
        if waiting.blocks:
            yield waiting

    async def printed(self) -> AsyncIterator[logs_pb2.PushRequest]:
        """What sources print at their rate, when it is due."""
        plan, at = self.plan, 0
        began = time.monotonic()
        await asyncio.sleep(random.uniform(0, self.gathering.gather_s))  # nodes do not begin in step
        while at < plan.lines:
            now = time.monotonic()
            lines = min(int((now - began) * plan.rate), plan.lines) - at
            wait_s = self.gathering.wait_s(now, lines * LINE_BYTES * plan.sources)
            if not lines or (wait_s > 0 and at + lines < plan.lines):  # with its last line a source ends: that goes
                last_s = began + plan.lines / plan.rate - now
                await asyncio.sleep(max(POLL_S, min(wait_s, last_s)))
                continue
            await self.room(at)
            request = logs_pb2.PushRequest()
            for number in self.durable:
                self.add(request, number, at, lines)
            due = began + (at + 1) / plan.rate + self.gathering.gather_s  # its first line waited longest
            self.late_s = max(self.late_s, now - due)
            at += lines
            yield request
            self.gathering.sent(now)

    def add(self, request: logs_pb2.PushRequest, number: int, at: int, lines: int) -> None:
        """One block of one source."""
        text = self.line * lines if lines != self.plan.batch else self.block
        request.blocks.add(number=number, offset=at * LINE_BYTES, length=len(text), text=text, lines=lines)

    async def room(self, at: int) -> None:
        """Wait until no more than the window is under way."""
        while (at * LINE_BYTES * self.plan.sources) - sum(self.durable.values()) > WINDOW_BYTES:
            self.heard.clear()
            await self.heard.wait()


async def sampled(made: list[Stream], seconds: float) -> float:
    """Lines a second that became durable from the first second on, until sources have printed all; 0 for less time."""
    times, lines = [], []
    began = time.monotonic()
    while (at := time.monotonic() - began) < seconds:
        if at >= STEADY_AFTER_S:
            times.append(at)
            lines.append(sum(sum(one.durable.values()) for one in made) / LINE_BYTES)
        await asyncio.sleep(SAMPLE_S)
    return statistics.linear_regression(times, lines).slope if len(times) > 1 else 0.0


async def send(plan: Plan, first: int, streams: int) -> dict[str, float]:
    """All streams of this process."""
    channels = [
        grpc.aio.insecure_channel(plan.endpoint, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(streams)
    ]
    for channel in channels:
        await channel.channel_ready()
    start = asyncio.Event()
    made = [Stream(plan, first + index) for index in range(streams)]
    running = [asyncio.create_task(one.run(channel, start)) for one, channel in zip(made, channels, strict=True)]
    for one in made:
        await one.is_open.wait()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began = time.time()
    start.set()
    sampling = asyncio.create_task(sampled(made, plan.lines / plan.rate if plan.rate else 0.0))
    await asyncio.gather(*running)
    lines = plan.lines * plan.sources * streams
    ended = time.time()
    for channel in channels:
        await channel.close()
    told = {"began": began, "ended": ended, "lines": lines, "bytes": lines * LINE_BYTES}
    told["messages"] = sum(one.messages for one in made)
    told["steady_lines_per_s"] = await sampling
    return {**told, "late_s": max(one.late_s for one in made)}


def main() -> None:
    """As a program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--endpoint", required=True)
    for name, default in (("streams", 8), ("first", 0), ("sources", 1), ("lines", 100_000), ("batch", 2_600)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--world-size", type=int, default=1_024)
    parser.add_argument("--rate", type=float, default=0.0)
    told = parser.parse_args()
    plan = Plan(told.endpoint, told.sources, told.lines, told.batch, told.rate, told.world_size)
    print(json.dumps(asyncio.run(send(plan, told.first, told.streams))), flush=True)


if __name__ == "__main__":
    main()
