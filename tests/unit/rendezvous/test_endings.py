"""How a job ends, and that everybody learns it."""

from __future__ import annotations

import pytest

from resurge_libs.core.ids import NodeId, Rank, RequestId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Reason
from resurge_libs.core.refusals import BadRequest, Unready
from resurge_rendezvous.core.model import (
    ExcludeAsked,
    ExitRecord,
    NodePhase,
    ReadmitAsked,
    ShutdownAsked,
    TerminalDecision,
)
from resurge_rendezvous.core.views import JobPhase, NodeStanding, job_view
from tests.unit.rendezvous.desk import Desk, spec, started


def acknowledge(d: Desk, *nodes: str):
    for node in nodes:
        d.tell(node, NodePhase.READY, 1, exit_acknowledged=True)


def test_the_job_has_succeeded_when_every_member_has_finished():
    d = started(None, "n2")
    d.finish("n0")
    assert d.stage == "Running"
    assert job_view(d.state).phase is JobPhase.FINISHING
    d.finish("n1")
    assert [d.told(n) for n in ("n0", "n1", "n2")] == ["EXIT 0"] * 3
    assert d.job.stage.decision.because.code is Reason.SUCCEEDED


def test_a_finished_node_may_be_lost_without_harm():
    d = started(None, "n2")
    d.finish("n0")
    d.close("n0")
    d.wait(20.0, ("n1", "n2"))
    assert d.job.nodes.get("n0").lost is not None
    assert d.stage == "Running"
    d.finish("n1")
    assert d.told("n1") == "EXIT 0"


def test_a_fault_while_some_are_finished_is_held_for_the_finish_window():
    d = started(None, "n2")
    d.finish("n0")
    d.crash("n1")
    assert d.stage == "Running"
    d.wait(4.9, ("n0", "n1", "n2"))
    assert d.stage == "Running"
    d.wait(0.2, ("n0", "n1", "n2"))
    assert d.stage == "Fenced"
    assert d.job.stage.incident.first_cause.because.code is Reason.WORKER_SIGNAL
    d.verdict()
    d.down("n0", "n1")
    assert d.told("n0") == "RUN 2"


def test_a_loss_while_some_are_finished_is_forgiven_when_the_node_comes_back_finished():
    d = started()
    d.now += 3.0
    d.finish("n0")
    d.wait(3.0, ("n0",))
    assert (d.stage, len(d.state.volatile.held_faults)) == ("Running", 1)
    d.finish("n1")
    assert d.told("n0") == "EXIT 0"
    assert d.job.nodes.get("n1").lost is None


def test_a_rank_that_exits_0_long_before_its_peers_is_a_fault_with_its_own_reason():
    d = started()
    done = ExitRecord(Rank(1), 0, 1, Wall(d.wall), exit_code=0)
    d.tell("n1", NodePhase.RUNNING, 1, exits=(done,))
    at = d.wall
    d.wait(d.limits.finish_skew_limit_s + 0.1, ("n0", "n1"))
    assert d.stage == "Fenced"
    cause = d.job.stage.incident.first_cause
    assert (cause.because.code, cause.node, cause.rank, cause.at) == (Reason.FINISH_SKEW, "n1", 1, at)


def test_a_node_that_finished_long_before_the_others_is_a_finish_skew_too():
    d = started()
    d.finish("n0")
    d.wait(d.limits.finish_skew_limit_s + 0.1, ("n0", "n1"))
    assert d.job.stage.incident.first_cause.because.code is Reason.FINISH_SKEW


@pytest.mark.users_row(43)
def test_the_end_is_told_until_each_has_acknowledged_and_then_they_may_leave():
    d = started(None, "n2")
    d.finish("n0", "n1")
    assert not d.goals["n2"].all_acknowledged
    acknowledge(d, "n0", "n1")
    assert not d.goals["n0"].all_acknowledged
    acknowledge(d, "n2")
    assert all(d.goals[n].all_acknowledged for n in ("n0", "n1", "n2"))
    assert job_view(d.state).all_acknowledged


