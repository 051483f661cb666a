"""The policy's contract over the memory channel: mapping both ways, refusals with their fields, bounded memory."""

import json

import grpc
import pytest
from google.rpc import error_details_pb2

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2, policy_pb2_grpc
from resurge_libs.core.ids import IncidentId
from resurge_libs.core.refusals import BadRequest, Unready
from resurge_libs.core.trace_ids import trace_id_of
from resurge_libs.hosting.module import ModulePorts
from resurge_libs.obs.sinks import JsonLinesSink
from resurge_libs.obs.traceparent import TraceContext
from resurge_libs.rpc.context import call_metadata
from resurge_libs.rpc.errors import problem_of
from resurge_libs.rpc.interceptors import RefusalInterceptor
from resurge_libs.testing.memory_channel import MemoryChannel, MemoryServer
from resurge_restart_policy.module import TARGET
from resurge_restart_policy.recent import RecentIncidents
from resurge_restart_policy.settings import PolicySettings


def incident(incident_id="inc-1", **fields):
    given = {
        "incident_id": incident_id,
        "token": ids_pb2.FencingToken(job_id="train", attempt=1, generation=7),
        "faults": [
            policy_pb2.Fault(node_id="n1", rank=5, because=ids_pb2.Because(code="WORKER_SIGNAL", sentence="SIGSEGV"))
        ],
        "max_restarts": 3,
        "nodes_available": 2,
        "min_nodes": 2,
    }
    return policy_pb2.Incident(**{**given, **fields})


def request_of(**fields):
    return policy_pb2.DecideRequest(request_id="r1", incident=incident(**fields))


@pytest.fixture
async def stub(tmp_path):
    server = MemoryServer([RefusalInterceptor()])
    ports = ModulePorts(spans=JsonLinesSink(tmp_path / "spans.jsonl"))
    TARGET.build(PolicySettings(jitter_share=0.0, first_delay_s=1.0), ports).add_to(server)
    async with MemoryChannel(server) as channel:
        yield policy_pb2_grpc.RestartPolicyServiceStub(channel)


async def refusal_of(call):
    with pytest.raises(grpc.RpcError) as refused:
        await call
    return problem_of(refused.value)


async def test_a_verdict_comes_with_its_reason_and_the_budget_left(stub):
    verdict = (await stub.Decide(request_of(restarts_spent=1))).verdict
    assert verdict.kind == policy_pb2.VERDICT_KIND_RESTART
    assert (verdict.because.code, verdict.restarts_left, verdict.source) == ("WORKER_SIGNAL", 1, "policy")
    assert "rank 5 on n1" in verdict.because.sentence


async def test_asking_twice_is_answered_twice_and_charged_nowhere(stub):
    first, second = await stub.Decide(request_of()), await stub.Decide(request_of())
    assert first == second


@pytest.mark.parametrize(
    ("fields", "kind", "code", "reason"),
    [
        ({"job_succeeded": True}, policy_pb2.VERDICT_KIND_SHUTDOWN, 0, "SUCCEEDED"),
        ({"shutdown_requested": True}, policy_pb2.VERDICT_KIND_SHUTDOWN, 0, "SHUTDOWN_REQUESTED"),
        ({"latched_stop": ids_pb2.Because(code="NO_PROGRESS")}, policy_pb2.VERDICT_KIND_STOP, 93, "NO_RESTART_LATCHED"),
        ({"restarts_spent": 3}, policy_pb2.VERDICT_KIND_STOP, 1, "BUDGET_EXHAUSTED"),
    ],
)
async def test_every_flag_of_an_incident_reaches_its_rule(stub, fields, kind, code, reason):
    verdict = (await stub.Decide(request_of(**fields))).verdict
    assert (verdict.kind, verdict.exit_code, verdict.because.code) == (kind, code, reason)


async def test_cycle_lengths_become_the_backoff_of_a_crash_loop(stub):
    verdict = (await stub.Decide(request_of(max_restarts=9, recent_cycle_s=[2.0, 2.0, 2.0]))).verdict
    assert verdict.delay.ToTimedelta().total_seconds() == 2.0
    slow = (await stub.Decide(request_of(recent_cycle_s=[900.0, 2.0]))).verdict
    assert slow.delay.ToTimedelta().total_seconds() == 0.0


async def test_explain_replays_a_recent_incident_and_a_recorded_one(stub):
    await stub.Decide(request_of(restarts_spent=3))
    recent = await stub.Explain(policy_pb2.ExplainRequest(incident_id="inc-1"))
    assert [rule.rule for rule in recent.rules if rule.decided] == ["budget"]
    recorded = await stub.Explain(policy_pb2.ExplainRequest(incident=incident("old", restarts_spent=3)))
    assert recorded.verdict == recent.verdict
    assert recorded.incident.incident_id == "old"


