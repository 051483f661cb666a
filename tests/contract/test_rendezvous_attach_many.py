"""A relay's stream: many links on one, each refused or ended alone; its end is no word about its launchers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from resurge_api.rendezvous.v1 import attach_pb2, relay_pb2
from resurge_libs.core.refusals import BadRequest, VersionMismatch
from resurge_libs.rpc.errors import problem_of
from resurge_libs.testing.wait import wait_until_async
from tests.contract.rendezvous_bench import bench
from tests.fakes.launcher import FakeLauncher, job_spec


class Relay:
    """A hand-driven relay."""

    def __init__(self, rdzv, spec):
        self.rdzv, self.spec = rdzv, spec
        self.outgoing: asyncio.Queue = asyncio.Queue()
        self.goals: dict[int, attach_pb2.Desired] = {}
        self.revisions: dict[int, int] = {}
        self.replies: dict[int, attach_pb2.BeatReply] = {}
        self.ends: dict[int, relay_pb2.LinkEnd] = {}
        self.messages: list[relay_pb2.AttachManyResponse] = []
        self.error: grpc.aio.AioRpcError | None = None
        self.tasks: list[asyncio.Task] = []

    def open(self, version=1):
        self.call = self.rdzv.stub.AttachMany()
        self.say(protocol_version=version, relay="r1")
        self.tasks = [asyncio.create_task(self.send()), asyncio.create_task(self.read())]

    async def send(self):
        while (message := await self.outgoing.get()) is not None:
            await self.call.write(message)

    async def read(self):
        try:
            async for message in self.call:
                self.messages.append(message)
                for shared in message.desired:
                    for order in shared.to:
                        self.goals[order.link], self.revisions[order.link] = shared.desired, order.revision
                self.replies.update({answer.link: answer.reply for answer in message.beat_replies})
                self.ends.update({end.link: end for end in message.ends})
        except grpc.aio.AioRpcError as error:
            self.error = error

    def say(self, **fields):
        self.outgoing.put_nowait(relay_pb2.AttachManyRequest(**fields))

    def observed(self, link, node, phase=attach_pb2.NODE_PHASE_READY, hello=False, **fields):
        said = attach_pb2.Observed(phase=phase, revision_seen=self.revisions.get(link, 0), **fields)
        said.store_offer.address, said.store_offer.port = "127.0.0.1", 29500
        if hello:
            said.hello.CopyFrom(FakeLauncher(self.rdzv.channel, self.spec, node).hello())
        return relay_pb2.LinkObserved(link=link, observed=said)

    def join(self, *nodes):
        self.say(observed=[self.observed(link, node, hello=True) for link, node in enumerate(nodes, 1)])

    async def until(self, condition):
        await wait_until_async(condition, 10, "the relay's condition")

    async def close(self):
        self.call.cancel()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@asynccontextmanager
async def relayed(nodes="2:2"):
    async with bench() as rdzv:
        relay = Relay(rdzv, job_spec(nodes=nodes))
        relay.open()
        try:
            yield rdzv, relay
        finally:
            await relay.close()


async def test_a_goal_for_many_comes_once_and_beats_are_answered_on_their_links():
    async with relayed() as (_, relay):
        relay.join("n0", "n1")
        await relay.until(lambda: {link for link, goal in relay.goals.items() if goal.HasField("run")} == {1, 2})
        crash = attach_pb2.ExitRecord(rank=0, pid=1, signal=9)
        crash.at.GetCurrentTime()
        running = attach_pb2.NODE_PHASE_RUNNING
        relay.say(observed=[relay.observed(2, "n1", running, generation=1)])
        relay.say(observed=[relay.observed(1, "n0", running, generation=1, exits=[crash])])
        await relay.until(lambda: all(relay.goals[link].HasField("down") for link in (1, 2)))
        shared = next(one for message in relay.messages for one in message.desired if one.desired.HasField("down"))
        assert {order.link for order in shared.to} == {1, 2}, "one order, put together once"
        beats = [relay_pb2.LinkBeat(link=link, beat=attach_pb2.Beat(sequence=7)) for link in (1, 2)]
        for beat in beats:
            beat.beat.sent.GetCurrentTime()
        relay.say(beats=beats)
        await relay.until(lambda: set(relay.replies) == {1, 2})
        assert {reply.sequence for reply in relay.replies.values()} == {7}


async def test_a_launcher_that_is_refused_loses_its_link_alone():
    async with relayed() as (_, relay):
        relay.join("n0", "n1")
        await relay.until(lambda: len(relay.goals) == 2)
        other = relay.observed(3, "n2", hello=True)
        other.observed.hello.job.job_id = "another"
        relay.say(observed=[other])
        relay.say(observed=[relay.observed(2, "n1", phase=attach_pb2.NODE_PHASE_UNSPECIFIED)])
        await relay.until(lambda: set(relay.ends) == {2, 3})
        assert relay.ends[3].code == grpc.StatusCode.FAILED_PRECONDITION.value[0]
        assert relay.ends[2].code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
        assert relay.ends[2].details[0].type_url.endswith("google.rpc.BadRequest")
        beat = attach_pb2.Beat(sequence=1)
        beat.sent.GetCurrentTime()
        relay.say(beats=[relay_pb2.LinkBeat(link=1, beat=beat)])
        await relay.until(lambda: 1 in relay.replies)
        assert relay.error is None


async def test_the_word_of_a_launchers_kernel_is_passed_on():
    async with relayed() as (_, relay):
        relay.join("n0", "n1")
        await relay.until(lambda: {link for link, goal in relay.goals.items() if goal.HasField("run")} == {1, 2})
        relay.say(gone=[relay_pb2.LinkGone(link=1, by_peer=True)])
        await relay.until(lambda: relay.goals[2].HasField("down"))
        assert relay.goals[2].down.because.code == "STREAM_LOST"


async def test_the_end_of_a_relay_leaves_its_launchers_silent_and_nobody_is_lost():
    async with relayed() as (rdzv, relay):
        relay.join("n0", "n1")
        await relay.until(lambda: len(relay.goals) == 2)
        await relay.close()
        async with FakeLauncher(rdzv.channel, relay.spec, "n0") as launcher:
            await launcher.until_goal("run", generation=1)
            kinds = {record.kind for entry in rdzv.journal.entries for record in entry.facts}
            assert "NodeAdmitted" in kinds and not kinds & {"IncidentOpened", "NodeLost"}


@pytest.mark.parametrize(("version", "kind"), [(2, VersionMismatch), (0, VersionMismatch)])
async def test_a_relay_of_another_release_is_refused(version, kind):
    async with bench() as rdzv:
        relay = Relay(rdzv, job_spec())
        relay.open(version)
        await relay.until(lambda: relay.error is not None)
        assert isinstance(problem_of(relay.error), kind)
        await relay.close()


async def test_a_stream_that_says_nothing_is_refused():
    async with bench() as rdzv:
        call = rdzv.stub.AttachMany()
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert isinstance(problem_of(caught.value), BadRequest)
