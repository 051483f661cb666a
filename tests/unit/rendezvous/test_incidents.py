"""Faults, incidents and verdicts."""

from __future__ import annotations

import dataclasses

import pytest

from resurge_libs.core.ids import Generation, IncidentId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import Verdict, VerdictKind
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.model import (
    ExitRecord,
    Milestone,
    MilestoneKind,
    NodePhase,
    ObservedFault,
    VerdictArrived,
    VerdictUnavailable,
)
from tests.unit.rendezvous.desk import RESTART, Desk, spec, started

STOP = Verdict(VerdictKind.STOP, Because(Reason.NO_PROGRESS, "no progress"), exit_code=93, source="policy")


@pytest.mark.users_row(25)
def test_a_silence_never_stands_before_a_fault_that_says_what_happened():
    d = started()
    silent = ObservedFault(Because(Reason.WORKER_HUNG, "rank 0 has not beaten"), Wall(d.wall - 5.0), Rank(0))
    stopped = ObservedFault(Because(Reason.WORKER_STOPPED, "rank 1 is stopped"), Wall(d.wall - 4.0), Rank(1))
    d.tell("n0", NodePhase.TEARING_DOWN, Generation(1), faults=(silent,))
    d.tell("n1", NodePhase.TEARING_DOWN, Generation(1), faults=(stopped,))
    incident = d.job.stage.incident
    assert incident.first_cause.because.code is Reason.WORKER_STOPPED
    assert incident.first_signal == silent.at


def exit_of(rank: int, at: float, **more) -> ExitRecord:
    return ExitRecord(Rank(rank), 0, 1, Wall(at), **more)


@pytest.mark.users_row(37)
def test_a_fault_fences_orders_all_down_and_asks_policy_in_one_step():
    d = started(None, "n2")
    step = d.crash("n1")
    kinds = [type(action).__name__ for action in step.actions]
    assert kinds.count("AskPolicy") == 1
    assert kinds.count("SendDesired") == 2
    assert (d.told("n0"), d.told("n1"), d.told("n2")) == ("DOWN 1", "DOWN 1", "PARK")
    assert d.job.fenced == 1
    view = d.asked[0].view
    assert (view.round, view.restarts_spent, view.max_restarts, view.nodes_available) == (0, 0, 3, 3)
    assert view.faults[0].signal == 11
    assert d.goals["n0"].incident == view.incident


def test_what_the_launcher_ended_itself_is_no_fault():
    d = started()
    d.tell("n1", NodePhase.RUNNING, 1, exits=(exit_of(1, d.wall, signal=9, ended_by_launcher=True),))
    assert d.stage == "Running"


def test_faults_of_another_generation_are_late():
    d = started()
    d.tell("n1", NodePhase.RUNNING, 0, exits=(exit_of(1, d.wall, signal=9),))
    assert d.stage == "Running"


def test_repeats_of_a_fault_add_nothing():
    d = started()
    d.crash("n1")
    facts = len(d.facts)
    d.crash("n1")
    assert len(d.facts) == facts


@pytest.mark.users_row(25)
def test_the_first_cause_is_the_earliest_first_signal_by_corrected_clocks():
    d = started()
    d.now += 1.0
    d.ask_offset("n1", 10.0)  # the clock of n1 is ten seconds slow
    d.crash("n0", signal=6, at=d.wall - 0.1)
    d.crash("n1", signal=11, at=d.wall - 10.0 - 0.4)
    incident = d.job.stage.incident
    assert incident.faults[0].node == "n0"
    assert incident.first_cause.node == "n1"
    assert incident.first_cause.at == pytest.approx(d.wall - 0.4)
    assert incident.now_round.fault_wall == incident.first_cause.at


def test_a_signal_is_never_later_than_its_telling():
    d = started()
    d.crash("n1", at=d.wall + 100.0)
    assert d.job.stage.incident.first_cause.at == d.wall


