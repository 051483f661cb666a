"""Rendezvous without the policy's word: dead, stopped, slow, never started. The record names what was missing."""

import time

import pytest

from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc
from resurge_libs.testing.process_faults import stopped
from resurge_libs.testing.wait import wait_until_async
from tests.fakes.host import HostProcess
from tests.fakes.launcher import FakeLauncher, job_spec
from tests.fakes.policy import FakePolicy, Mood

pytestmark = pytest.mark.integration

VERDICT_LIMIT_S = 2.0
DONE = pb.RECOVERY_OUTCOME_RECOVERED


async def recovered_with(host):
    """One fault and the verdict that answered it."""
    async with Pair(host) as pair:
        return await pair.fault()


class Pair:
    """Two nodes that run, and a fault of the second one when the test wants it."""

    def __init__(self, host):
        self.channel = host.channel()
        self.stub = rendezvous_pb2_grpc.RendezvousServiceStub(self.channel)
        self.a, self.b = (FakeLauncher(self.channel, job_spec(), node) for node in ("n0", "n1"))

    async def __aenter__(self):
        for launcher in (self.a, self.b):
            await launcher.attach()
        for launcher in (self.a, self.b):
            await launcher.until_goal("run")
        return self

    async def __aexit__(self, *_):
        for launcher in (self.a, self.b):
            await launcher.vanish()
        await self.channel.close()

    async def fault(self):
        """The verdict, and how long the next generation took."""
        generation, began = self.a.run.generation + 1, time.monotonic()
        self.b.crash_rank()
        for launcher in (self.a, self.b):
            await launcher.until_goal("run", generation=generation)
        took_s = time.monotonic() - began
        return (await wait_until_async(lambda: closed(self.stub, generation))).verdict, took_s


async def closed(stub, generation):
    found = (await stub.ListRecoveries(pb.ListRecoveriesRequest())).recoveries
    return next((item for item in found if item.generation_to == generation and item.outcome == DONE), None)


async def test_rendezvous_alone_applies_the_default_verdict_at_once(tmp_path):
    with HostProcess(tmp_path / "state", module="resurge_rendezvous") as host:
        verdict, took_s = await recovered_with(host)
    assert verdict.source == "default"
    assert "POLICY_UNREACHABLE" in verdict.because.sentence and "restart_policy" in verdict.because.sentence
    assert took_s < VERDICT_LIMIT_S, "nobody to ask is no reason to wait"


async def test_a_policy_of_its_own_process_is_asked_and_its_death_is_named(tmp_path):
    with HostProcess(tmp_path / "policy", module="resurge_restart_policy") as policy:
        address = ("--addresses", f"restart_policy={policy.endpoint}")
        with HostProcess(tmp_path / "a", targets="rendezvous", more=address) as host:
            verdict, _ = await recovered_with(host)
            assert verdict.source == "policy"
        policy.kill()
        with HostProcess(tmp_path / "b", targets="rendezvous", more=address) as host:
            verdict, took_s = await recovered_with(host)
            assert verdict.source == "default" and "POLICY_UNREACHABLE" in verdict.because.sentence
            assert took_s < VERDICT_LIMIT_S


async def test_a_policy_that_stands_still_costs_the_verdict_limit_and_no_more(tmp_path):
    with HostProcess(tmp_path / "policy", module="resurge_restart_policy") as policy:
        address = ("--addresses", f"restart_policy={policy.endpoint}")
        with HostProcess(tmp_path / "a", targets="rendezvous", more=address) as host:
            async with Pair(host) as pair:
                verdict, _ = await pair.fault()
                assert verdict.source == "policy"
                with stopped(policy.pid):
                    verdict, took_s = await pair.fault()
                assert verdict.source == "default" and "VERDICT_TIMEOUT" in verdict.because.sentence
                assert VERDICT_LIMIT_S <= took_s < VERDICT_LIMIT_S + 3.0
                verdict, _ = await pair.fault()
                assert verdict.source == "policy", "it is asked again once it answers again"


@pytest.mark.parametrize(
    ("mood", "named"),
    [(Mood.SILENT, "VERDICT_TIMEOUT"), (Mood.REFUSES, "POLICY_UNREACHABLE"), (Mood.NONSENSE, "POLICY_UNREACHABLE")],
)
async def test_a_slow_or_broken_policy_is_replaced_by_the_default(tmp_path, mood, named):
    policy = FakePolicy(mood)
    endpoint = await policy.start()
    more = ("--addresses", f"restart_policy={endpoint}", "--verdict-limit-s", "0.5")
    try:
        with HostProcess(tmp_path / "a", targets="rendezvous", more=more) as host:
            verdict, _ = await recovered_with(host)
            assert verdict.source == "default" and named in verdict.because.sentence
    finally:
        await policy.stop()


async def test_policy_starts_alone_and_needs_nobody(tmp_path):
    with HostProcess(tmp_path / "policy", module="resurge_restart_policy") as policy:
        assert policy.terminate() == 0
