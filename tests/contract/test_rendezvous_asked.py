"""What attribution recommends and workers ask for, over the contract of rendezvous."""

import time

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import attach_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_libs.core.refusals import BadRequest, StaleGeneration, WrongJob
from resurge_libs.rpc.errors import problem_of
from tests.contract.rendezvous_bench import bench, older, request_id
from tests.fakes.launcher import job_spec


async def refusal_of(call):
    with pytest.raises(grpc.RpcError) as refused:
        await call
    return problem_of(refused.value)


def stop(**fields):
    said = policy_pb2.Recommendation(
        kind=policy_pb2.RECOMMENDATION_KIND_STOP, sentence="the same assert again", source="the test", **fields
    )
    return pb.RecordRecommendationRequest(request_id=request_id(), recommendation=said)


def wish(token, **fields):
    now = Timestamp()
    now.FromNanoseconds(time.time_ns())
    given = {"request_id": request_id(), "token": token, "node_id": "n0", "rank": 0, "at": now, "reason": "nan"}
    given["action"] = pb.CONTROL_ACTION_SHUTDOWN_WORKLOAD
    return pb.ReportControlRequestRequest(**{**given, **fields})


async def test_a_stop_is_counted_and_shown_and_ends_nothing_by_default():
    async with bench() as rdzv, rdzv.running():
        for _ in range(2):
            answer = await rdzv.stub.RecordRecommendation(stop(confidence=0.5))
            assert answer.effect == policy_pb2.RECOMMENDATION_EFFECT_RECORDED
        job = await rdzv.job()
        (tally,) = job.recommendations
        assert (tally.count, tally.last.sentence, tally.last.source) == (2, "the same assert again", "the test")
        assert tally.HasField("last_at") and job.phase == pb.JOB_PHASE_RUNNING


async def test_a_stop_ends_every_launcher_with_the_jobs_own_code_where_it_is_wanted():
    spec = job_spec()
    spec.attribution_stop_action = attach_pb2.ATTRIBUTION_STOP_ACTION_NO_RESTART
    spec.no_restart_exit_code = 95
    async with bench() as rdzv, rdzv.running(spec=spec) as launchers:
        answer = await rdzv.stub.RecordRecommendation(stop())
        assert answer.effect == policy_pb2.RECOMMENDATION_EFFECT_ENDED
        for launcher in launchers:
            await launcher.until_goal("exit")
            leave = launcher.desired.exit
            assert (leave.code, leave.cause) == (95, "attribution_stop")
        decision = (await rdzv.stub.GetVerdict(pb.GetVerdictRequest())).decision
        assert (decision.exit_code, decision.cause) == (95, "attribution_stop")


async def test_a_recommendation_about_another_job_is_refused():
    async with bench() as rdzv, rdzv.running():
        request = stop()
        request.recommendation.token.job_id = "another"
        assert isinstance(await refusal_of(rdzv.stub.RecordRecommendation(request)), WrongJob)


async def test_a_workers_wish_ends_the_job_and_its_cause_stands_in_the_store():
    async with bench() as rdzv, rdzv.running() as launchers:
        token = await rdzv.token()
        answer = await rdzv.stub.ReportControlRequest(wish(token))
        assert answer.carried_out and answer.decision.cause == "workload_shutdown"
        for launcher in launchers:
            await launcher.until_goal("exit")
            assert launcher.desired.exit.code == 0
        found = await rdzv.stub.Get(pb.GetRequest(token=token, key="resurge/shutdown"))
        assert (found.found, found.value) == (True, b"workload_shutdown")


async def test_who_waits_for_the_end_is_woken_by_it():
    async with bench() as rdzv, rdzv.running():
        token = await rdzv.token()
        waiting = rdzv.stub.Wait(pb.WaitRequest(token=token, key="resurge/shutdown"), timeout=20)
        await rdzv.stub.ReportControlRequest(wish(token))
        assert (await waiting).value == b"workload_shutdown"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"action": 0}, "action"),
        ({"action": 77}, "action"),
        ({"node_id": ""}, "node_id"),
        ({"request_id": ""}, "request_id"),
        ({"at": None}, "request.at"),
    ],
)
async def test_a_wish_that_does_not_fit_is_refused_by_its_field(fields, field):
    async with bench() as rdzv, rdzv.running():
        refused = await refusal_of(rdzv.stub.ReportControlRequest(wish(await rdzv.token(), **fields)))
        assert isinstance(refused, BadRequest)
        assert [violation.field for violation in refused.violations] == [field]


async def test_a_wish_of_an_older_generation_is_refused():
    async with bench() as rdzv, rdzv.running():
        refused = await refusal_of(rdzv.stub.ReportControlRequest(wish(older(await rdzv.token()))))
        assert isinstance(refused, StaleGeneration)
