"""A launcher's stream: introduction, goals, beats, and every refusal that the contract names."""

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_libs.core.ids import IncidentId
from resurge_libs.core.refusals import AlreadyAttached, BadRequest, Superseded, VersionMismatch, WrongJob
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.obs.traceparent import TraceContext
from resurge_libs.rpc.errors import problem_of
from resurge_libs.testing.wait import wait_until_async
from resurge_rendezvous.settings import RendezvousSettings
from tests.contract.rendezvous_bench import bench
from tests.fakes.launcher import Habits, job_spec

QUIET = Habits(beats_every_s=0)


async def test_a_job_runs_recovers_and_ends_over_the_wire():
    async with bench() as rdzv, rdzv.running() as (a, b):
        first = a.run
        assert (first.generation, first.cycle, first.world_size, first.group_world_size) == (1, 0, 4, 2)
        assert {a.run.base_rank, b.run.base_rank} == {0, 2}
        b.crash_rank(signal=11)
        down = await a.until(lambda node: any(goal.HasField("down") for goal in node.goals))
        ordered = next(goal.down for goal in down.goals if goal.HasField("down"))
        second = await a.until_goal("run", generation=2)
        assert second.incident_id == ordered.incident_id != ""
        assert second.traceparent == TraceContext.of_recovery(IncidentId(second.incident_id)).traceparent
        assert (second.restarts_spent, second.cycle) == (1, 1)
        assert [view.round for view in rdzv.policy.asked] == [0]
        await b.until_goal("run", generation=2)
        a.finish()
        b.finish()
        ended = await a.until_goal("exit", all_acknowledged=True)
        assert (ended.code, ended.because.code, ended.generation) == (0, "SUCCEEDED", 2)
        await wait_until_async(lambda: rdzv.endings == [True])


async def test_revisions_rise_and_an_unchanged_goal_is_not_sent_again():
    async with bench() as rdzv, rdzv.running() as (a, _):
        a.beat()
        await a.until(lambda node: node.beat_replies)
        revisions = [goal.revision for goal in a.goals]
        assert revisions == sorted(set(revisions)) and revisions[0] > 0


async def test_a_beat_is_answered_with_its_four_times_and_writes_no_journal():
    async with bench() as rdzv, rdzv.running() as (a, _):
        replies = len(a.beat_replies)
        a.beat()
        await a.until(lambda node: len(node.beat_replies) > replies)
        reply = a.beat_replies[-1]
        times = [stamp.ToNanoseconds() for stamp in (reply.launcher_sent, reply.received, reply.sent)]
        assert times == sorted(times) and times[0] > 0
        assert reply.lease_ttl.seconds == 5
        assert "BeatReceived" not in {entry.event for entry in rdzv.journal.entries}


@pytest.mark.users_row(41)
async def test_a_surplus_node_is_parked_and_not_an_error():
    async with bench() as rdzv, rdzv.running(), rdzv.launcher("n9", job_spec()) as spare:
        park = await spare.until_goal("park")
        assert park.because.code == "NODE_PARKED"


async def test_a_stream_must_begin_with_its_introduction():
    async with bench() as rdzv:
        call = rdzv.stub.Attach()
        await call.write(pb.AttachRequest(observed=attach_pb2.Observed(phase=attach_pb2.NODE_PHASE_READY)))
        with pytest.raises(grpc.RpcError) as refused:
            await call.read()
        problem = problem_of(refused.value)
        assert isinstance(problem, BadRequest) and problem.violations[0].field == "observed.hello"


async def test_a_stream_that_never_introduces_itself_is_closed():
    async with bench(settings=RendezvousSettings(hello_limit_s=0.05)) as rdzv:
        with pytest.raises(grpc.RpcError) as refused:
            await rdzv.stub.Attach().read()
        assert "did not come within" in str(problem_of(refused.value))


async def test_a_second_introduction_and_a_malformed_message_end_that_stream_alone():
    bad = pb.AttachRequest(observed=attach_pb2.Observed(phase=99))
    async with bench() as rdzv, rdzv.running(("n0", "n1", "n2"), job_spec(nodes="2:3")) as (a, b, spare):
        again = pb.AttachRequest(observed=attach_pb2.Observed(hello=spare.hello(), phase=1))
        for message, field in ((again, "observed.hello"), (bad, "observed.phase")):
            await spare.attach()
            await spare.until_goal("park")
            spare.send_raw(message)
            problem = problem_of(await spare.until_refused())
            assert isinstance(problem, BadRequest) and problem.violations[0].field == field
        assert (a.refused, b.refused) == (None, None)
        assert a.run.generation == 1


