"""A real server: socket rights, taken endpoints, token, health, reflection, oversized and malformed messages."""

from __future__ import annotations

import asyncio
import os
import socket
import stat

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from resurge_api.rendezvous.v1 import rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.auth import TokenMissing, token_metadata
from resurge_libs.rpc.channel import open_channel, open_sync_channel
from resurge_libs.rpc.endpoint import EndpointProblem, EndpointTaken, parse_endpoint
from resurge_libs.rpc.errors import BadRequest, ReplyLost, Unauthenticated
from resurge_libs.rpc.options import MAX_MESSAGE_BYTES
from resurge_libs.rpc.retry import RetryRules, call, call_idempotent, call_sync
from resurge_libs.rpc.server import add_health_and_reflection, listen, make_server
from tests.contract.libs.rendezvous_stand_in import StandIn

LIMITS = TimeLimits()
SERVICE = "resurge_api.rendezvous.v1.RendezvousService"
PUT = rendezvous_pb2.PutRequest(request_id="r-1", key="k")


async def started(where: str, token: str | None = None):
    server = make_server(LIMITS, token)
    rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(StandIn(), server)
    await add_health_and_reflection(server, [SERVICE])
    try:
        endpoint = listen(server, parse_endpoint(where), token)
    except ValueError:
        await server.stop(0)
        raise
    await server.start()
    return server, endpoint


async def test_a_unix_socket_is_its_owners_alone_and_is_not_taken_over(tmp_path):
    server, endpoint = await started(f"unix:{tmp_path}/r.sock")
    assert stat.S_IMODE(os.stat(endpoint.path).st_mode) == 0o600
    with pytest.raises(EndpointTaken, match="another process does"):
        await started(f"unix:{tmp_path}/r.sock")
    channel = open_channel(endpoint, LIMITS)
    await call(rendezvous_pb2_grpc.RendezvousServiceStub(channel).Put, PUT, 5.0)
    await channel.close()
    await server.stop(0)


async def test_a_socket_left_by_a_dead_process_is_replaced(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/r.sock")
    server, _ = await started(f"unix:{tmp_path}/r.sock")
    await server.stop(0)


async def test_a_socket_that_cannot_be_bound_says_why(tmp_path):
    with pytest.raises(EndpointProblem, match="does not exist"):
        await started(f"unix:{tmp_path}/none/r.sock")


async def test_a_taken_port_is_named(tmp_path):
    server, endpoint = await started("127.0.0.1:0")
    assert endpoint.port > 0
    with pytest.raises(EndpointTaken, match=f"127.0.0.1:{endpoint.port}"):
        await started(f"127.0.0.1:{endpoint.port}")
    await server.stop(0)


async def test_an_endpoint_for_others_needs_a_token_on_both_sides():
    with pytest.raises(TokenMissing):
        await started("0.0.0.0:0")
    with pytest.raises(TokenMissing):
        open_channel(parse_endpoint("192.0.2.7:1"), LIMITS)
    server, endpoint = await started("127.0.0.1:0", token="secret")
    channel = open_channel(endpoint, LIMITS, "secret")
    stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
    with pytest.raises(Unauthenticated):
        await call(stub.Put, PUT, 5.0)
    await call(stub.Put, PUT, 5.0, token_metadata("secret"))
    health = health_pb2_grpc.HealthStub(channel)
    answer = await call(health.Check, health_pb2.HealthCheckRequest(service=SERVICE), 5.0)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    await channel.close()
    await server.stop(0)


async def test_reflection_names_the_service(tmp_path):
    server, endpoint = await started(f"unix:{tmp_path}/r.sock")
    channel = open_channel(endpoint, LIMITS)
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)

    async def ask():
        yield reflection_pb2.ServerReflectionRequest(list_services="")

    async for answer in stub.ServerReflectionInfo(ask()):
        names = {service.name for service in answer.list_services_response.service}
        assert {SERVICE, "grpc.health.v1.Health"} <= names
    await channel.close()
    await server.stop(0)


async def test_an_oversized_message_is_refused_and_the_service_unharmed(tmp_path):
    server, endpoint = await started(f"unix:{tmp_path}/r.sock")
    rude = grpc.aio.insecure_channel(endpoint.target, options=[("grpc.max_send_message_length", -1)])
    stub = rendezvous_pb2_grpc.RendezvousServiceStub(rude)
    big = rendezvous_pb2.PutRequest(request_id="r", value=b"x" * (MAX_MESSAGE_BYTES + 1))
    with pytest.raises(BadRequest, match="larger than max"):
        await call(stub.Put, big, 10.0)
    await call(stub.Put, PUT, 5.0)
    await rude.close()
    await server.stop(0)


async def test_a_malformed_message_is_refused_and_the_service_unharmed(tmp_path):
    server, endpoint = await started(f"unix:{tmp_path}/r.sock")
    channel = open_channel(endpoint, LIMITS)
    raw = channel.unary_unary(f"/{SERVICE}/Put")
    with pytest.raises(BadRequest, match="malformed"):
        await call(raw, b"\xff\xff\xff", 5.0)
    await call(rendezvous_pb2_grpc.RendezvousServiceStub(channel).Put, PUT, 5.0)
    await channel.close()
    await server.stop(0)


async def test_an_unreachable_endpoint_is_unsure_and_bounded(tmp_path):
    channel = open_channel(parse_endpoint(f"unix:{tmp_path}/nobody.sock"), LIMITS)
    stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
    with pytest.raises(ReplyLost):
        await call_idempotent(stub.Put, PUT, RetryRules(limit_s=0.3, max_tries=3, longest_wait_s=0.05))
    await channel.close()


async def test_a_blocking_client_gets_the_same_errors(tmp_path):
    server, endpoint = await started(f"unix:{tmp_path}/r.sock")

    def blocking() -> None:
        with open_sync_channel(endpoint, LIMITS) as channel:
            stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
            call_sync(stub.Put, PUT, 5.0)
            with pytest.raises(ReplyLost):
                call_sync(stub.Wait, rendezvous_pb2.WaitRequest(), 0.05)

    await asyncio.to_thread(blocking)
    await server.stop(0)


@pytest.mark.users_row(32)
@pytest.mark.users_row(69)
async def test_a_burst_of_calls_is_answered_whole(tmp_path):
    server, endpoint = await started(f"unix:{tmp_path}/r.sock")
    channel = open_channel(endpoint, LIMITS)
    stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
    await asyncio.gather(*(call(stub.Put, PUT, 30.0) for _ in range(2000)))
    await channel.close()
    await server.stop(0)
