"""The unary calls: the fenced store, observers, operators, and what happens when the journal fails."""

import asyncio

import grpc
import pytest

from resurge_api.common.v1 import ids_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_libs.core.reasons import Reason
from resurge_libs.core.refusals import BadRequest, StaleGeneration, Unready, WrongJob
from resurge_libs.rpc.errors import problem_of
from resurge_libs.testing.wait import wait_until_async
from tests.contract.rendezvous_bench import bench, older, request_id
from tests.fakes.launcher import job_spec


async def refusal_of(call):
    with pytest.raises(grpc.RpcError) as refused:
        await call
    return problem_of(refused.value)


# --- the store --------------------------------------------------------------------------------------------------------


async def test_the_store_puts_gets_swaps_adds_and_deletes():
    async with bench() as rdzv, rdzv.running():
        token, stub = await rdzv.token(), rdzv.stub
        await stub.Put(pb.PutRequest(request_id=request_id(), token=token, key="k", value=b"1"))
        found = await stub.Get(pb.GetRequest(token=token, key="k"))
        assert (found.found, found.value) == (True, b"1")
        assert not (await stub.Get(pb.GetRequest(token=token, key="none"))).found

        async def swap(expected, value):
            answer = await stub.CompareAndSet(
                pb.CompareAndSetRequest(request_id=request_id(), token=token, key="k", expected=expected, value=value)
            )
            return answer.written, answer.value

        assert await swap(b"0", b"2") == (False, b"1")
        assert await swap(b"1", b"2") == (True, b"2")
        assert await swap(None, b"3") == (False, b"2"), "unset means that the key must not exist"
        sums = [
            (await stub.Add(pb.AddRequest(request_id=request_id(), token=token, key="n", delta=delta))).value
            for delta in (5, -7)
        ]
        assert sums == [5, -2]
        gone = [
            (await stub.Delete(pb.DeleteRequest(request_id=request_id(), token=token, key="k"))).existed
            for _ in range(2)
        ]
        assert gone == [True, False]


async def test_a_repeat_under_the_same_request_id_is_not_a_second_write():
    async with bench() as rdzv, rdzv.running():
        token, once = await rdzv.token(), request_id()
        rdzv.channel.lose_replies = 1
        with pytest.raises(grpc.RpcError):
            await rdzv.stub.Add(pb.AddRequest(request_id=once, token=token, key="n", delta=1))
        for _ in range(2):
            assert (await rdzv.stub.Add(pb.AddRequest(request_id=once, token=token, key="n", delta=1))).value == 1


@pytest.mark.users_row(8)
async def test_an_older_token_is_refused_by_every_call_of_the_store():
    async with bench() as rdzv, rdzv.running():
        token = older(await rdzv.token())
        stub, rid = rdzv.stub, request_id
        for call in (
            stub.Put(pb.PutRequest(request_id=rid(), token=token, key="k", value=b"")),
            stub.Get(pb.GetRequest(token=token, key="k")),
            stub.Wait(pb.WaitRequest(token=token, key="k"), timeout=5),
            stub.CompareAndSet(pb.CompareAndSetRequest(request_id=rid(), token=token, key="k")),
            stub.Add(pb.AddRequest(request_id=rid(), token=token, key="k")),
            stub.Delete(pb.DeleteRequest(request_id=rid(), token=token, key="k")),
        ):
            problem = await refusal_of(call)
            assert isinstance(problem, StaleGeneration)
            assert problem.current.generation == 1


async def test_what_does_not_fit_the_store_is_refused_with_its_field():
    async with bench() as rdzv, rdzv.running():
        token, stub = await rdzv.token(), rdzv.stub
        foreign = ids_pb2.FencingToken(job_id="other", attempt=1, generation=1)
        cases = [
            (pb.PutRequest(request_id="r", token=token, key="", value=b""), "key"),
            (pb.PutRequest(request_id="r", token=token, key="k" * 2_000, value=b""), "key"),
            (pb.PutRequest(request_id="r", token=token, key="k", value=b"x" * 1_100_000), "value"),
            (pb.PutRequest(token=token, key="k", value=b""), "request_id"),
            (pb.PutRequest(request_id="r", key="k", value=b""), "token.job_id"),
        ]
        for request, field in cases:
            problem = await refusal_of(stub.Put(request))
            assert isinstance(problem, BadRequest) and problem.violations[0].field == field
        assert isinstance(await refusal_of(stub.Get(pb.GetRequest(token=foreign, key="k"))), WrongJob)
        await stub.Put(pb.PutRequest(request_id=request_id(), token=token, key="text", value=b"abc"))
        problem = await refusal_of(stub.Add(pb.AddRequest(request_id="r", token=token, key="text", delta=1)))
        assert isinstance(problem, BadRequest)


