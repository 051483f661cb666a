"""Leaves as real processes between senders and the root: killed at random, they lose, double and invent nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random

import grpc.aio
import pytest

from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_libs.core.refusals import BadRequest, RpcProblem, Unready
from resurge_libs.rpc.errors import problem_of
from tests.fakes.host import HostProcess
from tests.fakes.log_sender import LogSender

RANKS = 4
LINES = 6_000
LIMIT_S = 60.0


def root_of(tmp_path, *more: str) -> HostProcess:
    words = ("--applog-prefix", str(tmp_path / "app.log"), "--sync-interval-s", "0.1", "--job-id", "job", *more)
    return HostProcess(tmp_path / "root", module="resurge_log_aggregator", more=words)


def leaf_of(root: HostProcess, tmp_path, *more: str, name: str = "leaf") -> HostProcess:
    words = ("--log-root", root.endpoint, "--job-id", "job", *more)
    return HostProcess(tmp_path / name, targets="log_leaf", more=words)


def lines_of(path, rank: int) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines() if line.startswith(b"%d: " % rank)]


def assert_all_is_there(path, senders) -> None:
    for sender in senders:
        assert lines_of(path, sender.rank) == sender.text.splitlines(), f"rank {sender.rank}"
    assert path.stat().st_size == sum(len(sender.text) for sender in senders)


async def refusal_of(endpoint: str, *requests: logs_pb2.PushRequest) -> RpcProblem:
    """As a sender is refused. Asks again where grpc lost the answer, which a write after a call's end overwrites."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            error = await error_of(endpoint, *requests)
            if "Internal error from Core" not in str(error.details()):
                return problem_of(error)


async def error_of(endpoint: str, *requests: logs_pb2.PushRequest) -> grpc.aio.AioRpcError:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        call = logs_pb2_grpc.LogAggregatorServiceStub(channel).Push()
        try:
            async with asyncio.timeout(LIMIT_S):
                with contextlib.suppress(asyncio.InvalidStateError):  # the end came before the last of them
                    for request in requests:
                        await call.write(request)
                while await call.read() is not grpc.aio.EOF:
                    pass
        except grpc.aio.AioRpcError as error:
            return error
    raise AssertionError("it was not refused")


def hello(**more) -> logs_pb2.PushHello:
    return logs_pb2.PushHello(**{"protocol_version": 1, "job_id": "job", "sender": "test", **more})


@pytest.mark.parametrize("seed", [1])
def test_root_and_leaves_killed_at_random_moments_lose_and_double_nothing(tmp_path, seed):
    chance = random.Random(seed)

    async def story(root: HostProcess, leaves: list[HostProcess]) -> list[LogSender]:
        ends = [leaves[rank % len(leaves)].endpoint for rank in range(RANKS)]
        senders = [LogSender(end, rank, RANKS, 4 * LINES) for rank, end in enumerate(ends)]
        for sender in senders:
            sender.pace_s = 0.006
        all_bytes = sum(len(sender.text) for sender in senders)
        sending = asyncio.gather(*(sender.run() for sender in senders))
        for number, victim in enumerate((leaves[0], root, leaves[1], root, leaves[0])):
            for sender in senders:
                sender.go_upto((number + 1.5) / 8)
            while sum(sender.durable for sender in senders) < (number + 0.2 + chance.random()) / 8 * all_bytes:
                await asyncio.wait([sending], timeout=0.01)
            assert not sending.done(), "nothing was under way any more"
            before = [sender.durable for sender in senders]
            await asyncio.to_thread(victim.kill)
            path = tmp_path / "app_cycle0.log"
            there = path.stat().st_size if path.exists() else 0
            assert there >= sum(before), "less is in the file than was acknowledged"
            await asyncio.to_thread(victim.start)
        for sender in senders:
            sender.go_upto(1)
        await asyncio.wait_for(sending, LIMIT_S)
        return senders

    with root_of(tmp_path) as root, leaf_of(root, tmp_path) as one, leaf_of(root, tmp_path, name="leaf2") as two:
        senders = asyncio.run(story(root, [one, two]))
        assert all(sender.streams > 2 for sender in senders), [sender.streams for sender in senders]
    assert_all_is_there(tmp_path / "app_cycle0.log", senders)


