"""Rendezvous' port to policy over real gRPC: unreachable is said at once, silence waits, nonsense is no verdict."""

import asyncio
import time

import pytest

from resurge_api.policy.v1 import policy_pb2
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.core.trace_ids import trace_id_of
from resurge_libs.core.verdict import FaultView, IncidentView, VerdictKind
from resurge_libs.rpc.endpoint import parse_endpoint
from resurge_rendezvous.clients import GrpcPolicy, NoVerdict, PolicySilent, decide_context, verdict_of
from tests.fakes.policy import FakePolicy, Mood

VIEW = IncidentView(
    job=JobId("train"),
    attempt=Attempt(1),
    generation=Generation(7),
    cycle=Cycle(2),
    incident=IncidentId("inc-1"),
    round=1,
    faults=(FaultView(NodeId("n1"), Because(Reason.WORKER_SIGNAL, "SIGSEGV"), Rank(5)),),
    restarts_spent=1,
    max_restarts=3,
    min_nodes=2,
    nodes_available=3,
    failure_ages_s=(4.0, 9.0),
)


@pytest.fixture
async def served():
    policy = FakePolicy()
    endpoint = parse_endpoint(await policy.start())
    client = GrpcPolicy(lambda name: endpoint if name == "restart_policy" else None, TimeLimits())
    yield policy, client
    await client.close()
    await policy.stop()


async def test_the_incident_arrives_whole_with_the_trace_of_the_recovery(served):
    policy, client = served
    verdict = await client.decide(VIEW, 2.0)
    assert (verdict.kind, verdict.source, verdict.restarts_left) == (VerdictKind.RESTART, "policy", 1)
    asked = policy.asked[0]
    assert (asked.incident_id, asked.round, asked.token.generation) == ("inc-1", 1, 7)
    assert (asked.faults[0].node_id, asked.faults[0].rank, asked.faults[0].culprit) == ("n1", 5, True)
    assert list(asked.recent_cycle_s) == [4.0, 5.0]
    sent = dict(policy.metadata[0])["traceparent"]
    assert sent == decide_context(VIEW).traceparent and trace_id_of(VIEW.incident).hex() in sent


async def test_an_unreachable_policy_is_said_at_once():
    with pytest.raises(NoVerdict, match="no address"):
        await GrpcPolicy(lambda name: None, TimeLimits()).decide(VIEW, 2.0)
    nobody = GrpcPolicy(lambda name: parse_endpoint("unix:/nonexistent/policy.sock"), TimeLimits())
    began = time.monotonic()
    with pytest.raises(NoVerdict):
        await nobody.decide(VIEW, 30.0)
    assert time.monotonic() - began < 5.0, "unreachable must not wait for the verdict's limit"
    await nobody.close()


async def test_a_silent_policy_is_given_up_after_the_limit(served):
    policy, client = served
    policy.mood = Mood.SILENT
    with pytest.raises(PolicySilent):
        await client.decide(VIEW, 0.1)
    policy.mood = Mood.RESTART
    assert (await client.decide(VIEW, 2.0)).kind is VerdictKind.RESTART


@pytest.mark.parametrize("mood", [Mood.REFUSES, Mood.NONSENSE])
async def test_a_refusal_and_nonsense_are_no_verdict(served, mood):
    policy, client = served
    policy.mood = mood
    with pytest.raises(NoVerdict):
        await client.decide(VIEW, 2.0)


async def test_a_stop_keeps_its_exit_code_and_reason(served):
    policy, client = served
    policy.mood = Mood.STOP
    verdict = await client.decide(VIEW, 2.0)
    assert (verdict.kind, verdict.exit_code, verdict.because.code) == (VerdictKind.STOP, 93, Reason.NO_PROGRESS)


async def test_a_policy_that_dies_under_a_call_is_unreachable(served):
    policy, client = served
    policy.mood = Mood.SILENT
    asking = asyncio.create_task(client.decide(VIEW, 30.0))
    while not policy.asked:
        await asyncio.wait({asking}, timeout=0.01)
    await policy.stop()
    with pytest.raises(NoVerdict):
        await asking


@pytest.mark.parametrize(
    "verdict",
    [
        policy_pb2.Verdict(kind=77),
        policy_pb2.Verdict(kind=policy_pb2.VERDICT_KIND_STOP, exit_code=256),
        policy_pb2.Verdict(kind=policy_pb2.VERDICT_KIND_RESTART_EXCLUDING),
        policy_pb2.Verdict(kind=policy_pb2.VERDICT_KIND_RESTART_EXCLUDING, excluded_node_ids=[""]),
    ],
)
def test_what_cannot_be_carried_out_is_no_verdict(verdict):
    with pytest.raises(NoVerdict):
        verdict_of(verdict)