async def test_a_wait_is_woken_by_the_write_and_not_by_a_clock():
    async with bench() as rdzv, rdzv.running():
        token = await rdzv.token()
        waiting = asyncio.ensure_future(rdzv.stub.Wait(pb.WaitRequest(token=token, key="k"), timeout=30))
        other = await rdzv.stub.Wait(pb.WaitRequest(token=token, key="never"), timeout=0.2)
        assert (other.found, waiting.done()) == (False, False)
        await rdzv.stub.Put(pb.PutRequest(request_id=request_id(), token=token, key="k", value=b"v"))
        answer = await asyncio.wait_for(waiting, 5)
        assert (answer.found, answer.value) == (True, b"v")


async def test_a_wait_of_a_fenced_generation_is_refused_when_the_fence_falls():
    async with bench() as rdzv, rdzv.running() as (_, b):
        token = await rdzv.token()
        waiting = asyncio.ensure_future(refusal_of(rdzv.stub.Wait(pb.WaitRequest(token=token, key="k"), timeout=30)))
        await rdzv.stub.Get(pb.GetRequest(token=token, key="k"))
        b.crash_rank()
        assert isinstance(await asyncio.wait_for(waiting, 5), StaleGeneration)


async def test_the_store_before_any_job_is_not_ready():
    async with bench() as rdzv:
        problem = await refusal_of(
            rdzv.stub.Get(pb.GetRequest(token=ids_pb2.FencingToken(job_id="j", generation=1), key="k"))
        )
        assert isinstance(problem, Unready | WrongJob)


# --- observers and operators ------------------------------------------------------------------------------------------


async def test_an_observer_sees_the_job_now_and_at_each_change():
    async with bench() as rdzv:
        watch = rdzv.stub.WatchJob(pb.WatchJobRequest())
        assert (await watch.read()).job.phase == pb.JOB_PHASE_GATHERING
        async with rdzv.running() as (_, b):
            while (seen := (await watch.read()).job).phase != pb.JOB_PHASE_RUNNING:
                pass
            assert {node.node_id: node.standing for node in seen.nodes} == {
                "n0": pb.NODE_STANDING_ACTIVE,
                "n1": pb.NODE_STANDING_ACTIVE,
            }
            b.crash_rank()
            while (seen := (await watch.read()).job).token.generation != 2 or seen.restarts_spent != 1:
                pass
        watch.cancel()


async def test_recoveries_and_the_verdict_are_told():
    async with bench() as rdzv, rdzv.running() as (a, b):
        assert not (await rdzv.stub.GetVerdict(pb.GetVerdictRequest())).HasField("decision")
        b.crash_rank(signal=11)
        await a.until_goal("run", generation=2)
        recovery = await wait_until_async(lambda: closed(rdzv))
        assert recovery.outcome == pb.RECOVERY_OUTCOME_RECOVERED
        assert (recovery.generation_from, recovery.generation_to, recovery.restored_step) == (1, 2, 10)
        assert (recovery.incident.faults[0].node_id, recovery.incident.faults[0].rank) == ("n1", b.run.base_rank)
        assert recovery.verdict.source == "policy"
        names = {span.span.name for span in recovery.spans}
        assert {"detect", "decide", "teardown", "rendezvous", "first_step"} <= names
        one = await rdzv.stub.GetRecovery(pb.GetRecoveryRequest(incident_id=recovery.incident_id))
        assert one.recovery == recovery
        problem = await refusal_of(rdzv.stub.GetRecovery(pb.GetRecoveryRequest(incident_id="never")))
        assert isinstance(problem, BadRequest)


async def closed(rdzv):
    found = (await rdzv.stub.ListRecoveries(pb.ListRecoveriesRequest())).recoveries
    return next((item for item in found if item.outcome != pb.RECOVERY_OUTCOME_OPEN), None)


async def test_an_operator_excludes_and_readmits_a_spare():
    async with bench() as rdzv, rdzv.running(("n0", "n1", "n2"), job_spec(nodes="2:3")):
        rid = request_id()
        for _ in range(2):
            node = (await rdzv.stub.ExcludeNode(pb.ExcludeNodeRequest(request_id=rid, node_id="n2", reason="fan"))).node
            assert node.standing == pb.NODE_STANDING_EXCLUDED and "fan" in node.because.sentence
        nodes = (await rdzv.stub.ListNodes(pb.ListNodesRequest())).nodes
        assert [item.node_id for item in nodes if item.standing == pb.NODE_STANDING_EXCLUDED] == ["n2"]
        node = (await rdzv.stub.ReadmitNode(pb.ReadmitNodeRequest(request_id=request_id(), node_id="n2"))).node
        assert node.standing == pb.NODE_STANDING_SPARE
        problem = await refusal_of(rdzv.stub.ExcludeNode(pb.ExcludeNodeRequest(request_id="r", node_id="n9")))
        assert isinstance(problem, BadRequest) and "n9" in str(problem)