def test_a_sender_that_changes_leaves_goes_on_where_it_was(tmp_path):
    async def story(root: HostProcess, one: HostProcess, two: HostProcess) -> LogSender:
        sender = LogSender(one.endpoint, 0, 1, LINES, per_block=5)
        sender.go_upto(0.5)
        sending = asyncio.create_task(sender.run())
        while not sender.durable:
            await asyncio.wait([sending], timeout=0.01)
        sender.endpoint = two.endpoint
        await asyncio.to_thread(one.kill)
        sender.go_upto(1)
        await asyncio.wait_for(sending, LIMIT_S)
        assert sender.streams == 2
        return sender

    with root_of(tmp_path) as root, leaf_of(root, tmp_path) as one, leaf_of(root, tmp_path, name="leaf2") as two:
        sender = asyncio.run(story(root, one, two))
    assert_all_is_there(tmp_path / "app_cycle0.log", [sender])


def test_little_room_at_a_leaf_slows_senders_and_loses_nothing(tmp_path):
    more = ("--leaf-queue-mib", "1", "--leaf-queue-blocks", "64")
    with root_of(tmp_path, "--window-mib", "1") as root, leaf_of(root, tmp_path, *more) as leaf:
        senders = [LogSender(leaf.endpoint, rank, RANKS, 20_000, per_block=7) for rank in range(RANKS)]

        async def story() -> None:
            await asyncio.wait_for(asyncio.gather(*(sender.run() for sender in senders)), LIMIT_S)

        asyncio.run(story())
    assert_all_is_there(tmp_path / "app_cycle0.log", senders)


def test_one_senders_mistake_ends_its_own_stream_only(tmp_path):
    async def story(leaf: HostProcess) -> LogSender:
        sender = LogSender(leaf.endpoint, 0, 1, LINES, per_block=5)
        sending = asyncio.create_task(sender.run())
        of_launcher = logs_pb2.Source(kind=logs_pb2.LOG_KIND_LAUNCHER, node_id="n9", incarnation=1)
        opened = logs_pb2.OpenSource(number=1, source=of_launcher)
        refused = await refusal_of(leaf.endpoint, logs_pb2.PushRequest(hello=hello(), open=[opened]))
        assert isinstance(refused, BadRequest) and "--launcher-log" in str(refused), refused
        source = logs_pb2.Source(kind=logs_pb2.LOG_KIND_APPLICATION, node_id="n9", incarnation=1, rank=1, world_size=2)
        opened = logs_pb2.OpenSource(number=1, source=source)
        early = logs_pb2.Block(number=1, offset=0, length=2, lines=1, text=b"x\n")
        refused = await refusal_of(leaf.endpoint, logs_pb2.PushRequest(hello=hello(), open=[opened], blocks=[early]))
        assert isinstance(refused, BadRequest) and "not answered yet" in str(refused), refused
        refused = await refusal_of(leaf.endpoint, logs_pb2.PushRequest(hello=hello(carries_many=True)))
        assert isinstance(refused, BadRequest) and "carries_many" in str(refused), refused
        await asyncio.wait_for(sending, LIMIT_S)
        assert sender.streams == 1, "another sender's mistake ended this one's stream"
        return sender

    with root_of(tmp_path) as root, leaf_of(root, tmp_path) as leaf:
        sender = asyncio.run(story(leaf))
    assert_all_is_there(tmp_path / "app_cycle0.log", [sender])


def test_without_a_root_senders_are_told_so_and_readers_are_passed_on_when_it_is_there(tmp_path):
    async def story(root: HostProcess, leaf: HostProcess) -> None:
        sender = LogSender(leaf.endpoint, 0, 1, 100)
        await asyncio.wait_for(sender.run(), LIMIT_S)
        async with grpc.aio.insecure_channel(leaf.endpoint) as channel:
            stub = logs_pb2_grpc.LogAggregatorServiceStub(channel)
            told = await stub.GetLog(logs_pb2.GetLogRequest(kind=logs_pb2.LOG_KIND_APPLICATION))
            assert told.log.sealed and told.log.lines == 100
            request = logs_pb2.TailRequest(kind=logs_pb2.LOG_KIND_APPLICATION)
            text = b"".join([part.text async for part in stub.Tail(request)])
            assert text == sender.text
        await asyncio.to_thread(root.kill)
        await asyncio.to_thread(leaf.wait_event, "log_root_lost")
        refused = await refusal_of(leaf.endpoint, logs_pb2.PushRequest(hello=hello()))
        assert isinstance(refused, Unready) and "lines wait at the nodes" in str(refused), refused

    with root_of(tmp_path) as root, leaf_of(root, tmp_path) as leaf:
        asyncio.run(story(root, leaf))


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--job-id", "job"), "--log-root: is missing"), (("--log-root", "unix:/x/y.sock"), "--job-id: is missing")],
)
def test_a_leaf_that_cannot_serve_is_refused_at_its_start(tmp_path, words, said):
    leaf = HostProcess(tmp_path / "leaf", targets="log_leaf", more=words).launch()
    try:
        assert leaf.wait() == 2 and said in leaf.log()
    finally:
        leaf.kill()
