"""A stream with many nodes' sources: what is too much is refused by itself, and nothing is read without room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from resurge_api.logs.v1 import logs_pb2
from resurge_libs.core.refusals import BadRequest, Overloaded
from resurge_log_aggregator import push, wire
from resurge_log_aggregator.core.model import SourceState

LIMIT_S = 20


class Taker:
    """Opens every source at once, while there is room."""

    job, is_leaf = "job", False

    def __init__(self) -> None:
        self.opened: list[int] = []
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.is_waited_for = asyncio.Event()

    def listen(self, listener) -> None: ...

    def forget(self, listener) -> None: ...

    async def open_source(self, key, world_size, listener) -> None:
        self.opened.append(key.rank)
        listener.ack(key, SourceState(key, world_size), go_on_from=0)

    def is_pending(self, key) -> bool:
        return False

    async def room(self) -> None:
        self.is_waited_for.set()
        await self.has_room.wait()


def message(*ranks: int, **hello) -> logs_pb2.PushRequest:
    source = {"kind": logs_pb2.LOG_KIND_APPLICATION, "node_id": "n0", "world_size": 100}
    opened = [logs_pb2.OpenSource(number=r + 1, source=logs_pb2.Source(rank=r, **source)) for r in ranks]
    told = logs_pb2.PushHello(protocol_version=1, job_id="job", sender="leaf", **hello) if hello else None
    return logs_pb2.PushRequest(hello=told, open=opened)


async def acks_of(taker: Taker, *messages: logs_pb2.PushRequest, want: int) -> dict[int, logs_pb2.SourceAck]:
    acks: dict[int, logs_pb2.SourceAck] = {}

    async def requests() -> AsyncIterator[logs_pb2.PushRequest]:
        for one in messages:
            yield one
        await asyncio.Event().wait()

    async with asyncio.timeout(LIMIT_S):
        async for answer in push.PushStream(taker, 1 << 20).answers(requests()):
            acks |= {ack.number: ack for ack in answer.acks}
            if len(acks) >= want:
                return acks
    raise AssertionError("the stream has ended")


async def test_sources_beyond_what_one_stream_carries_are_refused_by_themselves(monkeypatch):
    monkeypatch.setattr(push, "SOURCES_MAX", 3)
    taker = Taker()
    acks = await acks_of(taker, message(0, 1, carries_many=True), message(2, 3, 4), want=5)
    assert taker.opened == [0, 1, 2]
    assert [number for number in sorted(acks) if acks[number].HasField("refused")] == [4, 5]
    assert isinstance(wire.refusal_of(acks[4].refused), Overloaded)


async def test_a_source_that_cannot_be_is_refused_by_itself_where_many_nodes_share_the_stream():
    taker, wrong = Taker(), message(2)
    wrong.open[0].source.kind = 99  # of a later release
    acks = await acks_of(taker, message(0, carries_many=True), wrong, message(1), want=3)
    assert taker.opened == [0, 1] and isinstance(wire.refusal_of(acks[3].refused), BadRequest)
    with pytest.raises(BadRequest, match="LOG_KIND_APPLICATION"):
        await acks_of(Taker(), message(0, carries_many=False), wrong, want=3)


async def test_one_nodes_own_stream_is_refused_as_a_whole(monkeypatch):
    monkeypatch.setattr(push, "SOURCES_MAX", 1)
    with pytest.raises(BadRequest, match="no more than 1 sources"):
        await acks_of(Taker(), message(0, 1, carries_many=False), want=3)


async def test_no_source_is_opened_without_room():
    taker = Taker()
    taker.has_room.clear()
    asking = asyncio.create_task(acks_of(taker, message(0, 1, carries_many=True), want=2))
    async with asyncio.timeout(LIMIT_S):
        await taker.is_waited_for.wait()
        assert taker.opened == []
        taker.has_room.set()
        assert sorted(await asking) == [1, 2] and taker.opened == [0, 1]


async def test_a_sender_is_told_its_pace_with_the_first_answer_and_a_slower_one_without_another_reason():
    taker, told = Taker(), []

    async def requests() -> AsyncIterator[logs_pb2.PushRequest]:
        yield message(carries_many=False)
        await asyncio.Event().wait()

    stream = push.PushStream(taker, 1 << 20)
    taker.listen = lambda listener: listener.paced(0.05, at_once=True)
    async with asyncio.timeout(LIMIT_S):
        async for answer in stream.answers(requests()):
            if not answer.HasField("gather"):
                continue
            told.append(answer.gather.ToMilliseconds())
            if len(told) == 2:
                break
            stream.paced(0.5, at_once=True)
    assert told == [50, 500]
