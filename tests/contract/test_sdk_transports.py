"""One contract, two ways: what a worker asks for through its launcher, and by gRPC where there is no launcher."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from resurge import WorkloadAction, WorkloadControlRequest, worker_session
from resurge.environment import WorkerEnvironment
from resurge.page import LauncherCells
from resurge.worker_session import Session
from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc
from resurge_launcher.local_socket import LocalSocket
from resurge_launcher.stream import Where
from resurge_launcher.wire import Times
from resurge_launcher.workload import ControlCourier
from resurge_libs.core.ids import Attempt
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.endpoint import parse_endpoint
from tests.fakes.host import HostProcess
from tests.fakes.launcher import FakeLauncher, job_spec

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
BUSY_S = 60.0


@asynccontextmanager
async def by_launcher(endpoint, token, folder):
    """A session with a page and a socket, and the part of a launcher that carries what it asks for."""
    where = Where(parse_endpoint(endpoint), TimeLimits())
    times = Times(time.time_ns() - time.monotonic_ns())
    courier = ControlCourier(where, times, token.job_id, "n0", lambda: Attempt(token.attempt))
    listening = LocalSocket(folder / "s", lambda generation: None, courier.carry)
    LauncherCells.create(folder / "page", generation=token.generation)
    await listening.start()
    try:
        told = WorkerEnvironment(
            page=str(folder / "page"), socket=str(folder / "s"), job_id=token.job_id, generation=token.generation
        )
        yield Session(told)
    finally:
        await courier.stop()
        await listening.stop()


@asynccontextmanager
async def by_grpc(endpoint, token, folder):
    """A session without a launcher that knows where rendezvous is."""
    yield Session(WorkerEnvironment(endpoint=endpoint, job_id=token.job_id, generation=token.generation, node_id="n0"))


WAYS = {"link": by_launcher, "grpc": by_grpc}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="rsg") as path:  # paths of sockets are short
        yield Path(path)


@asynccontextmanager
async def running_job(folder):
    """A job of two nodes that runs: its endpoint, a stub, and the token that holds."""
    with HostProcess(folder / "state") as host:
        async with host.channel() as channel:
            pair = [FakeLauncher(channel, job_spec(), node) for node in ("n0", "n1")]
            for launcher in pair:
                await launcher.attach()
            for launcher in pair:
                await launcher.until_goal("run")
            stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
            yield host.endpoint, stub, (await stub.GetJob(pb.GetJobRequest())).job.token
            for launcher in pair:
                await launcher.vanish()


async def test_a_wish_to_stop_ends_the_job_with_the_workers_reason(way, folder):
    async with running_job(folder) as (endpoint, stub, token), way(endpoint, token, folder) as own:
        answer = await asyncio.to_thread(own.stop_restarting, "the loss is not a number", BUSY_S)
        assert answer.delivered and answer.carried_out and "the loss is not a number" in answer.sentence
        assert (await stub.GetVerdict(pb.GetVerdictRequest())).decision.cause == "workload_shutdown"


async def test_an_exclusion_that_leaves_too_few_nodes_changes_nothing_and_says_so(way, folder):
    async with running_job(folder) as (endpoint, stub, token), way(endpoint, token, folder) as own:
        answer = await asyncio.to_thread(own.exclude_this_node, "a device is slow", BUSY_S)
        assert answer.delivered and not answer.carried_out and answer.sentence
        assert not (await stub.GetVerdict(pb.GetVerdictRequest())).HasField("decision")


async def test_a_worker_of_another_generation_is_refused(way, folder):
    async with running_job(folder) as (endpoint, stub, token):
        stale = type(token)(job_id=token.job_id, attempt=token.attempt, generation=token.generation + 5)
        async with way(endpoint, stale, folder) as own:
            answer = await asyncio.to_thread(own.stop_restarting, "too old", BUSY_S)
        assert answer.delivered and not answer.carried_out and "generation" in answer.sentence
        assert not (await stub.GetVerdict(pb.GetVerdictRequest())).HasField("decision")


async def test_nobody_there_is_answered_in_time_and_nothing_raises(way, folder):
    token = pb.Job().token
    token.job_id, token.generation = "job", 1
    async with way(f"unix:{folder}/nobody", token, folder) as own:
        began = time.monotonic()
        answer = await asyncio.to_thread(own.stop_restarting, "nan", 0.5)
        assert not answer.delivered and not answer.carried_out and answer.sentence
        assert time.monotonic() - began < 10


async def test_going_on_asks_nobody_and_a_forked_child_speaks_for_nobody(way, folder, monkeypatch):
    token = pb.Job().token
    token.job_id, token.generation = "job", 1
    async with way(f"unix:{folder}/nobody", token, folder) as own:
        monkeypatch.setattr(worker_session, "_current", own)
        request = WorkloadControlRequest(WorkloadAction.Continue)
        assert own.send_workload_control_request(request).delivered
        child = os.fork()
        if child == 0:
            os._exit(
                0 if own.armed is False and own.stop_restarting("nan", 30).sentence.startswith("no launcher") else 1
            )
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
