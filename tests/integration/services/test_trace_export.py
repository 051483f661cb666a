"""The trace of a recovery reaches a collector whole, and a collector that is gone delays nothing."""

import json

import pytest

from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_libs.rpc.records import read_recoveries
from resurge_libs.testing.wait import wait_until_async
from tests.fakes.collector import FakeCollector
from tests.fakes.host import HostProcess
from tests.fakes.launcher import FakeLauncher, job_spec

pytestmark = pytest.mark.integration

OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"


async def one_recovery(host):
    async with host.channel() as channel:
        pair = [FakeLauncher(channel, job_spec(), node) for node in ("n0", "n1")]
        for launcher in pair:
            await launcher.attach()
        for launcher in pair:
            await launcher.until_goal("run")
        pair[1].crash_rank()
        for launcher in pair:
            await launcher.until_goal("run", generation=2)
        recovery = await wait_until_async(lambda: closed(host))
        for launcher in pair:
            await launcher.vanish()
    return recovery


def closed(host):
    found = read_recoveries(host.state_dir).recoveries
    return next((item for item in found if item.outcome == pb.RECOVERY_OUTCOME_RECOVERED), None)


async def test_the_collector_gets_the_whole_trace_with_the_ids_of_the_file(tmp_path):
    collector = FakeCollector()
    with HostProcess(tmp_path / "state", env={OTLP: await collector.start()}) as host:
        recovery = await one_recovery(host)
        lines = (host.state_dir / "spans.jsonl").read_text().splitlines()
        wanted = {json.loads(line)["span_id"] for line in lines}
        await wait_until_async(lambda: wanted <= {span.span_id.hex() for span in collector.spans}, 20.0)
    await collector.stop()
    assert {span.trace_id.hex() for span in collector.spans} == {recovery.trace_id}
    names = {span.name for span in collector.spans}
    assert {"recovery", "detect", "decide", "teardown", "rendezvous", "first_step"} <= names
    assert not any("Attach" in name or "Health" in name for name in names)


@pytest.mark.users_row(71)
async def test_a_collector_that_is_gone_delays_neither_recovery_nor_end(tmp_path):
    with HostProcess(tmp_path / "state", env={OTLP: "http://127.0.0.1:1"}) as host:
        assert (await one_recovery(host)).outcome == pb.RECOVERY_OUTCOME_RECOVERED
        assert host.terminate() == 0
