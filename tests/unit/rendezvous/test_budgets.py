"""Budgets of single causes, and restarts that are given back after health."""

from __future__ import annotations

from dataclasses import replace

from resurge_libs.core.budget import RestartRules
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import IncidentId, JobId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Reason
from resurge_libs.core.verdict import default_verdict
from resurge_rendezvous.core.charges import Charge
from resurge_rendezvous.core.job import Job
from resurge_rendezvous.core.model import ExitRecord, JobSpec, NodePhase, RestartRefunded
from resurge_rendezvous.core.remembered import CHARGES_MAX, with_charge, with_refund
from resurge_rendezvous.core.views import job_view
from tests.unit.rendezvous.desk import RESTART, Desk

SPEC = JobSpec(JobId("job"), min_nodes=1, max_nodes=2, max_restarts=4)
OOM = "torch.OutOfMemoryError: CUDA out of memory"


def job(*by_cause: tuple[FaultCause, int], refund_after_s: float = 0.0, **changes) -> Desk:
    d = Desk(replace(SPEC, restarts=RestartRules(by_cause, refund_after_s), **changes))
    d.join("n0")
    d.proven("n0")
    return d


def fail(d: Desk, error: str = "", signal: int | None = None):
    """A cycle ends; what follows is decided by the rules."""
    run = d.run_of("n0")
    code = None if signal is not None else 1
    record = ExitRecord(Rank(run.base_rank), 0, 4711, Wall(d.wall), exit_code=code, signal=signal, error=error)
    d.tell("n0", NodePhase.TEARING_DOWN, run.generation, exits=(record,))
    d.verdict(default_verdict(d.asked[-1].view))
    if d.stage == "Fenced":
        d.down("n0")
        d.wait(40.0, ("n0",))
        d.proven("n0")


def test_a_restart_is_charged_to_the_cause_that_was_judged():
    d = job()
    fail(d, OOM)
    fail(d, signal=11)
    assert [charge.cause for charge in d.job.charges] == [FaultCause.OOM, FaultCause.SIGNAL]
    assert d.job.spent_on(FaultCause.OOM) == 1


def test_one_cause_runs_out_while_others_go_on():
    d = job((FaultCause.OOM, 1))
    fail(d, OOM)
    fail(d, signal=11)
    fail(d)
    assert d.stage == "Running"
    fail(d, OOM)
    assert d.told("n0") == "EXIT 1"
    assert d.job.stage.decision.because.code is Reason.BUDGET_EXHAUSTED and d.job.stage.decision.cause == "budget"
    assert "cause oom" in d.job.stage.decision.because.sentence


def test_rendezvous_holds_a_spent_cause_whatever_policy_says():
    d = job((FaultCause.SIGNAL, 0))
    d.crash("n0")
    d.verdict(RESTART)
    assert d.told("n0") == "EXIT 1"
    assert "0 of 0 restarts for cause signal are spent; policy said RESTART" in d.job.stage.decision.because.sentence


def test_health_gives_one_restart_back_for_each_period():
    d = job(refund_after_s=100.0)
    fail(d)
    fail(d)
    assert (d.job.restarts_spent, d.job.refunded) == (2, 0)
    d.wait(101.0, ("n0",))
    assert (d.job.restarts_spent, d.job.refunded) == (2, 1)
    d.wait(100.0, ("n0",))
    assert d.job.refunded == 2
    d.wait(500.0, ("n0",))
    assert d.job.refunded == 2, "never more than was spent"
    assert job_view(d.state).restarts_refunded == 2


def test_a_fault_begins_the_period_anew():
    d = job(refund_after_s=100.0)
    fail(d)
    for _ in range(3):
        d.wait(50.0, ("n0",))
        fail(d)
    assert d.job.refunded == 0


def test_what_was_given_back_may_be_spent_again_and_the_sum_holds():
    d = job(refund_after_s=100.0, max_restarts=1)
    for spent in (1, 2, 3):
        fail(d)
        assert d.stage == "Running" and d.job.restarts_spent == spent
        d.wait(101.0, ("n0",))
        assert d.job.refunded == spent
        assert d.job.restarts_spent <= 1 + d.job.refunded
    fail(d)
    fail(d)
    assert d.told("n0") == "EXIT 1", "without health between them the next is one too many"


def test_a_refund_opens_its_cause_again():
    d = job((FaultCause.OOM, 1), refund_after_s=100.0)
    fail(d, OOM)
    d.wait(101.0, ("n0",))
    assert d.job.spent_on(FaultCause.OOM) == 0
    fail(d, OOM)
    assert d.stage == "Running"


def test_the_period_survives_a_restart_of_the_service():
    d = job(refund_after_s=100.0)
    fail(d)
    left_s = 100.0 - (d.wall - d.job.last_formation.closed_wall)
    d.wait(left_s - 10.0, ("n0",))
    d.restart_service()
    d.hello("n0", infra_rank=0)
    d.tell("n0", NodePhase.RUNNING, d.job.generation)
    d.wait(9.0, ("n0",))
    assert d.job.refunded == 0
    d.wait(2.0, ("n0",))
    assert d.job.refunded == 1 and len(d.facts_of(RestartRefunded)) == 1


def test_a_generation_that_is_not_proven_is_not_healthy():
    d = job(refund_after_s=5.0)
    d.crash("n0")
    d.verdict()
    d.down("n0")
    d.running("n0")
    assert d.stage == "Proving"
    d.wait(9.0, ("n0",))
    assert d.job.refunded == 0


def test_a_new_attempt_owes_nothing():
    d = job(refund_after_s=100.0, max_restarts=1)
    fail(d)
    d.wait(101.0, ("n0",))
    fail(d)
    fail(d)
    d.tell("n0", NodePhase.READY, d.job.generation, exit_acknowledged=True)
    d.close("n0")
    d.hello("n0", incarnation=2, spec=replace(d.spec, attempt=2))
    assert (d.job.restarts_spent, d.job.refunded) == (0, 0)


def test_what_is_forgotten_one_by_one_stays_counted_by_cause():
    held = Job()
    for number in range(CHARGES_MAX + 3):
        cause = FaultCause.OOM if number < 2 else FaultCause.EXIT
        held = with_charge(held, Charge(IncidentId(f"i{number}"), 0, cause))
    assert held.restarts_spent == CHARGES_MAX + 3
    assert (held.spent_on(FaultCause.OOM), held.spent_on(FaultCause.EXIT)) == (2, CHARGES_MAX + 1)
    for _ in range(CHARGES_MAX + 5):
        held = with_refund(held, Wall(7.0))
    assert (held.restarts_spent, held.refunded) == (CHARGES_MAX + 3, CHARGES_MAX + 3)
    assert held.spent_on(FaultCause.OOM) == held.spent_on(FaultCause.EXIT) == 0
