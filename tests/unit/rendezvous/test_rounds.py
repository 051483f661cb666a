"""When a round closes, and what it waits for."""

from __future__ import annotations

import dataclasses

import pytest

from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import Verdict, VerdictKind
from resurge_rendezvous.core.model import NodePhase, StoreOffer
from tests.unit.rendezvous.desk import RESTART, Desk, spec, started


def waits_for(d: Desk) -> Reason | None:
    return d.state.volatile.waits_for.code if d.state.volatile.waits_for else None


def test_a_first_round_closes_at_once_when_min_nodes_are_ready():
    d = Desk()
    d.hello("n0")
    d.ready("n0")
    assert waits_for(d) is Reason.BELOW_MIN_NODES
    d.hello("n1")
    d.ready("n1")
    assert (d.stage, d.told("n0"), d.told("n1")) == ("Running", "RUN 1", "RUN 1")
    run = d.run_of("n1")
    assert (run.group_rank, run.world_size, run.master_addr, run.master_port) == (1, 2, "n0", 29500)
    assert (run.cycle, run.incident, run.restarts_spent) == (0, None, 0)


@pytest.mark.parametrize("served", ["n0", "n1"])
def test_all_are_told_whether_the_first_nodes_store_answers_already(served: str):
    d = Desk()
    for node in ("n0", "n1"):
        d.hello(node)
        d.ready(node, store_offer=StoreOffer(node, 29500, is_served=node == served))
    assert [d.run_of(node).store_is_served for node in ("n0", "n1")] == [served == "n0"] * 2


def test_a_node_without_a_store_offer_is_not_ready():
    d = Desk()
    d.join("n0")
    d.hello("n1")
    d.ready("n1", store_offer=None)
    assert d.stage == "Gathering"
    d.ready("n1")
    assert d.stage == "Running"


@pytest.mark.users_row(7)
@pytest.mark.users_row(49)
def test_too_few_nodes_end_the_job_by_name():
    d = Desk()
    d.join("n0")
    d.wait(d.limits.quorum_wait_s + 1, ("n0",))
    assert d.told("n0") == "EXIT 1"
    assert d.job.stage.decision.because.code is Reason.QUORUM_TIMEOUT


def test_a_restart_keeps_the_order_of_survivors_and_uses_a_spare():
    d = Desk(spec(min_nodes=3, max_nodes=4))
    for name, rank in (("n0", 0), ("n2", 2), ("n3", 3), ("n1", 1)):
        d.hello(name, infra_rank=rank)
        d.ready(name)
    d.proven("n0", "n2", "n3")
    d.close("n2")
    d.crash("n3")
    d.verdict()
    d.down("n0", "n3")
    d.wait(1.2, ("n0", "n1", "n3"))
    assert [d.run_of(n).group_rank for n in ("n0", "n1", "n3")] == [0, 1, 2]
    assert d.job.nodes.get("n2").lost.code is Reason.STREAM_LOST


def test_the_round_waits_for_verdict_teardown_and_backoff():
    d = started()
    d.crash("n1")
    assert waits_for(d) is Reason.WAITING_FOR_VERDICT
    d.verdict(dataclasses.replace(RESTART, delay_s=3.0))
    assert waits_for(d) is Reason.WAITING_FOR_TEARDOWN
    d.down("n0", "n1")
    assert waits_for(d) is Reason.BACKOFF
    d.wait(2.0, ("n0", "n1"))
    assert d.stage == "Fenced"
    d.wait(1.1, ("n0", "n1"))
    assert d.told("n0") == "RUN 2"


def test_ready_said_before_the_order_confirms_nothing():
    d = Desk()
    d.join("n0", "n1")
    d.running("n0")
    d.crash("n0")
    d.verdict()
    d.down("n0")
    d.tell("n1", NodePhase.READY, 0, revision_seen=d.revisions["n1"] - 1)
    assert d.stage == "Fenced"
    d.tell("n1", NodePhase.READY, 0)
    assert d.stage == "Proving", "it has seen the order and is ready: it never started generation 1"


def test_ready_from_before_the_start_is_no_fault():
    d = Desk()
    d.join("n0", "n1")
    d.tell("n0", NodePhase.READY, 0, revision_seen=1)
    assert d.stage == "Running"


def test_a_node_that_ended_its_workers_by_itself_is_a_fault():
    d = started()
    d.tell("n1", NodePhase.READY, 1)
    assert d.stage == "Fenced"
    d.verdict()
    d.down("n0")
    assert d.told("n1") == "RUN 2"