def test_a_node_that_died_before_its_victims_is_the_first_cause():
    d = started(None, "n2")
    d.now += 1.0
    d.close("n1")
    d.now += 0.2
    d.crash("n0")
    d.wait(1.2, ("n0", "n2"))
    incident = d.job.stage.incident
    assert incident.first_cause.node == "n1"
    assert incident.first_cause.because.code is Reason.STREAM_LOST


def test_a_hang_is_a_fault_with_the_launchers_reason():
    d = started()
    fault = ObservedFault(Because(Reason.WORKER_HUNG, "rank 1 has not beaten for 60 s"), Wall(d.wall - 60.0), Rank(1))
    d.tell("n1", NodePhase.RUNNING, 1, faults=(fault,))
    assert d.job.stage.incident.first_cause.because.code is Reason.WORKER_HUNG
    assert d.job.stage.incident.first_cause.rank == 1


def test_a_fault_before_the_first_step_is_a_further_round_charged_once():
    d = started()
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    assert (d.stage, d.job.restarts_spent) == ("Proving", 1)
    name = d.asked[0].view.incident
    d.running("n0", "n1")
    d.crash("n0")
    assert (d.stage, d.asked[1].view.incident, d.asked[1].view.round) == ("Fenced", name, 1)
    assert d.asked[1].view.restarts_spent == 1
    d.verdict()
    d.down("n0", "n1")
    assert [charge.round for charge in d.job.charges] == [0, 1]
    d.proven("n0", "n1")
    assert len(d.exported) == 1
    assert d.exported[0].rounds == 2
    d.crash("n1")
    assert d.asked[2].view.incident != name
    assert d.asked[2].view.round == 0


def test_crash_loops_show_in_the_ages_of_failures():
    d = started()
    for _ in range(2):
        d.crash("n1")
        d.now += 1.0
        d.verdict()
        d.down("n0", "n1")
    d.crash("n1")
    assert d.asked[-1].view.failure_ages_s == pytest.approx((1.0, 2.0))


def test_an_unavailable_policy_means_the_default_at_once():
    d = started()
    d.crash("n1")
    view = d.asked[0].view
    d.ask(VerdictUnavailable(d.stamp(), view.incident, 0, "connection refused"))
    verdict = d.job.stage.incident.verdict
    assert (verdict.kind, verdict.source) == (VerdictKind.RESTART, "default")
    assert "connection refused" in verdict.because.sentence


def test_a_silent_policy_means_the_default_after_its_limit():
    d = started()
    d.crash("n1")
    d.wait(1.9, ("n0", "n1"))
    assert d.job.stage.incident.verdict is None
    d.wait(0.2, ("n0", "n1"))
    assert "VERDICT_TIMEOUT" in d.job.stage.incident.verdict.because.sentence


def test_the_fork_of_a_verdict_and_its_timeout_has_one_winner():
    d = started()
    d.crash("n1")
    d.wait(2.1, ("n0", "n1"))
    d.verdict(STOP)
    assert d.stage == "Fenced", "the default had decided"
    assert len(d.facts_of(f.VerdictLatched)) == 1
    d.down("n0", "n1")
    assert d.stage == "Proving"
    d.proven("n0", "n1")
    d.crash("n1")
    assert d.asked[-1].view.no_restart.exit_code == 93
    d.verdict(RESTART)
    assert d.told("n0") == "EXIT 93", "the late STOP was latched for the next fault"


def test_a_verdict_of_another_incident_is_ignored():
    d = started()
    d.crash("n1")
    d.ask(VerdictArrived(d.stamp(), IncidentId("other"), 0, STOP))
    assert d.last.reason.code is Reason.LATE_EVENT_IGNORED
    assert d.job.no_restart is None


def test_a_repeated_verdict_changes_nothing():
    d = started()
    d.crash("n1")
    d.verdict()
    facts = len(d.facts)
    d.verdict()
    assert len(d.facts) == facts


@pytest.mark.users_row(54)
def test_stop_ends_the_job_with_its_code():
    d = started(None, "n2")
    d.crash("n1")
    d.verdict(STOP)
    assert [d.told(n) for n in ("n0", "n1", "n2")] == ["EXIT 93"] * 3
    assert d.exported[-1].outcome.value == "ENDED"


