"""A relay as a real process between launchers and the root: same contract, and its death harms nobody."""

from __future__ import annotations

from contextlib import asynccontextmanager

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc
from tests.fakes.host import HostProcess
from tests.fakes.launcher import FakeLauncher, Habits, job_spec

NODES = ("n0", "n1", "n2", "n3")
LIMIT_S = 40.0
"""Two processes start, on a machine that may be busy."""


@pytest.fixture
def root(tmp_path):
    with HostProcess(tmp_path / "root", targets="rendezvous") as host:
        yield host


def relay_of(root, tmp_path, name="relay"):
    return HostProcess(tmp_path / name, targets="relay", more=("--root", root.endpoint))


@asynccontextmanager
async def attached(host, nodes=NODES, spec=None, **habits):
    """Scripted launchers at this host, each with a channel of its own."""
    lease_ttl = Duration(seconds=30)  # a new relay must be there sooner, however busy the machine is
    spec = spec or job_spec("job", f"{len(nodes)}:{len(nodes)}", lease_ttl=lease_ttl)
    channels = [host.channel() for _ in nodes]
    launchers = [
        FakeLauncher(channel, spec, node, habits=Habits(comes_back=True, **habits))
        for channel, node in zip(channels, nodes, strict=True)
    ]
    try:
        for launcher in launchers:
            await launcher.attach()
        yield launchers
    finally:
        for launcher in launchers:
            await launcher.vanish()
        for channel in channels:
            await channel.close()


async def test_launchers_behind_a_relay_run_recover_and_finish_as_any(root, tmp_path):
    with relay_of(root, tmp_path) as relay:
        async with attached(relay) as launchers:
            first = [await launcher.until_goal("run", LIMIT_S, generation=1) for launcher in launchers]
            assert sorted(run.group_rank for run in first) == [0, 1, 2, 3]
            launchers[1].crash_rank()
            for launcher in launchers:
                await launcher.until_goal("run", LIMIT_S, generation=2)
            async with grpc.aio.insecure_channel(relay.endpoint) as channel:
                stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
                job = (await stub.GetJob(pb.GetJobRequest())).job
            assert len(job.nodes) == 4, "calls of one caller are passed on"


async def test_killing_the_relay_fences_nothing_and_its_launchers_come_back(root, tmp_path):
    with relay_of(root, tmp_path) as relay:
        async with attached(relay) as launchers:
            for launcher in launchers:
                await launcher.until_goal("run", LIMIT_S, generation=1)
            relay.kill()
            for launcher in launchers:
                await launcher.until(lambda node: node.streams_lost == 1, LIMIT_S)
                launcher.beat_replies.clear()
            relay.start()
            for launcher in launchers:
                await launcher.until(lambda node: node.beat_replies, LIMIT_S)
                assert launcher.desired.run.generation == 1, "nobody was torn down"
            launchers[0].crash_rank()
            for launcher in launchers:
                await launcher.until_goal("run", LIMIT_S, generation=2)