async def test_an_incident_that_nobody_knows_is_refused_with_the_remedy(stub):
    problem = await refusal_of(stub.Explain(policy_pb2.ExplainRequest(incident_id="never")))
    assert isinstance(problem, BadRequest)
    assert problem.violations[0].field == "incident_id" and "recorded" in problem.violations[0].right


async def test_all_wrong_fields_are_named_at_once(stub):
    wrong = policy_pb2.DecideRequest(
        request_id="r" * 300,
        incident=incident(incident_id="", jitter=float("nan"), recent_cycle_s=[-1.0, float("inf")]),
    )
    problem = await refusal_of(stub.Decide(wrong))
    assert {item.field for item in problem.violations} == {
        "request_id",
        "incident.incident_id",
        "incident.jitter",
        "incident.recent_cycle_s[0]",
        "incident.recent_cycle_s[1]",
    }
    assert isinstance(await refusal_of(stub.Decide(policy_pb2.DecideRequest(request_id="r"))), BadRequest)


async def test_lists_and_texts_are_bounded(stub):
    long = ids_pb2.Because(code="WORKER_EXIT", sentence="x" * 5_000)
    many = [policy_pb2.Fault(node_id="n")] * 2_000
    problem = await refusal_of(stub.Decide(request_of(faults=many)))
    assert problem.violations[0].field == "incident.faults"
    problem = await refusal_of(stub.Decide(request_of(faults=[policy_pb2.Fault(node_id="n", because=long)])))
    assert problem.violations[0].field == "incident.faults[0].because.sentence"


async def test_a_code_of_a_newer_release_is_no_reason_to_refuse_advice(stub):
    fault = policy_pb2.Fault(node_id="n1", because=ids_pb2.Because(code="GPU_ON_FIRE", sentence="smoke"))
    verdict = (await stub.Decide(request_of(faults=[fault]))).verdict
    assert verdict.kind == policy_pb2.VERDICT_KIND_RESTART and "GPU_ON_FIRE" in verdict.because.sentence


async def test_a_refusal_carries_its_fields_on_the_wire(stub):
    with pytest.raises(grpc.RpcError) as refused:
        await stub.Decide(policy_pb2.DecideRequest(request_id="r"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    assert error_details_pb2.BadRequest.DESCRIPTOR.full_name.encode() in details


async def test_the_decide_span_is_a_child_of_the_callers_context(stub, tmp_path):
    context = TraceContext.of_recovery(IncidentId("inc-1"))
    for _ in range(2):
        await stub.Decide(request_of(), metadata=call_metadata(trace=context))
    await stub.Decide(request_of(incident_id="untraced"))
    first, second = (json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines())
    assert first["name"] == "decide" and first["service"] == "restart_policy"
    assert first["trace_id"] == trace_id_of(IncidentId("inc-1")).hex()
    assert first["parent_span_id"] == context.span_id.hex()
    assert first["span_id"] == second["span_id"], "a repeated call must not double the span"
    assert first["attributes"]["resurge.verdict"] == "RESTART"


def test_memory_of_recent_incidents_is_bounded_by_number_and_by_bytes():
    recent = RecentIncidents(max_incidents=2, max_bytes=900)
    for name in ("a", "b", "c"):
        recent.remember(incident(name))
    assert recent.get(IncidentId("a")) is None and recent.get(IncidentId("c")) is not None
    recent.remember(incident("c", round=1))
    assert recent.get(IncidentId("c")).round == 1 and len(recent) == 2
    recent.remember(incident("big", advice_missing=["x" * 200] * 4))
    assert len(recent) == 1


# --- what attribution recommends ---


def recommendation(**fields):
    given = {"kind": policy_pb2.RECOMMENDATION_KIND_STOP, "sentence": "the same assert again", "confidence": 0.9}
    return policy_pb2.Recommendation(**{**given, **fields})


async def test_a_recommendation_without_a_way_to_rendezvous_is_refused_and_says_what_is_missing(stub):
    request = policy_pb2.ReportRecommendationRequest(request_id="a1", recommendation=recommendation())
    refused = await refusal_of(stub.ReportRecommendation(request))
    assert isinstance(refused, Unready) and "--addresses rendezvous=" in str(refused)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": policy_pb2.RECOMMENDATION_KIND_UNSPECIFIED}, "recommendation.kind"),
        ({"kind": 99}, "recommendation.kind"),
        ({"confidence": 1.5}, "recommendation.confidence"),
        ({"confidence": float("nan")}, "recommendation.confidence"),
        ({"culprit_node_ids": [""]}, "recommendation.culprit_node_ids[0]"),
        ({"source": "x" * 300}, "recommendation.source"),
    ],
)
async def test_a_recommendation_that_does_not_fit_is_refused_by_its_field(stub, fields, field):
    request = policy_pb2.ReportRecommendationRequest(request_id="a1", recommendation=recommendation(**fields))
    refused = await refusal_of(stub.ReportRecommendation(request))
    assert isinstance(refused, BadRequest)
    assert [violation.field for violation in refused.violations] == [field]
