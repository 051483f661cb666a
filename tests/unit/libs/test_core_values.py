"""Ids, leases, budgets, backoff, reasons."""

from __future__ import annotations

import pytest

from resurge_libs.core.backoff import BackoffRules, consecutive_fast_failures, delay_s
from resurge_libs.core.budget import Budget
from resurge_libs.core.ids import Attempt, FencingToken, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.instant import Instant, earliest
from resurge_libs.core.lease import Lease
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.trace_ids import root_span_id_of, span_id_of, trace_id_of


def token(generation: int, attempt: int = 1, job: str = "j") -> FencingToken:
    return FencingToken(JobId(job), Attempt(attempt), Generation(generation))


def test_span_ids_differ_by_name_node_and_rank_only():
    incident = IncidentId("i-1")
    spans = {
        span_id_of(incident, "spawn"),
        span_id_of(incident, "spawn", NodeId("n0")),
        span_id_of(incident, "spawn", NodeId("n0"), Rank(0)),
        span_id_of(incident, "init", NodeId("n0"), Rank(0)),
        root_span_id_of(incident),
    }
    assert len(spans) == 5
    assert span_id_of(incident, "spawn", NodeId("n0")) == span_id_of(incident, "spawn", NodeId("n0"))
    assert len(trace_id_of(incident)) == 16
    assert all(len(span) == 8 for span in spans)


def test_a_lease_is_over_at_its_instant_and_a_late_old_beat_never_shortens_it():
    lease = Lease.starting(Instant(100.0), 5.0)
    assert not lease.expired(at=Instant(104.999)) and lease.expired(at=Instant(105.0))
    assert lease.renewed(Instant(99.0), 5.0) == lease
    assert lease.renewed(Instant(102.0), 5.0).until == 107.0
    assert lease.extended_by(10.0).until == 115.0
    assert lease.shortened_to(Instant(101.0)).until == 101.0
    assert lease.shortened_to(Instant(200.0)) == lease
    assert lease.left_s(Instant(103.0)) == 2.0 and lease.left_s(Instant(200.0)) == 0.0


def test_earliest_is_none_when_nothing_is_awaited():
    assert earliest(None, None) is None
    assert earliest(None, Instant(3.0), Instant(2.0)) == 2.0


def test_a_budget_is_never_overdrawn():
    budget = Budget(max_restarts=2)
    budget = budget.charged().charged()
    assert budget.left == 0 and budget.is_exhausted
    with pytest.raises(ValueError, match="none left"):
        budget.charged()
    assert budget.given_back().left == 1
    assert budget.given_back(99).refunded == 2


@pytest.mark.parametrize("values", [(-1, 0, 0), (1, -1, 0), (1, 0, 1)])
def test_an_impossible_budget_is_refused(values):
    with pytest.raises(ValueError, match="budget"):
        Budget(*values)


@pytest.mark.parametrize(
    ("ages_s", "count"),
    [((), 0), ((100.0,), 0), ((10.0,), 1), ((10.0, 20.0, 29.0), 3), ((10.0, 50.0, 55.0), 1)],
)
def test_a_crash_loop_is_counted_back_from_now(ages_s, count):
    assert consecutive_fast_failures(ages_s, BackoffRules(fast_failure_s=30.0)) == count


def test_backoff_is_free_at_first_then_doubles_up_to_its_limit():
    rules = BackoffRules(free_failures=1, first_delay_s=0.5, factor=2.0, max_delay_s=3.0, jitter_share=0.0)
    assert [delay_s(n, 0.0, rules) for n in range(7)] == [0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 3.0]
    assert delay_s(10_000, 0.0, rules) == 3.0


def test_jitter_only_shortens():
    rules = BackoffRules(free_failures=0, first_delay_s=1.0, jitter_share=0.2)
    assert delay_s(1, 0.0, rules) == 1.0
    assert delay_s(1, 0.5, rules) == pytest.approx(0.9)
    with pytest.raises(ValueError, match="jitter"):
        delay_s(1, 1.0, rules)


def test_wrong_backoff_rules_name_the_field():
    with pytest.raises(ValueError, match=r"max_delay_s \(0.1\) must be at least first_delay_s \(0.5\)"):
        BackoffRules(max_delay_s=0.1)
    with pytest.raises(ValueError, match="factor"):
        BackoffRules(factor=0.5)
    with pytest.raises(ValueError, match="jitter_share"):
        BackoffRules(jitter_share=2.0)
    with pytest.raises(ValueError, match="free_failures"):
        BackoffRules(free_failures=-1)


def test_a_reason_is_its_own_text_and_stands_before_its_sentence():
    assert all(reason.value == reason.name for reason in Reason)
    assert str(Because(Reason.WORKER_EXIT, "rank 3 left")) == "WORKER_EXIT: rank 3 left"
    assert str(Because(Reason.WORKER_EXIT)) == "WORKER_EXIT"
