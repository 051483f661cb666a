"""A journal that was cut off in the middle, or is garbage, or gone: the host says so and goes on from what is whole."""

import os

import pytest

from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc
from resurge_libs.testing.wait import wait_until_async
from tests.fakes.host import HostProcess
from tests.fakes.launcher import FakeLauncher, job_spec

pytestmark = pytest.mark.integration


async def some_history(host):
    """A running job with a few writes; the host is killed and its last page is not checkpointed."""
    async with host.channel() as channel:
        stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
        async with FakeLauncher(channel, job_spec(nodes="1:1"), "n0") as node:
            await node.until_goal("run")
            token = (await stub.GetJob(pb.GetJobRequest())).job.token
            for number in range(5):
                await stub.Put(pb.PutRequest(request_id=f"r{number}", token=token, key=f"k{number}", value=b"v"))
            host.kill()


async def generation_of(host):
    async with host.channel() as channel:
        stub = rendezvous_pb2_grpc.RendezvousServiceStub(channel)
        return (await stub.GetJob(pb.GetJobRequest())).job.token.generation


async def test_a_journal_cut_inside_its_last_record_goes_on_from_the_last_whole_one(tmp_path):
    with HostProcess(tmp_path / "state") as host:
        await some_history(host)
        log = host.state_dir / "journal.sqlite-wal"
        os.truncate(log, log.stat().st_size - 100)
        host.start()
        assert await generation_of(host) == 1
        assert "last whole record" in host.events("journal_damaged")[0]["sentence"]


async def test_a_journal_that_is_garbage_is_set_aside_and_a_launcher_that_returns_raises_the_generation(tmp_path):
    with HostProcess(tmp_path / "state") as host:
        await some_history(host)
        for name in ("journal.sqlite-wal", "journal.sqlite-shm"):
            (host.state_dir / name).unlink()
        (host.state_dir / "journal.sqlite").write_bytes(b"no database at all" * 500)
        host.start()
        event = host.events("journal_damaged")[0]
        assert is_there(event["set_aside"]), "what is damaged is kept for people"
        async with host.channel() as channel:
            seen = {"highest_generation": 1, "highest_attempt": 1}
            async with FakeLauncher(channel, job_spec(nodes="1:1"), "n0", hello_fields=seen):
                await wait_until_async(lambda: host.events("journal_behind"))
        assert await generation_of(host) > 1
        assert host.events("journal_behind")[0]["reason"] == "JOURNAL_BEHIND"


def is_there(path):
    return os.path.exists(path)