async def test_an_exclusion_is_told_with_its_machine_and_an_order_with_its_risk():
    async with bench() as rdzv, rdzv.running(("n0", "n1", "n2"), job_spec(nodes="2:3")):
        order = pb.ExcludeNodeRequest(request_id="first", node_id="n2", reason="fan", by="ann@desk")
        order.lasts.FromSeconds(600)
        answer = await rdzv.stub.ExcludeNode(order)
        assert answer.warning == ""
        told = answer.node.exclusion
        assert (told.node_id, told.host, told.by, told.is_automatic) == ("n2", "host-of-n2", "ann@desk", False)
        assert (told.because.sentence, told.until.seconds - told.at.seconds) == ("fan", 600)
        job = (await rdzv.stub.GetJob(pb.GetJobRequest())).job
        assert list(job.exclusions) == [told]
        for _ in range(2):  # a repeat gets the same answer
            answer = await rdzv.stub.ExcludeNode(pb.ExcludeNodeRequest(request_id="second", node_id="n1"))
            assert answer.warning.startswith("1 nodes are left of the 2 that must run: the next round waits ")


async def test_a_shutdown_ends_the_job_once():
    async with bench() as rdzv, rdzv.running() as (a, _):
        rid = request_id()
        for _ in range(2):
            answer = await rdzv.stub.RequestShutdown(pb.RequestShutdownRequest(request_id=rid, reason="enough"))
            assert (answer.decision.exit_code, answer.decision.because.code) == (0, "SHUTDOWN_REQUESTED")
        assert (await a.until_goal("exit")).code == 0
        assert (await rdzv.stub.GetVerdict(pb.GetVerdictRequest())).decision.because.sentence == "enough"


async def test_another_job_is_refused_by_observers_calls():
    async with bench() as rdzv, rdzv.running():
        for call in (
            rdzv.stub.GetJob(pb.GetJobRequest(job_id="other")),
            rdzv.stub.ListNodes(pb.ListNodesRequest(job_id="other")),
            rdzv.stub.ListRecoveries(pb.ListRecoveriesRequest(job_id="other")),
            rdzv.stub.GetVerdict(pb.GetVerdictRequest(job_id="other")),
            rdzv.stub.RequestShutdown(pb.RequestShutdownRequest(request_id="r", job_id="other")),
        ):
            problem = await refusal_of(call)
            assert isinstance(problem, WrongJob) and problem.served == "job"


# --- a journal that fails ---------------------------------------------------------------------------------------------


async def test_a_failed_journal_stops_deciding_and_says_unready():
    async with bench() as rdzv, rdzv.running() as (a, _):
        token = await rdzv.token()
        waiting = asyncio.ensure_future(refusal_of(rdzv.stub.Wait(pb.WaitRequest(token=token, key="k"), timeout=30)))
        await rdzv.stub.Get(pb.GetRequest(token=token, key="k"))
        rdzv.journal.failing = "no space left on device"
        problem = await refusal_of(rdzv.stub.Put(pb.PutRequest(request_id="r1", token=token, key="k", value=b"v")))
        assert isinstance(problem, Unready) and problem.because.code is Reason.JOURNAL_FAILED
        assert "no space left" in problem.because.sentence and problem.definite
        assert rdzv.failures and "no space left" in rdzv.failures[0]
        error = await a.until_refused()
        assert isinstance(problem_of(error), Unready), "launchers learn why, and keep their workers"
        assert isinstance(await asyncio.wait_for(waiting, 5), Unready)
        assert not any(goal.HasField("exit") or goal.HasField("down") for goal in a.goals)
        problem = await refusal_of(rdzv.stub.Put(pb.PutRequest(request_id="r2", token=token, key="k", value=b"v")))
        assert isinstance(problem, Unready)


async def test_what_was_answered_is_there_after_a_restart_and_what_was_not_is_not():
    async with bench() as rdzv, rdzv.running():
        token = await rdzv.token()
        await rdzv.stub.Add(pb.AddRequest(request_id="once", token=token, key="n", delta=1))
        journal = rdzv.journal
    async with bench(journal=journal) as rdzv, rdzv.running() as (a, _):
        assert a.run.generation == 1, "launchers that return go on with the generation they run"
        token = await rdzv.token()
        assert (await rdzv.stub.Get(pb.GetRequest(token=token, key="n"))).value == b"1"
        assert (await rdzv.stub.Add(pb.AddRequest(request_id="once", token=token, key="n", delta=1))).value == 1


async def test_a_launcher_that_knows_more_than_the_journal_raises_the_generation():
    async with bench() as rdzv, rdzv.launcher("n0", hello_fields={"highest_generation": 41, "highest_attempt": 3}):
        token = await wait_until_async(lambda: spoken_for(rdzv))
        assert (token.generation, token.attempt) == (43, 3), "a number that nobody has used, above the adopted one"


async def spoken_for(rdzv):
    job = await rdzv.job()
    return job.token if job.HasField("token") else None
