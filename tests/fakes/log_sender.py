"""A sender of numbered lines over real gRPC: keeps what is not durable, begins anew after every break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc.aio

from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc

WINDOW_BYTES = 1 << 20
AGAIN_S = 0.05


class LogSender:
    """The output of one rank in one cycle: `lines` lines in blocks of `per_block`."""

    def __init__(self, endpoint: str, rank: int, world_size: int, lines: int, per_block: int = 50) -> None:
        self.endpoint, self.rank, self.job = endpoint, rank, "job"
        self.source = logs_pb2.Source(
            kind=logs_pb2.LOG_KIND_APPLICATION, node_id=f"n{rank}", incarnation=1,
            generation=1, cycle=0, rank=rank, world_size=world_size,
        )  # fmt: skip
        self.text = b"".join(b"%d: line %d\n" % (rank, number) for number in range(lines))
        self.cuts = self._cuts(per_block)
        self.durable = 0
        self.has_ended = False
        self.streams = 0
        self.pace_s = 0.0
        """Rest after each block."""
        self._upto = len(self.text)
        self._may_go_on = asyncio.Event()
        self.keeps_end = False
        """Say that it has ended only when all before is durable: an end is made durable at once."""

    def _cuts(self, per_block: int) -> list[int]:
        cuts, at = [0], 0
        for number, line in enumerate(self.text.splitlines(keepends=True), 1):
            at += len(line)
            if number % per_block == 0:
                cuts.append(at)
        return cuts if cuts[-1] == len(self.text) else [*cuts, len(self.text)]

    def go_upto(self, share: float) -> None:
        """Send so much of the text for now: whatever happens until the next call, something is left to send."""
        self._upto = round(share * len(self.text))
        self._may_go_on.set()

    async def run(self) -> None:
        """Send until everything, the end too, is durable."""
        while not self.has_ended:
            self.streams += 1
            async with grpc.aio.insecure_channel(self.endpoint) as channel:
                with contextlib.suppress(grpc.RpcError):
                    await self._stream(logs_pb2_grpc.LogAggregatorServiceStub(channel))
            if not self.has_ended:
                await asyncio.sleep(AGAIN_S)

    async def _stream(self, stub: logs_pb2_grpc.LogAggregatorServiceStub) -> None:
        go_on: asyncio.Queue[int] = asyncio.Queue()
        moved = asyncio.Event()

        async def requests() -> AsyncIterator[logs_pb2.PushRequest]:
            hello = logs_pb2.PushHello(protocol_version=1, job_id=self.job, sender=self.source.node_id)
            opened = logs_pb2.OpenSource(number=1, source=self.source)
            yield logs_pb2.PushRequest(hello=hello, open=[opened])
            at = await go_on.get()
            while True:
                at = await self._allowed(at, go_on)
                if at == len(self.text):
                    while self.keeps_end and self.durable < at:
                        moved.clear()
                        await moved.wait()
                    yield self._block(at, at, ends=True)
                    at = await go_on.get()  # only a turned back block comes here
                    continue
                while at - self.durable > WINDOW_BYTES:
                    moved.clear()
                    await moved.wait()
                end = next(cut for cut in self.cuts if cut > at)
                yield self._block(at, end, ends=False)
                at = end
                if self.pace_s:
                    await asyncio.sleep(self.pace_s)

        async for response in stub.Push(requests()):
            for ack in response.acks:
                self.durable = max(self.durable, ack.durable)
                moved.set()
                if ack.HasField("next"):
                    go_on.put_nowait(ack.next)
                    self._may_go_on.set()
                if ack.ended:
                    self.has_ended = True
                    return

    async def _allowed(self, at: int, go_on: asyncio.Queue[int]) -> int:
        """From where to go on, once that may be sent."""
        while True:
            while not go_on.empty():
                at = go_on.get_nowait()
            if not at >= self._upto < len(self.text):
                return at
            self._may_go_on.clear()
            await self._may_go_on.wait()

    def _block(self, start: int, end: int, ends: bool) -> logs_pb2.PushRequest:
        text = self.text[start:end]
        block = logs_pb2.Block(
            number=1, offset=start, length=end - start, text=text, lines=text.count(b"\n"), ends=ends
        )  # fmt: skip
        return logs_pb2.PushRequest(blocks=[block])