def test_one_that_is_gone_is_waited_for_until_its_lease_is_over():
    d = started(None, "n2")
    d.close("n2")
    d.finish("n0", "n1")
    acknowledge(d, "n0", "n1")
    assert not d.goals["n0"].all_acknowledged
    d.wait(5.6, ("n0", "n1"))
    assert d.goals["n0"].all_acknowledged


def test_a_restarted_service_tells_the_end_again():
    d = started(None, "n2")
    d.finish("n0", "n1")
    d.restart_service()
    for node in ("n0", "n1", "n2"):
        d.hello(node, pid=1)
        assert d.told(node) == "EXIT 0"
    acknowledge(d, "n0", "n1", "n2")
    assert d.goals["n2"].all_acknowledged


def test_a_launcher_that_comes_back_after_the_end_learns_it():
    d = started(None, "n2")
    d.close("n2")
    d.wait(6.0, ("n0", "n1"))
    d.finish("n0", "n1")
    acknowledge(d, "n0", "n1")
    d.hello("n2", pid=1)
    assert d.told("n2") == "EXIT 0"
    assert d.goals["n2"].all_acknowledged


def test_the_first_terminal_decision_stays():
    d = started()
    d.finish("n0", "n1")
    before = d.job.stage.decision
    d.ask(ShutdownAsked(d.stamp(), RequestId("r"), "enough"))
    assert d.replies[-1] == before
    assert d.job.stage.decision == before


def test_faults_after_the_end_change_nothing():
    d = started()
    d.finish("n0", "n1")
    d.crash("n1")
    d.wait(30.0)
    assert d.stage == "Ended"
    assert d.job.stage.decision.exit_code == 0


# --- orders ---


def test_a_shutdown_ends_the_job_also_during_an_incident():
    d = started()
    d.crash("n1")
    d.ask(ShutdownAsked(d.stamp(), RequestId("r"), "enough"))
    assert isinstance(d.replies[-1], TerminalDecision)
    assert (d.told("n0"), d.told("n1")) == ("EXIT 0", "EXIT 0")
    assert d.exported[-1].outcome.value == "ENDED"


def test_an_order_before_the_job_is_open_is_refused():
    d = Desk()
    with pytest.raises(Unready):
        d.ask(ShutdownAsked(d.stamp(), RequestId("r"), "enough"))


def test_a_request_id_of_another_order_is_refused_and_nothing_is_done():
    d = started(None, "n2")
    one = RequestId("r")
    d.ask(ExcludeAsked(d.stamp(), one, NodeId("n2"), "slow"))
    d.ask(ExcludeAsked(d.stamp(), one, NodeId("n2"), "slow"))
    for event in (ReadmitAsked(d.stamp(), one, NodeId("n2")), ShutdownAsked(d.stamp(), one, "enough")):
        with pytest.raises(BadRequest, match="request_id"):
            d.ask(event)
    assert d.job.nodes.get("n2").exclusion is not None
    assert d.stage == "Running"


def test_excluding_an_unknown_node_names_the_known_ones():
    d = started()
    with pytest.raises(BadRequest, match="n0, n1"):
        d.ask(ExcludeAsked(d.stamp(), RequestId("r"), "n9", "bad"))


def test_an_exclusion_ends_by_time_or_by_order():
    d = started(None, "n2")
    d.ask(ExcludeAsked(d.stamp(), RequestId("r1"), "n2", "slow", lasts_s=10.0))
    assert job_view(d.state).nodes[2].standing is NodeStanding.EXCLUDED
    d.wait(9.0, ("n0", "n1", "n2"))
    assert d.job.nodes.get("n2").exclusion is not None
    d.wait(1.1, ("n0", "n1", "n2"))
    assert d.job.nodes.get("n2").exclusion is None
    d.ask(ExcludeAsked(d.stamp(), RequestId("r2"), "n2", "slow"))
    d.ask(ReadmitAsked(d.stamp(), RequestId("r3"), "n2"))
    assert d.job.nodes.get("n2").exclusion is None


