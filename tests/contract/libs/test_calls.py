"""Typed refusals, deadlines, retries, streams and the token, through generated stubs and servicers.

Each test runs twice: over the memory channel and over a real server on a Unix socket, which must behave alike.
"""

from __future__ import annotations

import asyncio

import grpc
import pytest

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core.ids import Attempt, FencingToken, Generation, Incarnation, JobId, NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.engine.ports import JournalFailed
from resurge_libs.rpc import errors
from resurge_libs.rpc.auth import TokenInterceptor, token_metadata
from resurge_libs.rpc.channel import open_channel
from resurge_libs.rpc.endpoint import parse_endpoint
from resurge_libs.rpc.errors import BadRequest, ReplyLost, Unauthenticated
from resurge_libs.rpc.interceptors import RefusalInterceptor
from resurge_libs.rpc.retry import RetryRules, call, call_idempotent
from resurge_libs.rpc.server import listen, make_server
from resurge_libs.testing import wait_until_async
from resurge_libs.testing.memory_channel import MemoryChannel, MemoryServer
from tests.contract.libs.rendezvous_stand_in import StandIn

LIMITS = TimeLimits()
SERVICE = "/resurge_api.rendezvous.v1.RendezvousService"
TOKEN = "secret"
PUT = rendezvous_pb2.PutRequest(request_id="r-1", key="k")
FENCE = FencingToken(JobId("j"), Attempt(2), Generation(7))
BECAUSE = Because(Reason.EXCLUDED, "three faults in a row")

PROBLEMS = [
    errors.StaleGeneration(FENCE, FencingToken(JobId("j"), Attempt(2), Generation(8))),
    errors.AlreadyAttached(NodeId("n1"), Incarnation(3), "host-a pid 7"),
    errors.Superseded(NodeId("n1"), Incarnation(3), Incarnation(4)),
    errors.NodeExcluded(NodeId("n1"), BECAUSE),
    errors.NodeExcluded(NodeId("n1"), BECAUSE, Wall(1_700_000_000.5)),
    errors.BudgetExhausted(3, 3),
    errors.VersionMismatch(2, 1),
    errors.WrongJob(JobId("a"), JobId("b")),
    errors.WrongJob(JobId("a"), JobId("a"), "min_nodes", "2", "4"),
    errors.Unready(Because(Reason.JOURNAL_FAILED, "the disk is full")),
    errors.Overloaded(0.25),
    errors.BadRequest.of("key", "must not be empty"),
    errors.Unauthenticated(),
    errors.NotYourNode("n1 is not n2"),
    errors.InternalFault("a bug"),
]


class Wire:
    """One servicer with a client stub, over one of the two transports."""

    def __init__(self, servicer: StandIn, channel) -> None:
        self.servicer, self.channel = servicer, channel
        self.stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)


@pytest.fixture(params=["memory", "unix socket"])
async def wire(request, tmp_path):
    servicer = StandIn()
    if request.param == "memory":
        memory = MemoryServer([RefusalInterceptor()])
        rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(servicer, memory)
        yield Wire(servicer, MemoryChannel(memory))
        return
    server = make_server(LIMITS)
    rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(servicer, server)
    endpoint = listen(server, parse_endpoint(f"unix:{tmp_path}/r.sock"))
    await server.start()
    channel = open_channel(endpoint, LIMITS)
    yield Wire(servicer, channel)
    await channel.close()
    await server.stop(0)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
async def test_a_refusal_arrives_as_it_was_raised(wire, problem):
    wire.servicer.problem = problem
    with pytest.raises(type(problem)) as refused:
        await call(wire.stub.Put, PUT, 5.0)
    if type(problem) is not errors.Overloaded:
        assert str(refused.value) == str(problem)
    assert refused.value.__dict__ == problem.__dict__
    assert refused.value.definite


async def test_a_failed_journal_is_unready(wire):
    wire.servicer.problem = JournalFailed("the disk is full")
    with pytest.raises(errors.Unready, match="the disk is full"):
        await call(wire.stub.Put, PUT, 5.0)


async def test_a_servicers_own_fault_is_internal_and_the_next_call_works(wire):
    wire.servicer.problem = KeyError("a bug")
    with pytest.raises(errors.InternalFault, match="a bug"):
        await call(wire.stub.Put, PUT, 5.0)
    wire.servicer.problem = None
    await call(wire.stub.Put, PUT, 5.0)


async def test_a_call_that_the_service_lacks_is_of_another_release(wire):
    with pytest.raises(errors.Unimplemented):
        await call(wire.stub.GetJob, rendezvous_pb2.GetJobRequest(), 5.0)


async def test_the_callers_deadline_reaches_the_servicer_and_ends_it(wire):
    await call(wire.stub.Put, PUT, 5.0)
    assert 4.0 < wire.servicer.left_s < 5.5
    with pytest.raises(ReplyLost) as lost:
        await call(wire.stub.Wait, rendezvous_pb2.WaitRequest(), 0.05)
    assert lost.value.timed_out and not lost.value.definite
    await wait_until_async(lambda: wire.servicer.ended == 1)