def test_a_silent_member_keeps_its_place_until_its_lease_is_over():
    d = started(None, "n2")
    d.crash("n0")
    d.verdict()
    d.down("n0")
    d.wait(4.0, ("n0", "n2"))
    assert d.stage == "Fenced"
    d.wait(2.0, ("n0", "n2"))
    assert (d.told("n0"), d.told("n2")) == ("RUN 2", "RUN 2")
    assert d.job.nodes.get("n1").lost.code is Reason.LEASE_EXPIRED


def test_a_member_whose_stream_was_closed_has_the_resume_window_while_an_incident_is_open():
    d = started(None, "n2")
    d.close("n1")
    d.wait(1.5, ("n0", "n2"))
    assert d.stage == "Running", "no incident is open: it has longer"
    d.crash("n0")
    d.verdict()
    d.down("n0")
    d.wait(0.01, ("n0", "n2"))
    assert d.told("n2") == "RUN 2"


def test_a_closed_stream_opens_an_incident_though_no_peer_says_anything():
    d = started(None, "n2")
    d.close("n1")
    closed_at = d.wall
    d.wait(2.01, ("n0", "n2"))
    assert d.stage == "Fenced"
    cause = d.job.stage.incident.first_cause
    assert (cause.node, cause.because.code) == ("n1", Reason.STREAM_LOST)
    assert cause.at == pytest.approx(closed_at, abs=0.01)


def test_a_member_that_comes_back_in_its_window_keeps_its_place():
    d = started(None, "n2")
    d.crash("n0")
    d.close("n1")
    d.verdict()
    d.down("n0")
    d.wait(0.5, ("n0", "n2"))
    d.hello("n1", pid=1)
    d.down("n1")
    assert (d.told("n1"), d.told("n2")) == ("RUN 2", "PARK")


def test_the_last_call_waits_for_a_member_that_confirmed_and_lost_its_stream():
    d = started(Desk(spec(max_nodes=3)), "n2")
    d.crash("n0")
    d.down("n0", "n1")
    d.close("n1", by_peer=False)
    d.verdict()
    assert waits_for(d) is Reason.LAST_CALL
    d.wait(1.0, ("n0", "n2"))
    assert d.stage == "Fenced"
    d.hello("n1", pid=1)
    d.ready("n1")
    assert (d.told("n1"), d.told("n2")) == ("RUN 2", "PARK")


def test_the_last_call_ends_and_is_skipped_for_the_dead():
    d = started(None, "n2")
    d.crash("n0")
    d.down("n0", "n1")
    d.close("n1", by_peer=True)
    d.verdict()
    d.wait(1.1, ("n0", "n2"))
    assert d.told("n2") == "RUN 2"


def test_a_stuck_teardown_costs_one_node_not_the_job():
    d = started(None, "n2")
    d.crash("n0")
    d.verdict()
    d.down("n0")
    d.tell("n1", NodePhase.STUCK, 1)
    d.beat("n1")
    assert d.last.actions[0].lease_ttl_s == 0.0
    d.wait(5.6, ("n0", "n1", "n2"))
    assert (d.told("n0"), d.told("n2")) == ("RUN 2", "RUN 2")
    assert d.job.nodes.get("n1").lost.code is Reason.NODE_STUCK
    d.tell("n1", NodePhase.READY, 1)
    assert d.job.nodes.get("n1").lost is None
    assert d.told("n1") == "PARK"


@pytest.mark.users_row(67)
def test_a_launcher_that_beats_but_never_tears_down_is_given_up():
    d = started(None, "n2")
    d.crash("n0")
    d.verdict()
    d.down("n0")
    d.wait(60.0, ("n0", "n1", "n2"))
    assert d.told("n2") == "RUN 2"
    assert d.job.nodes.get("n1").lost.code is Reason.NODE_STUCK


def test_all_of_a_generation_unreachable_does_not_run_twice():
    d = started(None, "n2", "n3")
    d.wait(30.0, ("n2", "n3"))
    assert d.stage == "Fenced"
    d.verdict()
    assert waits_for(d) is Reason.ALL_LOST_WAIT
    assert (d.told("n2"), d.told("n3")) == ("PARK", "PARK")
    d.wait(61.0, ("n2", "n3"))
    assert d.told("n2") == "EXIT 1"
    assert d.job.stage.decision.because.code is Reason.ALL_LOST_WAIT


