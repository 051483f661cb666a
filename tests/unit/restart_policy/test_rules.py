"""The policy's rules: their order, their words, and that the default verdict is the same function."""

from dataclasses import replace
from itertools import combinations

import pytest

from resurge_libs.core.backoff import BackoffRules
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.named_rules import NamedRule
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import (
    SOURCE_POLICY,
    FaultView,
    IncidentView,
    NoRestart,
    Verdict,
    VerdictKind,
    VerdictRules,
    default_verdict,
)
from resurge_restart_policy.core.rules import ORDER
from resurge_restart_policy.core.step import decide, explain

RULES = VerdictRules(BackoffRules(fast_failure_s=30.0, free_failures=1, first_delay_s=1.0, jitter_share=0.0))

PLAIN = IncidentView(
    job=JobId("train"),
    attempt=Attempt(1),
    generation=Generation(7),
    cycle=Cycle(2),
    incident=IncidentId("inc-1"),
    round=0,
    faults=(FaultView(NodeId("n1"), Because(Reason.WORKER_SIGNAL, "ended by SIGSEGV"), Rank(5)),),
    restarts_spent=0,
    max_restarts=3,
    min_nodes=2,
    nodes_available=3,
)

SUCCEEDED = {"job_succeeded": True}
SHUTDOWN = {"shutdown_requested": Because(Reason.SHUTDOWN_REQUESTED, "the operator went home")}
LATCHED = {"no_restart": NoRestart(Because(Reason.NO_PROGRESS, "no step in three cycles"))}
SPENT = {"restarts_spent": 3}
BY_PRECEDENCE = [
    ("job_already_succeeded", SUCCEEDED, VerdictKind.SHUTDOWN, 0),
    ("shutdown_requested", SHUTDOWN, VerdictKind.SHUTDOWN, 0),
    ("no_restart_latched", LATCHED, VerdictKind.STOP, 93),
    ("budget", SPENT, VerdictKind.STOP, 1),
    ("restart", {}, VerdictKind.RESTART, 0),
]


@pytest.mark.parametrize(("rule", "given", "kind", "code"), BY_PRECEDENCE, ids=[row[0] for row in BY_PRECEDENCE])
def test_each_rule_decides_when_nothing_stronger_holds(rule, given, kind, code):
    told = explain(replace(PLAIN, **given), RULES)
    assert (told.deciding_rule, told.verdict.kind, told.verdict.exit_code) == (rule, kind, code)
    assert told.verdict.because.sentence


@pytest.mark.parametrize(("stronger", "weaker"), list(combinations(BY_PRECEDENCE, 2)))
def test_the_stronger_rule_wins_where_two_hold(stronger, weaker):
    view = replace(PLAIN, **{**weaker[1], **stronger[1]})
    assert explain(view, RULES).deciding_rule == stronger[0]


def test_the_default_verdict_differs_by_nothing_but_its_name():
    for _, given, _, _ in BY_PRECEDENCE:
        view = replace(PLAIN, **given)
        assert decide(view, RULES) == replace(default_verdict(view, RULES), source=SOURCE_POLICY)


def test_one_incident_has_one_verdict_however_often_it_is_asked():
    assert {decide(PLAIN, RULES) for _ in range(3)} == {decide(PLAIN, RULES)}


def test_a_restart_is_charged_once_and_says_who_is_blamed():
    verdict = decide(replace(PLAIN, restarts_spent=1), RULES)
    assert verdict.restarts_left == 1
    assert "rank 5 on n1" in verdict.because.sentence and verdict.because.code is Reason.WORKER_SIGNAL


def test_a_crash_loop_waits_longer_each_time_and_a_slow_failure_does_not():
    waits = [
        decide(
            replace(PLAIN, max_restarts=9, failure_ages_s=(5.0, *tuple(5.0 + 5.0 * k for k in range(1, n)))), RULES
        ).delay_s
        for n in (1, 2, 3, 4)
    ]
    assert waits == [0.0, 1.0, 2.0, 4.0]
    assert decide(replace(PLAIN, failure_ages_s=(500.0, 505.0, 510.0)), RULES).delay_s == 0.0


def test_missing_advice_is_said_in_the_sentence():
    verdict = decide(replace(PLAIN, advice_missing=("attribution", "gpu_health")), RULES)
    assert "without advice from attribution, gpu_health" in verdict.because.sentence


def test_explain_gives_every_rule_one_word_and_marks_what_was_not_asked():
    told = explain(replace(PLAIN, **LATCHED), RULES)
    assert [outcome.rule for outcome in told.outcomes] == [rule.name for rule in ORDER]
    codes = [outcome.because.code for outcome in told.outcomes]
    assert codes[:3] == [Reason.RULE_PASSED_OVER, Reason.RULE_PASSED_OVER, Reason.NO_RESTART_LATCHED]
    assert set(codes[3:]) == {Reason.RULE_NOT_ASKED}
    assert sum(outcome.decided for outcome in told.outcomes) == 1


def test_a_seam_filled_later_keeps_its_place():
    def stops(view, rules):
        return Verdict(VerdictKind.STOP, Because(Reason.NO_PROGRESS, "no step"), 93)

    order = tuple(
        NamedRule(rule.name, stops, rule.passed_over) if rule.name == "no_progress" else rule for rule in ORDER
    )
    assert decide(replace(PLAIN, **SPENT), RULES, order).because.code is Reason.NO_PROGRESS
    assert decide(replace(PLAIN, **SHUTDOWN), RULES, order).because.code is Reason.SHUTDOWN_REQUESTED
