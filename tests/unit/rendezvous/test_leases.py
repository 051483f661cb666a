"""Leases, pauses of the service, and its restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.model import AnswerBeat, BeatsReceived, NodePhase, Paused, Tick
from resurge_rendezvous.core.views import NodeStanding, job_view
from tests.unit.rendezvous.desk import Desk, spec, started


@pytest.mark.users_row(36)
def test_beats_keep_a_node_and_silence_loses_it():
    d = started()
    d.wait(60.0, ("n0", "n1"))
    assert d.stage == "Running"
    d.wait(5.4, ("n0",))
    assert d.stage == "Running"
    d.wait(2.2, ("n0",))
    assert d.stage == "Fenced"
    cause = d.job.stage.incident.first_cause
    assert cause.because.code is Reason.LEASE_EXPIRED
    assert 0 < cause.clock_error_s <= d.limits.beat_interval_s


def test_a_node_that_ended_its_workers_is_named_by_that_and_its_clearness_is_no_further_fault():
    d = started()
    d.tell("n1", NodePhase.READY, 1)
    assert d.stage == "Fenced"
    assert d.job.stage.incident.first_cause.because.code is Reason.ENDED_ITS_WORKERS
    d.tell("n0", NodePhase.READY, 1)
    assert {fault.node for fault in d.job.open_incident.faults} == {"n1"}


def test_a_lost_spare_is_no_fault():
    d = started(None, "n2")
    d.wait(6.0, ("n0", "n1"))
    assert d.stage == "Running"
    assert job_view(d.state).nodes[2].standing is NodeStanding.LOST


@pytest.mark.users_row(50)
def test_two_nodes_lost_in_one_look_are_one_incident():
    d = Desk(spec(min_nodes=3, max_nodes=3))
    d.join("n0", "n1", "n2")
    d.proven("n0", "n1", "n2")
    d.wait(1.0, ("n0",))
    d.wait(6.0, ("n0",))
    assert len(d.facts_of(f.IncidentOpened)) == 1
    assert {fault.node for fault in d.job.stage.incident.faults} == {"n1", "n2"}


def test_the_service_paused_for_ten_seconds_loses_no_lease():
    d = started(None, "n2")
    d.now += 10.0
    d.ask(Paused(d.stamp(), 10.0))
    d.ask(Tick(d.stamp()))
    assert d.stage == "Running"
    for node in ("n0", "n1", "n2"):
        d.beat(node)
    d.wait(10.0, ("n0", "n1", "n2"))
    assert d.stage == "Running"
    d.wait(8.0, ("n0",))
    assert d.stage == "Fenced", "leases still end"


def test_leases_are_longer_by_a_pause_though_a_fault_looks_at_all_of_them():
    d = started(None, "n2")
    d.now += 10.0
    d.ask(Paused(d.stamp(), 10.0))
    d.crash("n1")
    d.wait(0.1)
    assert d.facts_of(f.NodeLost) == []


def test_a_pause_moves_every_deadline():
    d = started()
    d.crash("n1")
    due = d.machine.next_deadline(d.state)
    d.ask(Paused(d.stamp(), 7.0))
    assert d.machine.next_deadline(d.state) == due + 7.0


def test_after_a_restart_each_known_lease_gets_a_full_term_and_the_window():
    d = started(None, "n2")
    d.wait(30.0, ("n0", "n1", "n2"))
    d.restart_service()
    assert job_view(d.state).nodes[0].standing is NodeStanding.SILENT
    d.wait(d.limits.lease_ttl_s + d.limits.lease_margin_s + d.limits.reconnect_window_s - 0.1)
    assert d.stage == "Running"
    d.wait(0.2)
    assert d.stage == "Fenced"


def test_a_healthy_job_outlives_its_control_plane():
    d = started(None, "n2")
    facts = len(d.facts)
    d.restart_service()
    for node in ("n0", "n1", "n2"):
        d.hello(node, pid=1)
    d.running("n0", "n1")
    d.ready("n2")
    assert [d.told(n) for n in ("n0", "n1", "n2")] == ["RUN 1", "RUN 1", "PARK"]
    assert len(d.facts) == facts
    d.wait(60.0, ("n0", "n1", "n2"))
    assert d.stage == "Running"


def test_a_fault_in_the_absence_of_the_service_is_recovered_when_it_is_back():
    d = started()
    d.restart_service()
    d.hello("n0", pid=1)
    d.hello("n1", pid=1)
    d.running("n0")
    d.crash("n1")
    assert d.stage == "Fenced"


def test_a_service_killed_in_the_midst_of_a_recovery_goes_on_with_it():
    d = started()
    d.crash("n1")
    d.restart_service()
    assert d.stage == "Fenced"
    d.wait(0.1)
    assert len(d.asked) == 2, "policy is asked again"
    d.verdict()
    for node in ("n0", "n1"):
        d.hello(node, pid=1)
        assert d.told(node) == "DOWN 1"
    d.down("n0", "n1")
    assert d.told("n0") == "RUN 2"
    d.restart_service()
    for node in ("n0", "n1"):
        d.hello(node, pid=1)
        assert d.told(node) == "RUN 2"
    d.proven("n0", "n1")
    assert d.exported[-1].outcome.value == "RECOVERED"
    names = {span.name for span in d.exported[-1].spans}
    assert {"detect", "decide", "teardown", "rendezvous", "spawn", "init", "checkpoint_restore", "first_step"} <= names


def test_a_policy_that_stays_silent_after_a_restart_meets_the_default():
    d = started()
    d.crash("n1")
    d.restart_service()
    d.wait(2.2)
    assert d.job.stage.incident.verdict.source == "default"


def test_revisions_go_on_above_what_the_launcher_has_seen():
    d = started()
    seen = d.revisions["n0"]
    d.restart_service()
    d.hello("n0", pid=1)
    assert d.revisions["n0"] > seen


def test_a_lost_node_gets_its_lease_back_only_when_it_holds_nothing_fenced():
    d = started(None, "n2")
    stream = d.streams["n1"]
    d.wait(8.0, ("n0", "n2"))
    d.verdict()
    d.down("n0")
    assert d.told("n2") == "RUN 2"
    assert d.streams["n1"] == stream
    d.tell("n1", NodePhase.RUNNING, 1)
    d.beat("n1")
    assert d.last.actions[0].lease_ttl_s == 0.0
    assert d.told("n1").startswith("DOWN")
    d.tell("n1", NodePhase.READY, d.goals["n1"].generation)
    d.beat("n1")
    assert d.last.actions[0].lease_ttl_s == d.limits.lease_ttl_s
    assert d.told("n1") == "PARK"


def test_a_beat_costs_no_fact_and_no_publication():
    d = started()
    step = d.beat("n0")
    assert step.facts == ()
    assert [type(action).__name__ for action in step.actions] == ["AnswerBeat"]


def test_a_node_taken_over_from_another_host_is_clear_only_when_the_earlier_lease_is_over():
    d = started(None, "n2")
    d.hello("n1", incarnation=2, take_over=True, host="elsewhere")
    d.ready("n1")
    d.verdict()
    d.down("n0")
    d.wait(4.0, ("n0", "n1", "n2"))
    assert d.stage == "Fenced", "workers of the launcher before may live on the other host"
    d.ask(Paused(d.stamp(), 3.0))
    d.wait(3.0, ("n0", "n1", "n2"))
    assert d.stage == "Fenced", "a pause of the service is nobody's time"
    d.wait(2.0, ("n0", "n1", "n2"))
    assert d.stage == "Proving"


def direct_beat(d: Desk, node: str, direct: int):
    d.ask(replace(d.beat_event(node), direct=direct))
    return next(action for action in d.last.actions if isinstance(action, AnswerBeat))


def test_leases_grow_with_the_launchers_that_beat_on_streams_of_their_own():
    d = Desk(spec(min_nodes=2, max_nodes=10_000))
    d.join("n0", "n1")
    ttl_s = d.limits.lease_ttl_s
    assert direct_beat(d, "n0", 2_000).lease_ttl_s == ttl_s
    assert direct_beat(d, "n0", 10_000).lease_ttl_s == 5 * ttl_s
    assert direct_beat(d, "n1", 0).lease_ttl_s == ttl_s, "behind a relay"
    d.wait(4 * ttl_s, ("n1",))
    assert d.state.volatile.seats.get("n0").lease is not None, "the service waits as long as the launcher counts"
    d.wait(2 * ttl_s, ("n1",))
    assert d.state.volatile.seats.get("n0") is None or d.state.volatile.seats.get("n0").lease is None


def test_the_first_of_a_large_job_hold_from_the_start_what_all_will_hold():
    d = Desk(spec(min_nodes=10_000, max_nodes=10_000))
    d.join("n0")
    ttl_s = d.limits.lease_ttl_s
    assert direct_beat(d, "n0", 1).lease_ttl_s == 5 * ttl_s
    assert direct_beat(d, "n0", 0).lease_ttl_s == ttl_s, "behind a relay"


def test_a_grown_lease_is_bounded_by_the_jobs_own_size_so_that_a_restarted_service_knows_how_long_to_wait():
    d = Desk(spec(min_nodes=2, max_nodes=4_000))
    d.join("n0", "n1")
    granted_s = direct_beat(d, "n0", 50_000).lease_ttl_s
    assert granted_s == 2 * d.limits.lease_ttl_s
    d.restart_service()
    assert d.state.volatile.seats.get("n0").lease.until >= d.now + granted_s


def test_beats_that_come_together_are_each_answered():
    d = started()
    d.ask(BeatsReceived(d.stamp(), (d.beat_event("n0"), d.beat_event("n1"))))
    assert [action.node for action in d.last.actions if isinstance(action, AnswerBeat)] == ["n0", "n1"]