def test_all_of_a_generation_unreachable_is_replaced_behind_the_strict_fence():
    d = started(Desk(spec(strict_fence=True)), "n2", "n3")
    d.wait(10.0, ("n2", "n3"))
    d.verdict()
    assert d.stage == "Fenced"
    d.wait(61.0, ("n2", "n3"))
    assert d.told("n2") == "RUN 2"


def test_one_node_of_the_unreachable_that_comes_back_frees_the_way():
    d = started(None, "n2", "n3")
    d.wait(10.0, ("n2", "n3"))
    d.verdict()
    d.tell("n0", NodePhase.RUNNING, 1)
    assert d.told("n0") == "DOWN 1"
    d.beat("n0")
    assert d.last.actions[0].lease_ttl_s == 0.0, "it holds a fenced generation"
    d.down("n0")
    assert d.stage == "Proving"
    assert d.told("n0").startswith("RUN 2")


def test_launchers_known_to_be_dead_are_replaced_when_their_leases_are_over():
    d = started(None, "n2", "n3")
    d.close("n0")
    d.close("n1")
    d.wait(3.0, ("n2", "n3"))
    d.verdict()
    assert waits_for(d) is Reason.ALL_LOST_WAIT, "a launcher that lives would be back within its lease"
    assert (d.told("n2"), d.told("n3")) == ("PARK", "PARK")
    d.wait(3.0, ("n2", "n3"))
    assert (d.told("n2"), d.told("n3")) == ("RUN 2", "RUN 2")


def test_segments_wait_until_they_are_whole():
    d = Desk(spec(min_nodes=2, max_nodes=4, segment=2))
    d.hello("a0", infra_rank=0, domain="a")
    d.ready("a0")
    d.hello("b0", infra_rank=1, domain="b")
    d.ready("b0")
    assert waits_for(d) is Reason.SEGMENT_UNFILLED
    d.hello("b1", infra_rank=2, domain="b")
    d.ready("b1")
    assert (d.told("a0"), d.told("b0"), d.told("b1")) == ("PARK", "RUN 1", "RUN 1")


def test_an_excluded_node_stays_out_until_readmitted():
    d = started(None, "n2")
    verdict = Verdict(
        VerdictKind.RESTART_EXCLUDING, Because(Reason.EXCLUDED, "bad"), excluded=frozenset({"n1"}), source="policy"
    )
    d.crash("n1")
    d.verdict(verdict)
    d.down("n0", "n1")
    assert (d.told("n1"), d.told("n2")) == ("PARK", "RUN 2")
    d.proven("n0", "n2")
    d.crash("n2")
    d.close("n2")
    d.verdict()
    d.down("n0")
    d.wait(2.0, ("n0", "n1"))
    assert waits_for(d) is Reason.BELOW_MIN_NODES


def test_an_exclusion_that_would_make_min_unreachable_is_recorded_and_the_node_kept():
    d = started()
    verdict = Verdict(
        VerdictKind.RESTART_EXCLUDING, Because(Reason.WORKER_SIGNAL, "bad"), excluded=frozenset({"n1"}), source="policy"
    )
    d.crash("n1")
    d.verdict(verdict)
    d.down("n0", "n1")
    assert d.told("n1") == "RUN 2"
    assert d.job.nodes.get("n1").would_exclude.code is Reason.WOULD_EXCLUDE


def test_a_node_that_was_told_to_leave_is_replaced_and_not_used_again():
    d = started(None, "n2")
    d.tell("n1", NodePhase.LEAVING, 1, leaving_signal=15)
    assert d.stage == "Fenced"
    assert d.job.stage.incident.first_cause.because.code is Reason.NODE_LEFT
    d.verdict()
    d.down("n0")
    d.tell("n1", NodePhase.READY, 1)
    assert (d.told("n0"), d.told("n2")) == ("RUN 2", "RUN 2")
    d.close("n1")
    assert d.job.nodes.get("n1").lost.code is Reason.NODE_LEFT


def test_when_everybody_was_told_to_leave_the_attempt_is_over():
    d = started()
    for node in ("n0", "n1"):
        d.tell(node, NodePhase.LEAVING, 1, leaving_signal=15)
    for node in ("n0", "n1"):
        d.tell(node, NodePhase.READY, 1)
        d.close(node)
    assert d.stage == "Ended"
    assert (d.job.stage.decision.because.code, d.job.stage.decision.exit_code) == (Reason.PREEMPTED, 128 + 15)