@pytest.mark.users_row(11)
def test_the_budget_is_held_by_rendezvous_whoever_decides():
    d = started(Desk(spec(max_restarts=1)))
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    d.proven("n0", "n1")
    d.crash("n1")
    d.verdict(RESTART)
    assert d.told("n0") == "EXIT 1"
    assert d.job.stage.decision.because.code is Reason.BUDGET_EXHAUSTED
    assert d.job.restarts_spent == 1


def test_a_late_exclusion_holds_for_the_next_round():
    d = started(None, "n2")
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    late = dataclasses.replace(RESTART, kind=VerdictKind.RESTART_EXCLUDING, excluded=frozenset({"n1"}))
    d.verdict(late)
    assert d.told("n1") == "RUN 2", "what runs goes on"
    d.proven("n0", "n1")
    d.crash("n0")
    d.verdict()
    d.down("n0", "n1")
    assert (d.told("n1"), d.told("n2")) == ("PARK", "RUN 3")


# --- starts ---


def test_a_start_limit_names_the_ranks_that_did_not_get_there():
    d = started()
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    mark = Milestone(Rank(0), MilestoneKind.PROCESS_GROUP_READY, d.wall)
    d.running("n1")
    d.tell("n0", NodePhase.RUNNING, 2, milestones=(mark,))
    d.wait(d.limits.start_process_group_limit_s + 1, ("n0", "n1"))
    assert d.stage == "Fenced"
    new = [fault for fault in d.job.stage.incident.faults if fault.because.code is Reason.START_TIMEOUT]
    assert [fault.rank for fault in new] == [1]


def test_each_start_phase_has_its_own_limit():
    d = started()
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    for node, rank in (("n0", 0), ("n1", 1)):
        d.tell(
            node, NodePhase.RUNNING, 2, milestones=(Milestone(Rank(rank), MilestoneKind.PROCESS_GROUP_READY, d.wall),)
        )
    d.wait(d.limits.start_restore_limit_s - 1, ("n0", "n1"))
    assert d.stage == "Proving"
    d.wait(2, ("n0", "n1"))
    assert "CHECKPOINT_RESTORED" in d.job.stage.incident.faults[-1].because.sentence


def test_a_script_without_the_sdk_is_never_ended_for_what_it_does_not_say():
    d = Desk()
    d.join("n0", "n1")
    d.running("n0", "n1")
    d.wait(3600.0, ("n0", "n1"))
    assert d.stage == "Running"


def test_a_script_without_the_sdk_recovers_as_started_only():
    d = Desk()
    d.join("n0", "n1")
    d.running("n0", "n1")
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    d.now += 1.0
    d.running("n0", "n1")
    started_at = d.wall
    d.wait(d.limits.settle_s + 0.1, ("n0", "n1"))
    record = d.exported[-1]
    assert (record.outcome.value, record.end) == ("STARTED_ONLY", started_at)
    assert d.stage == "Running"


def test_an_exit_while_it_settles_is_a_further_round():
    d = Desk()
    d.join("n0", "n1")
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    d.running("n0", "n1")
    d.wait(d.limits.settle_s - 1, ("n0", "n1"))
    d.crash("n1")
    assert d.job.stage.incident.round == 1


def test_a_launcher_that_never_starts_its_workers_is_a_fault():
    d = Desk()
    d.join("n0", "n1")
    d.running("n0")
    d.wait(d.limits.start_process_group_limit_s + 1, ("n0", "n1"))
    assert d.job.stage.incident.first_cause.node == "n1"


def test_a_rank_that_is_not_the_nodes_own_is_not_believed():
    d = Desk()
    d.join("n0", "n1")
    d.tell("n1", NodePhase.RUNNING, 1, milestones=(Milestone(Rank(0), MilestoneKind.FIRST_STEP, d.wall),))
    assert d.job.known_milestones == frozenset()
