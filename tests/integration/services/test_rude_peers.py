"""Peers that send garbage, too much, another version or no secret: refused, and nobody else notices."""

import socket

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc
from resurge_libs.core.refusals import BadRequest, VersionMismatch
from resurge_libs.rpc.auth import TOKEN_VARIABLE
from resurge_libs.rpc.context import call_metadata
from resurge_libs.rpc.errors import problem_of
from tests.fakes.host import HostProcess
from tests.fakes.launcher import FakeLauncher, job_spec

pytestmark = pytest.mark.integration

SERVICE = "/resurge_api.rendezvous.v1.RendezvousService"
GARBAGE = b"\xff\xfe\x00\x12 this is no message \x07" * 20


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with HostProcess(tmp_path_factory.mktemp("rude") / "state", listen="127.0.0.1:0") as running:
        yield running


@pytest.fixture
async def channel(host):
    async with host.channel() as opened:
        yield opened


async def still_serves(channel):
    answer = await rendezvous_pb2_grpc.RendezvousServiceStub(channel).GetJob(pb.GetJobRequest(), timeout=5)
    return answer.HasField("job")


@pytest.mark.parametrize("method", ["Put", "GetJob", "ExcludeNode"])
async def test_bytes_that_are_no_message_are_refused_by_unary_calls(channel, method):
    call = channel.unary_unary(f"{SERVICE}/{method}", lambda data: data, lambda data: data)
    with pytest.raises(grpc.RpcError) as refused:
        await call(GARBAGE, timeout=5)
    assert isinstance(problem_of(refused.value), BadRequest)
    assert await still_serves(channel)


async def test_bytes_that_are_no_message_end_their_own_stream(channel):
    for first in (GARBAGE, None):
        call = channel.stream_stream(f"{SERVICE}/Attach", lambda data: data, lambda data: data)()
        if first is None:
            node = FakeLauncher(channel, job_spec("rude"), "n0")
            node.observed.phase = 1
            hello = pb.AttachRequest(observed=node.observed)
            hello.observed.hello.CopyFrom(node.hello())
            await call.write(hello.SerializeToString())
            await call.read()
        await call.write(GARBAGE)
        with pytest.raises(grpc.RpcError) as refused:
            while await call.read() is not grpc.aio.EOF:
                pass
            raise problem_of(grpc.RpcError())
        assert refused.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)
    assert await still_serves(channel)


async def test_an_oversized_message_is_refused(channel):
    stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
    with pytest.raises(grpc.RpcError) as refused:
        await stub.Put(pb.PutRequest(request_id="r", key="k", value=b"x" * (5 * 1024 * 1024)), timeout=10)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await still_serves(channel)


async def test_bytes_that_are_no_http2_are_dropped(host, channel):
    address, _, port = host.endpoint.rpartition(":")
    with socket.create_connection((address, int(port)), timeout=5) as peer:
        peer.sendall(GARBAGE * 100)
        peer.settimeout(10)
        while peer.recv(65536):
            pass
    assert await still_serves(channel)


async def test_another_version_and_an_unknown_call_are_named(channel):
    async with FakeLauncher(channel, job_spec("rude"), "n7", hello_fields={"protocol_version": 99}) as old:
        assert isinstance(problem_of(await old.until_refused()), VersionMismatch)
    call = channel.unary_unary(f"{SERVICE}/Teleport", lambda data: data, lambda data: data)
    with pytest.raises(grpc.RpcError) as refused:
        await call(b"", timeout=5)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_health_and_reflection_name_every_service(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for name in ("", "resurge_api.rendezvous.v1.RendezvousService", "resurge_api.policy.v1.RestartPolicyService"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    listed = {service.name for service in (await call.read()).list_services_response.service}
    assert "resurge_api.rendezvous.v1.RendezvousService" in listed
    call.cancel()


async def test_without_the_jobs_secret_only_health_is_answered(tmp_path):
    with HostProcess(tmp_path / "state", listen="127.0.0.1:0", env={TOKEN_VARIABLE: "s3cret"}) as host:
        async with host.channel() as channel:
            stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
            for metadata in ((), call_metadata("wrong")):
                with pytest.raises(grpc.RpcError) as refused:
                    await stub.GetJob(pb.GetJobRequest(), metadata=metadata, timeout=5)
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
                async with FakeLauncher(channel, job_spec(), "n0", metadata=metadata) as stranger:
                    assert (await stranger.until_refused()).code() is grpc.StatusCode.UNAUTHENTICATED
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
            right = call_metadata("s3cret")
            pair = [FakeLauncher(channel, job_spec(), node, metadata=right) for node in ("n0", "n1")]
            for launcher in pair:
                await launcher.attach()
            await pair[0].until_goal("run")
            await pair[1].until_goal("run")
            pair[1].crash_rank()
            await pair[0].until_goal("run", generation=2)
            for launcher in pair:
                await launcher.vanish()
            assert host.events("verdict_latched")[0]["source"] == "policy", "the host presents the secret to itself"
        assert "s3cret" not in host.log()
