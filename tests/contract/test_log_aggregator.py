"""The log aggregator's contract over the memory channel: blocks, acknowledgements, refusals, reading."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from resurge_api.logs.v1 import logs_pb2, logs_pb2_grpc
from resurge_libs.core.refusals import BadRequest, VersionMismatch, WrongJob
from resurge_libs.hosting.module import ModulePorts
from resurge_libs.rpc.errors import problem_of
from resurge_libs.rpc.interceptors import RefusalInterceptor
from resurge_libs.testing.memory_channel import MemoryChannel, MemoryServer
from resurge_log_aggregator import servicer
from resurge_log_aggregator.module import LogAggregatorModule
from resurge_log_aggregator.settings import LogSettings
from resurge_log_aggregator.writer import SyncMode

LIMIT_S = 10.0


def source(rank: int, cycle: int = 0, **more) -> logs_pb2.Source:
    told = {
        "kind": logs_pb2.LOG_KIND_APPLICATION, "node_id": f"n{rank}", "incarnation": 7,
        "generation": cycle + 1, "cycle": cycle, "rank": rank, "world_size": 2,
    }  # fmt: skip
    return logs_pb2.Source(**{**told, **more})


class Sender:
    """One Push stream, driven by hand."""

    def __init__(self, stub: logs_pb2_grpc.LogAggregatorServiceStub) -> None:
        self.queue: asyncio.Queue = asyncio.Queue()
        self.call = stub.Push(self._requests())
        self.next: dict[int, int] = {}
        self.durable: dict[int, int] = {}
        self.ended: set[int] = set()
        self.trouble = ""

    async def _requests(self) -> AsyncIterator[logs_pb2.PushRequest]:
        while (request := await self.queue.get()) is not None:
            yield request

    def hello(self, **more) -> None:
        told = {"protocol_version": 1, "job_id": "job", "sender": "test", **more}
        self.say(logs_pb2.PushRequest(hello=logs_pb2.PushHello(**told)))

    def say(self, request) -> None:
        self.queue.put_nowait(request)

    def open(self, number: int, of: logs_pb2.Source) -> None:
        self.say(logs_pb2.PushRequest(open=[logs_pb2.OpenSource(number=number, source=of)]))

    def block(self, number: int, offset: int, text: bytes, **more) -> None:
        told = {"length": len(text), "lines": text.count(b"\n"), **more}
        self.say(logs_pb2.PushRequest(blocks=[logs_pb2.Block(number=number, offset=offset, text=text, **told)]))

    async def hear(self, until) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not until():
                response = await self.call.read()
                self.trouble = response.trouble.sentence if response.HasField("trouble") else self.trouble
                for ack in response.acks:
                    self.durable[ack.number] = ack.durable
                    if ack.ended:
                        self.ended.add(ack.number)
                    if ack.HasField("next"):
                        self.next[ack.number] = ack.next


class Bench:
    def __init__(self, folder, **settings) -> None:
        told = {"applog_prefix": str(folder / "app.log"), "sync": SyncMode.ACK, "stop_limit_s": 0.0, **settings}
        self.module = LogAggregatorModule(LogSettings(**told), ModulePorts(job_id="job"))
        self.server = MemoryServer(interceptors=[RefusalInterceptor()])

    async def __aenter__(self) -> logs_pb2_grpc.LogAggregatorServiceStub:
        self.module.add_to(self.server)
        await self.module.start()
        return logs_pb2_grpc.LogAggregatorServiceStub(MemoryChannel(self.server))

    async def __aexit__(self, *_: object) -> None:
        await self.module.stop()


def sender_of(stub) -> Sender:
    sender = Sender(stub)
    sender.hello()
    return sender


async def test_blocks_of_two_ranks_are_acknowledged_once_durable_and_seal_the_file(tmp_path):
    async with Bench(tmp_path) as stub:
        sender = sender_of(stub)
        for rank in (0, 1):
            sender.open(rank, source(rank))
        await sender.hear(lambda: sender.next == {0: 0, 1: 0})
        sender.block(0, 0, b"0: hello\n")
        sender.block(1, 0, b"1: hi\n", ends=True)
        sender.block(0, 9, b"0: bye\n", ends=True)
        await sender.hear(lambda: sender.ended == {0, 1})
        assert sender.durable == {0: 16, 1: 6}
        told = await stub.GetLog(logs_pb2.GetLogRequest(kind=logs_pb2.LOG_KIND_APPLICATION), timeout=5)
        assert (told.log.sealed, told.log.lines, told.log.bytes) == (True, 3, 22)
        assert [state.ended for state in told.sources] == [True, True]
    assert (tmp_path / "app_cycle0.log").read_bytes() == b"0: hello\n1: hi\n0: bye\n"


async def test_a_new_stream_goes_on_where_the_source_is_and_repeats_do_not_double(tmp_path):
    async with Bench(tmp_path) as stub:
        first = sender_of(stub)
        first.open(5, source(0))
        first.block(5, 0, b"0: a\n")
        await first.hear(lambda: first.durable.get(5) == 5)
        second = sender_of(stub)
        second.open(9, source(0))
        await second.hear(lambda: second.next == {9: 5})
        second.block(9, 0, b"0: a\n")
        second.block(9, 5, b"0: b\n")
        await second.hear(lambda: second.durable.get(9) == 10)
        second.block(9, 99, b"0: far\n")
        await second.hear(lambda: second.next[9] == 10)
    assert (tmp_path / "app_cycle0.log").read_bytes() == b"0: a\n0: b\n"


async def test_a_restarted_service_knows_what_it_has(tmp_path):
    async with Bench(tmp_path) as stub:
        sender = sender_of(stub)
        sender.open(0, source(0))
        sender.block(0, 0, b"0: a\n", gap=logs_pb2.Gap(bytes=2, lines=1))
        await sender.hear(lambda: sender.durable.get(0) == 5)
    async with Bench(tmp_path) as stub:
        listed = await stub.ListLogs(logs_pb2.ListLogsRequest(), timeout=5)
        assert [(log.cycle, log.lines, log.gap_bytes, log.missing_ranks[:]) for log in listed.logs] == [
            (0, 1, 2, [0, 1])
        ]
        sender = sender_of(stub)
        sender.open(0, source(0))
        await sender.hear(lambda: sender.next == {0: 5} and sender.durable == {0: 5})


async def test_each_cycle_and_attempt_has_its_own_file(tmp_path):
    async with Bench(tmp_path) as stub:
        sender = sender_of(stub)
        sender.open(0, source(0))
        sender.open(1, source(0, cycle=1))
        sender.open(2, source(0, cycle=0, attempt=2))
        for number in range(3):
            sender.block(number, 0, b"%d\n" % number)
        await sender.hear(lambda: len(sender.durable) == 3 and set(sender.durable.values()) == {2})
    names = {path.name: path.read_bytes() for path in tmp_path.glob("app*")}
    assert names == {"app_cycle0.log": b"0\n", "app_cycle1.log": b"1\n", "app_attempt2_cycle0.log": b"2\n"}


@pytest.mark.parametrize(
    ("make", "problem", "said"),
    [
        (lambda s: s.hello(protocol_version=9), VersionMismatch, "9"),
        (lambda s: s.hello(job_id="other"), WrongJob, "other"),
        (lambda s: s.hello(sender=""), BadRequest, "sender"),
        (lambda s: s.open(0, source(0)), BadRequest, "hello"),
        (lambda s: (s.hello(), s.block(3, 0, b"x\n")), BadRequest, "never opened"),
        (lambda s: (s.hello(), s.open(0, source(2))), BadRequest, "world_size"),
        (lambda s: (s.hello(), s.open(0, source(0, node_id=""))), BadRequest, "node_id"),
        (lambda s: (s.hello(), s.open(0, source(0, kind=0))), BadRequest, "kind"),
        (lambda s: (s.hello(), s.open(0, source(0)), s.open(0, source(1))), BadRequest, "in use"),
        (lambda s: (s.hello(), s.open(0, source(0)), s.block(0, 0, b"torn")), BadRequest, "whole lines"),
        (
            lambda s: (s.hello(), s.open(0, source(0)), s.block(0, 0, b"x\n", gap=logs_pb2.Gap(bytes=9))),
            BadRequest, "gap",
        ),
        (
            lambda s: (s.hello(), s.open(0, source(0, kind=logs_pb2.LOG_KIND_LAUNCHER))),
            BadRequest, "launcher log",
        ),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_refused_by_name(tmp_path, make, problem, said):
    async with Bench(tmp_path) as stub:
        sender = Sender(stub)
        make(sender)
        with pytest.raises(grpc.RpcError) as caught:
            await sender.hear(lambda: False)
        refused = problem_of(caught.value)
        assert isinstance(refused, problem) and said in str(refused)


async def tail_of(stub, **more) -> list[tuple[int, bytes]]:
    request = logs_pb2.TailRequest(kind=logs_pb2.LOG_KIND_APPLICATION, **more)
    return [(part.source.rank, part.text) async for part in stub.Tail(request, timeout=LIMIT_S) if part.text]


async def filled(stub) -> Sender:
    sender = sender_of(stub)
    for rank in (0, 1):
        sender.open(rank, source(rank))
        sender.block(rank, 0, b"%d: a\n%d: b\n" % (rank, rank))
    sender.block(0, 10, b"0: c\n")
    await sender.hear(lambda: sender.durable == {0: 15, 1: 10})
    return sender


async def test_a_rank_s_lines_are_read_alone_and_the_last_ones_of_all(tmp_path):
    async with Bench(tmp_path) as stub:
        await filled(stub)
        assert await tail_of(stub) == [(0, b"0: a\n0: b\n"), (1, b"1: a\n1: b\n"), (0, b"0: c\n")]
        assert await tail_of(stub, ranks=[1]) == [(1, b"1: a\n1: b\n")]
        assert await tail_of(stub, nodes=["n0"], last=2) == [(0, b"0: b\n"), (0, b"0: c\n")]
        assert await tail_of(stub, last=2) == [(1, b"1: b\n"), (0, b"0: c\n")]


async def test_a_follower_gets_what_comes_until_the_file_is_sealed(tmp_path):
    async with Bench(tmp_path) as stub:
        sender = await filled(stub)
        following = asyncio.create_task(tail_of(stub, cycle=0, follow=True, ranks=[0]))
        sender.block(0, 15, b"0: d\n", ends=True)
        sender.block(1, 10, b"", ends=True)
        assert b"".join(text for _, text in await following) == b"0: a\n0: b\n0: c\n0: d\n"


async def test_a_follower_of_all_goes_on_with_the_next_cycle(tmp_path):
    async with Bench(tmp_path) as stub:
        sender = await filled(stub)
        sender.block(0, 15, b"", ends=True)
        sender.block(1, 10, b"", ends=True)
        heard: list[bytes] = []
        call = stub.Tail(logs_pb2.TailRequest(kind=logs_pb2.LOG_KIND_APPLICATION, follow=True), timeout=LIMIT_S)
        sender.open(5, source(0, cycle=1))
        sender.block(5, 0, b"next\n")
        async for part in call:
            heard.append(part.text)
            if part.text == b"next\n":
                break
        assert b"".join(heard).endswith(b"0: c\nnext\n")


async def test_a_follower_of_all_leaves_a_cycle_whose_end_never_comes_for_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(servicer, "LATER_AFTER_S", 0.3)
    async with Bench(tmp_path) as stub:
        sender = await filled(stub)  # no rank of it ends: its node is gone
        heard: list[bytes] = []
        call = stub.Tail(logs_pb2.TailRequest(kind=logs_pb2.LOG_KIND_APPLICATION, follow=True), timeout=LIMIT_S)
        async for part in call:
            heard.append(part.text)
            if part.text.endswith(b"0: c\n"):
                sender.open(5, source(0, cycle=1))
                sender.block(5, 0, b"next\n")
                sender.block(0, 15, b"0: late\n")
            if part.text == b"next\n":
                break
        assert b"".join(heard).endswith(b"0: c\n0: late\nnext\n"), "what comes late is not passed by"


async def followed(stub, until: bytes, once_there=None, **more) -> tuple[bytes, logs_pb2.LogPlace]:
    """What a follower hears up to these lines, and how far it is with them; `once_there`: when it has its place."""
    text, request = b"", logs_pb2.TailRequest(kind=logs_pb2.LOG_KIND_APPLICATION, follow=True, **more)
    async for part in stub.Tail(request, timeout=LIMIT_S):
        if once_there and part.HasField("place"):
            once_there = once_there()
        text += part.text
        if text.endswith(until):
            return text, part.place
    raise AssertionError(f"it ended before {until!r}")


async def test_a_follower_goes_on_where_it_was_when_the_service_is_started_again(tmp_path):
    async with Bench(tmp_path) as stub:
        await filled(stub)
        text, place = await followed(stub, b"0: c\n", last=2)
        assert (text, place.position, place.path) == (b"1: b\n0: c\n", 25, str(tmp_path / "app_cycle0.log"))
        _, of_rank = await followed(stub, b"1: b\n", ranks=[1])
    async with Bench(tmp_path) as stub:
        sender = sender_of(stub)
        for rank, at in ((0, 15), (1, 10)):
            sender.open(rank, source(rank))
            sender.block(rank, at, b"%d: new\n" % rank)
        await sender.hear(lambda: len(sender.durable) == 2 and min(sender.durable.values()) > 15)
        text, later = await followed(stub, b"1: new\n", after=place, last=1)
        assert text == b"0: new\n1: new\n" and later.blocks == place.blocks + 2
        assert (await followed(stub, b"1: new\n", after=of_rank, ranks=[1]))[0] == b"1: new\n"
        place.blocks += 99  # a loss of power took what it had read
        text, _ = await followed(stub, b"again\n", lambda: sender.block(1, 17, b"1: again\n"), after=place)
        assert text == b"1: again\n", "what was there before it came is passed over"
        for rank, at in ((0, 22), (1, 26)):
            sender.block(rank, at, b"", ends=True)
        request = logs_pb2.TailRequest(kind=logs_pb2.LOG_KIND_APPLICATION, follow=True, cycle=0, after=later)
        heard = [part async for part in stub.Tail(request, timeout=LIMIT_S)]
        assert heard[-1].place.sealed and b"".join(part.text for part in heard) == b"1: again\n"


async def test_a_follower_goes_on_in_a_file_that_was_made_anew(tmp_path):
    async with Bench(tmp_path) as stub:
        sender = await filled(stub)
        heard, request = b"", logs_pb2.TailRequest(kind=logs_pb2.LOG_KIND_APPLICATION, follow=True)
        async for part in stub.Tail(request, timeout=LIMIT_S):
            heard += part.text
            if heard.endswith(b"0: c\n"):
                (tmp_path / "app_cycle0.log").rename(tmp_path / "moved")
                sender.block(0, 15, b"0: d\n")
            if heard.endswith(b"0: d\n"):
                sender.block(0, 20, b"0: e\n")
            if heard.endswith(b"0: e\n"):
                break
    assert heard == b"0: a\n0: b\n1: a\n1: b\n0: c\n0: d\n0: e\n"


async def test_an_unknown_cycle_is_named_with_those_that_are_there(tmp_path):
    async with Bench(tmp_path) as stub:
        await filled(stub)
        with pytest.raises(grpc.RpcError) as caught:
            await tail_of(stub, cycle=9)
        assert "attempt 1 cycle 0" in str(problem_of(caught.value))


async def test_a_disk_that_cannot_be_written_is_named_and_gone_on_with(tmp_path):
    (tmp_path / "in-the-way").write_text("a file where a folder is needed")
    async with Bench(tmp_path, applog_prefix=str(tmp_path / "in-the-way" / "app.log")) as stub:
        sender = sender_of(stub)
        sender.open(0, source(0))
        sender.block(0, 0, b"0: kept\n")
        await sender.hear(lambda: "in-the-way" in sender.trouble)
        assert sender.durable == {}
        (tmp_path / "in-the-way").unlink()
        await sender.hear(lambda: sender.durable.get(0) == 8)
        assert sender.trouble == ""
    assert (tmp_path / "in-the-way" / "app_cycle0.log").read_bytes() == b"0: kept\n"


async def test_an_end_is_durable_at_once_however_rarely_the_disk_is_asked(tmp_path):
    async with Bench(tmp_path, sync=SyncMode.INTERVAL, sync_interval_s=3_600.0) as stub:
        sender = sender_of(stub)
        sender.open(0, source(0))
        sender.open(1, source(1))
        sender.block(0, 0, b"0: first\n")
        await sender.hear(lambda: sender.next == {0: 0, 1: 0})
        assert sender.durable.get(0, 0) == 0
        sender.block(1, 0, b"1: last words\n", ends=True)
        await sender.hear(lambda: sender.ended == {1} and sender.durable[0] == 9)