async def test_a_stream_of_answers_ends_with_its_refusal(wire):
    watch = rendezvous_pb2.WatchJobRequest(job_id="j")
    assert [m.job.cycle async for m in wire.stub.WatchJob(watch)] == [0, 1, 2]
    wire.servicer.problem = errors.Overloaded(1.0)
    seen = []
    with pytest.raises(grpc.RpcError) as ended:
        async for message in wire.stub.WatchJob(watch):
            seen.append(message.job.cycle)
    assert seen == [0, 1, 2]
    assert isinstance(errors.problem_of(ended.value), errors.Overloaded)


async def test_a_stream_both_ways_by_reading_and_writing(wire):
    attach = wire.stub.Attach()
    for revision in (1, 5):
        await attach.write(rendezvous_pb2.AttachRequest(observed=attach_pb2.Observed(revision_seen=revision)))
        assert (await attach.read()).desired.revision == revision + 1
    await attach.done_writing()
    assert await attach.read() is grpc.aio.EOF
    assert await attach.code() is grpc.StatusCode.OK
    assert wire.servicer.ended == 1


async def test_a_stream_both_ways_by_iterating(wire):
    async def observed():
        for revision in (1, 2, 99):
            yield rendezvous_pb2.AttachRequest(observed=attach_pb2.Observed(revision_seen=revision))

    assert [m.desired.revision async for m in wire.stub.Attach(observed())] == [2, 3]


async def test_malformed_messages_are_refused_in_calls_and_streams(wire):
    put = wire.channel.unary_unary(f"{SERVICE}/Put", request_serializer=bytes, response_deserializer=bytes)
    with pytest.raises(BadRequest, match="malformed"):
        await call(put, b"\xff\xff", 5.0)
    attach = wire.channel.stream_stream(f"{SERVICE}/Attach", request_serializer=bytes, response_deserializer=bytes)()
    await attach.write(b"\xff\xff")
    with pytest.raises(grpc.RpcError) as refused:
        await attach.read()
    assert isinstance(errors.problem_of(refused.value), BadRequest)
    await call(wire.stub.Put, PUT, 5.0)


async def test_a_cancelled_stream_ends_the_servicer(wire):
    attach = wire.stub.Attach()
    await attach.write(rendezvous_pb2.AttachRequest())
    await attach.read()
    attach.cancel()
    await wait_until_async(lambda: wire.servicer.ended == 1)
    with pytest.raises(asyncio.CancelledError):
        await attach.read()


async def test_a_call_without_its_request_id_is_refused_before_it_is_sent(wire):
    with pytest.raises(BadRequest, match="request_id"):
        await call_idempotent(wire.stub.Put, rendezvous_pb2.PutRequest(key="k"))
    assert wire.servicer.puts == []


async def test_a_refusal_is_not_tried_again(wire):
    wire.servicer.problem = errors.StaleGeneration(FENCE, FENCE)
    with pytest.raises(errors.StaleGeneration):
        await call_idempotent(wire.stub.Put, PUT)
    assert len(wire.servicer.puts) == 1


@pytest.fixture
def memory():
    server = MemoryServer([TokenInterceptor(TOKEN), RefusalInterceptor()])
    servicer = StandIn()
    rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(servicer, server)
    channel = MemoryChannel(server)
    return Wire(servicer, channel)


FAST = RetryRules(limit_s=5.0, first_wait_s=0.001, longest_wait_s=0.002, max_tries=4)


async def test_a_lost_reply_is_asked_for_again_under_the_same_id(memory):
    memory.channel.lose_replies = 2
    await call_idempotent(memory.stub.Put, PUT, FAST, token_metadata(TOKEN))
    assert memory.servicer.puts == ["r-1", "r-1", "r-1"]


async def test_tries_are_bounded_and_end_with_the_last_error(memory):
    memory.channel.unreachable = True
    with pytest.raises(ReplyLost, match="unreachable"):
        await call_idempotent(memory.stub.Put, PUT, FAST, token_metadata(TOKEN))
    assert len(memory.channel.calls) == 4


async def test_all_tries_share_one_deadline(memory):
    memory.channel.hung = True
    rules = RetryRules(limit_s=0.1, try_limit_s=0.04, first_wait_s=0.001, longest_wait_s=0.002, max_tries=1000)
    with pytest.raises(ReplyLost):
        await call_idempotent(memory.stub.Put, PUT, rules, token_metadata(TOKEN))
    assert 2 <= len(memory.channel.calls) <= 5


@pytest.mark.parametrize("presented", [None, "wrong"])
async def test_a_missing_or_wrong_token_is_refused_for_calls_and_streams(memory, presented):
    with pytest.raises(Unauthenticated):
        await call(memory.stub.Put, PUT, 5.0, token_metadata(presented))
    watch = memory.stub.WatchJob(rendezvous_pb2.WatchJobRequest(), metadata=token_metadata(presented))
    with pytest.raises(grpc.RpcError) as refused:
        async for _ in watch:
            pass
    assert isinstance(errors.problem_of(refused.value), Unauthenticated)
    assert memory.servicer.puts == []
    await call(memory.stub.Put, PUT, 5.0, token_metadata(TOKEN))


async def test_a_broken_connection_ends_open_streams(memory):
    attach = memory.stub.Attach(metadata=token_metadata(TOKEN))
    await attach.write(rendezvous_pb2.AttachRequest())
    await attach.read()
    memory.channel.break_streams()
    with pytest.raises(grpc.RpcError):
        await attach.read()
    await wait_until_async(lambda: memory.servicer.ended == 1)
