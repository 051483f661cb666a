"""Causes of faults, their budgets, and the verdict that follows from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.backoff import BackoffRules
from resurge_libs.core.budget import CauseBudget, RestartRules
from resurge_libs.core.fault_cause import OF_REASON, FaultCause, cause_of
from resurge_libs.core.reasons import Reason
from resurge_libs.core.verdict import VerdictKind, default_verdict
from tests.unit.libs.test_verdict import VIEW


@pytest.mark.parametrize(
    ("reason", "error", "cause"),
    [
        (Reason.WORKER_EXIT, "", FaultCause.EXIT),
        (Reason.WORKER_EXIT, "KeyError: 'loss'", FaultCause.EXIT),
        (Reason.WORKER_SIGNAL, "", FaultCause.SIGNAL),
        (Reason.WORKER_EXIT, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", FaultCause.OOM),
        (Reason.WORKER_EXIT, "MemoryError", FaultCause.OOM),
        (Reason.WORKER_SIGNAL, "OSError: [Errno 12] Cannot allocate memory", FaultCause.OOM),
        (Reason.WORKER_EXIT, "CUDA error: uncorrectable ECC error encountered", FaultCause.HARDWARE),
        (Reason.WORKER_EXIT, "GPU has fallen off the bus", FaultCause.HARDWARE),
        (Reason.WORKER_HUNG, "out of memory, perhaps", FaultCause.HANG),
        (Reason.LEASE_EXPIRED, "", FaultCause.NODE),
        (Reason.START_TIMEOUT, "", FaultCause.START),
        (Reason.OBSERVED, "", FaultCause.OTHER),
    ],
)
def test_the_cause_of_a_fault(reason, error, cause):
    assert cause_of(reason, error) is cause


def test_every_cause_but_those_that_words_decide_has_a_reason():
    assert set(FaultCause) - set(OF_REASON.values()) == {FaultCause.OOM, FaultCause.HARDWARE, FaultCause.OTHER}


def test_a_spent_cause_ends_the_job_though_the_budget_has_more():
    view = replace(VIEW, max_restarts=50, cause=FaultCause.OOM, cause_budget=CauseBudget(FaultCause.OOM, 1, 1))
    verdict = default_verdict(view)
    assert (verdict.kind, verdict.exit_code, verdict.because.code) == (VerdictKind.STOP, 1, Reason.BUDGET_EXHAUSTED)
    assert "1 restarts spent of 1 allowed for cause oom" in verdict.because.sentence
    assert verdict.restarts_left == 50, "of the whole job's"


def test_a_cause_allowed_nothing_is_never_restarted():
    view = replace(VIEW, cause_budget=CauseBudget(FaultCause.HARDWARE, 0))
    assert default_verdict(view).kind is VerdictKind.STOP


def test_a_cause_with_something_left_restarts():
    view = replace(VIEW, cause_budget=CauseBudget(FaultCause.HARDWARE, 2, 1))
    assert default_verdict(view).kind is VerdictKind.RESTART


def test_the_whole_budget_holds_beside_it():
    view = replace(VIEW, restarts_spent=3, cause_budget=CauseBudget(FaultCause.SIGNAL, 99))
    assert "3 restarts spent of 3 allowed" in default_verdict(view).because.sentence


def test_the_jobs_own_backoff_goes_before_the_policys():
    crash_loop = replace(VIEW, failure_ages_s=(2.0, 4.0, 6.0), backoff=BackoffRules(first_delay_s=7.0, free_failures=0))
    assert default_verdict(crash_loop).delay_s > 7.0
    assert default_verdict(replace(crash_loop, backoff=BackoffRules(free_failures=9))).delay_s == 0


def test_a_cause_without_a_bound_has_none():
    rules = RestartRules(((FaultCause.OOM, 1),))
    assert (rules.allowed_for(FaultCause.OOM), rules.allowed_for(FaultCause.EXIT)) == (1, None)