async def test_another_protocol_version_is_refused():
    async with bench() as rdzv, rdzv.launcher(hello_fields={"protocol_version": 7}) as old:
        error = await old.until_refused()
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        problem = problem_of(error)
        assert isinstance(problem, VersionMismatch) and (problem.presented, problem.supported) == (7, 1)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (job_spec("other"), ""),
        (job_spec(nodes="1:2"), "min_nodes"),
        (job_spec(max_restarts=9), "max_restarts"),
        (job_spec(command_digest="d2"), "command_digest"),
    ],
)
async def test_another_job_on_this_endpoint_is_refused_with_the_field_that_differs(spec, field):
    async with bench() as rdzv, rdzv.running(), rdzv.launcher("n5", spec) as stranger:
        error = await stranger.until_refused()
        problem = problem_of(error)
        assert isinstance(problem, WrongJob) and problem.field == field
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_service_that_was_given_a_job_serves_no_other():
    async with bench(job_id="mine") as rdzv:
        async with rdzv.launcher("n0", job_spec("other")) as stranger:
            assert isinstance(problem_of(await stranger.until_refused()), WrongJob)
        async with rdzv.running(spec=job_spec("mine")):
            assert (await rdzv.job()).spec.job_id == "mine"


async def test_a_second_launcher_of_a_node_is_refused_and_harms_nothing():
    async with bench() as rdzv, rdzv.running() as (a, _), rdzv.launcher("n0", incarnation=2) as second:
        error = await second.until_refused()
        assert error.code() is grpc.StatusCode.ALREADY_EXISTS
        problem = problem_of(error)
        assert isinstance(problem, AlreadyAttached) and "host-of-n0" in problem.holder
        assert a.refused is None and (await rdzv.token()).generation == 1


async def test_a_launcher_that_is_taken_over_is_told_so():
    async with bench() as rdzv, rdzv.running() as (a, _):
        async with rdzv.launcher("n0", incarnation=2, hello_fields={"take_over": True}):
            error = await a.until_refused()
            assert error.code() is grpc.StatusCode.ABORTED
            problem = problem_of(error)
            assert isinstance(problem, Superseded) and (problem.presented, problem.current) == (1, 2)


async def test_a_lease_that_contradicts_the_limits_of_the_service_is_refused():
    spec = job_spec()
    spec.lease_ttl.seconds = 900
    async with bench() as rdzv, rdzv.launcher("n0", spec) as greedy:
        problem = problem_of(await greedy.until_refused())
        assert isinstance(problem, BadRequest) and "lease_ttl" in problem.violations[0].field


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
async def test_a_share_that_is_none_is_refused(share):
    spec = job_spec()
    spec.max_excluded_share = share
    async with bench() as rdzv, rdzv.launcher("n0", spec) as greedy:
        problem = problem_of(await greedy.until_refused())
        assert isinstance(problem, BadRequest) and "max_excluded_share" in problem.violations[0].field


async def test_a_launcher_that_closes_its_side_is_detached_and_may_return():
    async with bench() as rdzv, rdzv.running() as (a, _):
        await a.vanish()
        await a.attach()
        await a.until(lambda node: len(node.goals) > 1)
        assert a.run.generation == 1, "coming back within the window costs nothing"


async def test_a_beat_with_a_time_that_cannot_be_is_refused():
    async with bench() as rdzv, rdzv.launcher("n0", habits=QUIET) as node:
        beat = attach_pb2.Beat(sequence=1, sent=Timestamp(seconds=-1))
        node.send_raw(pb.AttachRequest(observed=attach_pb2.Observed(phase=1, beat=beat)))
        assert problem_of(await node.until_refused()).violations[0].field == "observed.beat.sent"


@pytest.mark.users_row(36)
@pytest.mark.users_row(46)
async def test_silence_costs_a_lease_and_the_record_says_so():
    limits = TimeLimits(lease_ttl_s=0.3, fault_grace_s=0.05)
    spec = job_spec(nodes="1:2", lease_ttl=None, fault_grace=None)
    async with bench(limits=limits) as rdzv, rdzv.running(("n0",), spec) as (a,):
        a.habits.beats_every_s = 0
        for task in a._tasks[2:]:
            task.cancel()
        async with rdzv.launcher("n1", spec, habits=Habits(beats_every_s=0.05)) as spare:
            await spare.until_goal("park")
            job = await wait_until_async(lambda: lost(rdzv), limit_s=5.0)
            node = next(item for item in job.nodes if item.node_id == "n0")
            assert node.because.code == "LEASE_EXPIRED"


async def lost(rdzv):
    job = await rdzv.job()
    return job if any(node.standing == pb.NODE_STANDING_LOST for node in job.nodes) else None