def test_a_repeated_order_is_taken_once():
    d = started(None, "n2")
    order = ExcludeAsked(d.stamp(), RequestId("r1"), "n2", "slow")
    d.ask(order)
    d.ask(ReadmitAsked(d.stamp(), RequestId("r2"), "n2"))
    d.ask(order)
    assert d.job.nodes.get("n2").exclusion is None, "the repeat came late and must not exclude anew"


def test_a_timed_exclusion_survives_a_restart_of_the_service():
    d = started(None, "n2")
    d.ask(ExcludeAsked(d.stamp(), RequestId("r1"), "n2", "slow", lasts_s=10.0))
    d.restart_service()
    for node in ("n0", "n1", "n2"):
        d.hello(node, pid=1)
    d.running("n0", "n1")
    d.wait(10.5, ("n0", "n1", "n2"))
    assert d.job.nodes.get("n2").exclusion is None


def test_success_in_the_midst_of_a_recovery_closes_its_record():
    d = started(Desk(spec()))
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    d.finish("n0", "n1")
    assert d.told("n0") == "EXIT 0"
    assert d.exported[-1].outcome.value == "STARTED_ONLY"


def test_a_member_that_was_clear_before_the_fence_counts_as_confirmed():
    d = started(Desk(spec(min_nodes=2, max_nodes=4)), "n2", "n3")
    d.finish("n0")
    d.tell("n1", NodePhase.READY, 1)
    assert d.stage == "Running", "held, as n0 has finished"
    d.wait(5.1, ("n0", "n1", "n2", "n3"))
    d.verdict()
    d.wait(8.0, ("n1", "n2", "n3"))
    assert d.told("n1") == "RUN 2", "n0 is lost, and n1 had told that it is clear"


def standings(d: Desk) -> list[NodeStanding]:
    return [node.standing for node in job_view(d.state).nodes]


def test_a_launcher_that_leaves_when_the_job_has_ended_is_no_loss():
    d = started(None, "n2")
    d.finish("n0", "n1")
    acknowledge(d, "n0", "n1", "n2")
    d.close("n0")
    assert standings(d)[0] is NodeStanding.LEFT
    d.close("n1")
    d.close("n2")
    d.wait(20.0)
    assert standings(d) == [NodeStanding.LEFT] * 3
    assert "left" in job_view(d.state).nodes[0].because.sentence
    d.restart_service()
    assert standings(d) == [NodeStanding.LEFT] * 3
    assert [node.generation for node in job_view(d.state).nodes] == [1, 1, 0], "n2 was a spare"


def test_a_node_that_was_gone_before_the_end_stays_lost_and_one_that_never_heard_of_it_is_silent():
    d = started(None, "n2", "n3")
    d.close("n2")
    d.wait(20.0, ("n0", "n1", "n3"))
    d.close("n3")
    d.wait(0.5, ("n0", "n1"))
    d.finish("n0", "n1")
    assert standings(d)[2:] == [NodeStanding.LOST, NodeStanding.SILENT]
    assert "has not said that it knows" in job_view(d.state).nodes[3].because.sentence
    d.wait(20.0, ("n0", "n1"))
    assert standings(d)[2:] == [NodeStanding.LOST] * 2


def test_a_launcher_that_falls_silent_after_the_end_has_not_left():
    d = started(None, "n2")
    d.finish("n0", "n1")
    acknowledge(d, "n0", "n1")
    d.close("n2", by_peer=False)
    d.wait(20.0, ("n0", "n1"))
    assert d.job.nodes.get("n2").lost.code is Reason.LEASE_EXPIRED
