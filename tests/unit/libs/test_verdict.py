"""The default verdict: the order of its rules, its charge, its sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import (
    DEFAULT_ORDER,
    FaultView,
    IncidentView,
    NoRestart,
    Verdict,
    VerdictKind,
    VerdictRules,
    default_verdict,
)

FAULT = FaultView(NodeId("n1"), Because(Reason.WORKER_SIGNAL, "ended by SIGSEGV"), Rank(5), signal=11)
VIEW = IncidentView(
    job=JobId("j"),
    attempt=Attempt(1),
    generation=Generation(7),
    cycle=Cycle(6),
    incident=IncidentId("i-7"),
    round=0,
    faults=(FAULT,),
    restarts_spent=0,
    max_restarts=3,
    min_nodes=4,
    nodes_available=4,
)
SHUTDOWN = Because(Reason.SHUTDOWN_REQUESTED, "by an operator")
LATCHED = NoRestart(Because(Reason.NO_PROGRESS, "no step in 3 cycles"))


def test_a_fault_within_the_budget_restarts_and_is_charged():
    verdict = default_verdict(VIEW)
    assert verdict.kind is VerdictKind.RESTART and verdict.is_restart
    assert verdict.restarts_left == 2 and verdict.delay_s == 0.0
    assert verdict.because.code is Reason.WORKER_SIGNAL
    assert "rank 5 on n1: ended by SIGSEGV" in verdict.because.sentence
    assert "2 of 3 restarts left" in verdict.because.sentence
    assert verdict.source == "default"


def test_the_last_restart_is_still_given_and_then_none():
    assert default_verdict(replace(VIEW, restarts_spent=2)).restarts_left == 0
    verdict = default_verdict(replace(VIEW, restarts_spent=3))
    assert verdict.kind is VerdictKind.STOP and verdict.exit_code == 1
    assert verdict.because.code is Reason.BUDGET_EXHAUSTED
    assert "3 restarts spent of 3 allowed" in verdict.because.sentence


def test_a_refund_counts():
    assert default_verdict(replace(VIEW, restarts_spent=3, restarts_refunded=1)).kind is VerdictKind.RESTART


@pytest.mark.parametrize(
    ("changes", "kind", "code", "exit_code"),
    [
        ({"job_succeeded": True, "shutdown_requested": SHUTDOWN}, VerdictKind.SHUTDOWN, Reason.SUCCEEDED, 0),
        ({"shutdown_requested": SHUTDOWN, "no_restart": LATCHED}, VerdictKind.SHUTDOWN, Reason.SHUTDOWN_REQUESTED, 0),
        ({"no_restart": LATCHED, "restarts_spent": 3}, VerdictKind.STOP, Reason.NO_RESTART_LATCHED, 93),
        ({"restarts_spent": 3}, VerdictKind.STOP, Reason.BUDGET_EXHAUSTED, 1),
    ],
)
def test_the_order_of_the_rules(changes, kind, code, exit_code):
    verdict = default_verdict(replace(VIEW, **changes))
    assert (verdict.kind, verdict.because.code, verdict.exit_code) == (kind, code, exit_code)


def test_a_crash_loop_waits_and_says_so():
    verdict = default_verdict(replace(VIEW, failure_ages_s=(2.0, 4.0, 6.0), jitter=0.5))
    assert verdict.delay_s > 0
    assert f"wait {verdict.delay_s:.2f} s" in verdict.because.sentence


def test_missing_advice_is_named():
    verdict = default_verdict(replace(VIEW, advice_missing=("attribution", "gpu_health")))
    assert "without advice from attribution, gpu_health" in verdict.because.sentence


def test_a_rule_can_be_put_into_the_order():
    def no_progress(view: IncidentView, rules: VerdictRules) -> Verdict | None:
        return Verdict(VerdictKind.STOP, Because(Reason.NO_PROGRESS, "no step moved"), 93)

    order = (*DEFAULT_ORDER[:3], no_progress, *DEFAULT_ORDER[3:])
    assert default_verdict(VIEW, order=order).because.code is Reason.NO_PROGRESS
    assert default_verdict(replace(VIEW, job_succeeded=True), order=order).because.code is Reason.SUCCEEDED


def test_an_order_without_an_answer_is_a_bug():
    with pytest.raises(ValueError, match="no rule answered"):
        default_verdict(VIEW, order=DEFAULT_ORDER[:2])


def test_several_faults_name_the_first_and_count_the_others():
    other = replace(FAULT, node=NodeId("n2"), rank=None)
    assert "and 1 more" in default_verdict(replace(VIEW, faults=(FAULT, other))).because.sentence
    nobody = default_verdict(replace(VIEW, faults=()))
    assert nobody.because.code is Reason.RESTART_WITHIN_BUDGET
