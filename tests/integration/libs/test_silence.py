"""How fast a lost peer is seen: a frozen server within the client's ping timeout, a killed client at once, a frozen
client not before its lease is over (so that an earlier close is always the kernel's word)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import grpc
import pytest

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.channel import open_channel
from resurge_libs.rpc.endpoint import parse_endpoint
from resurge_libs.rpc.errors import ReplyLost, problem_of
from resurge_libs.rpc.options import LEASES_SILENT
from resurge_libs.rpc.server import listen, make_server
from resurge_libs.testing import process_faults, wait_until_async
from tests.contract.libs.rendezvous_stand_in import StandIn

LIMITS = TimeLimits()
SHORT = TimeLimits(lease_ttl_s=1.0)
"""Of the server here: it pings who was silent for several leases."""
MESSAGE = rendezvous_pb2.AttachRequest(observed=attach_pb2.Observed(revision_seen=1))


@pytest.fixture
def start():
    processes = []

    def run(role: str, where: str):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.libs.stand_in_process", role, where],
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield run
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.slow
async def test_a_frozen_server_is_seen_within_the_ping_timeout(start):
    server, where = start("serve", "127.0.0.1:0")
    async with open_channel(parse_endpoint(where), LIMITS) as channel:
        stream = rendezvous_pb2_grpc.RendezvousServiceStub(channel).Attach()
        await stream.write(MESSAGE)
        await stream.read()
        process_faults.stop(server.pid)
        began = time.monotonic()
        with pytest.raises(grpc.RpcError) as lost:
            await stream.read()
        assert isinstance(problem_of(lost.value), ReplyLost)
        assert time.monotonic() - began < LIMITS.keepalive_s + LIMITS.client_ping_timeout_s + 2.0


@pytest.fixture
async def served(tmp_path):
    servicer, server = StandIn(), make_server(SHORT)
    rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(servicer, server)
    endpoint = listen(server, parse_endpoint("127.0.0.1:0"))
    await server.start()
    yield servicer, str(endpoint)
    await server.stop(0)


async def test_a_killed_clients_stream_ends_at_once(start, served):
    servicer, where = served
    client, _ = await asyncio.to_thread(start, "attach", where)
    process_faults.kill(client.pid)
    await wait_until_async(lambda: servicer.ended == 1, limit_s=2.0)


@pytest.mark.slow
async def test_a_frozen_clients_stream_outlives_its_lease(start, served):
    servicer, where = served
    client, _ = await asyncio.to_thread(start, "attach", where)
    process_faults.stop(client.pid)
    began = time.monotonic()
    limit_s = LEASES_SILENT * SHORT.lease_ttl_s + SHORT.server_ping_timeout_s + 10.0
    await wait_until_async(lambda: servicer.ended == 1, limit_s)
    assert time.monotonic() - began > SHORT.lease_ttl_s + SHORT.lease_margin_s
