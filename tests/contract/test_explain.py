"""Explaining a verdict from the durable record that rendezvous wrote: plain sentences, and a replay that agrees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.views.explanation import explanation_lines
from resurge_launcher.views.replay import replayed_by_default
from resurge_libs.core.backoff import BackoffRules
from resurge_libs.core.budget import RestartRules
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import JobId
from resurge_libs.core.progress import CycleProgress, MarkerReading, ProgressRules, ProgressSource
from resurge_libs.core.verdict import VerdictRules, default_verdict
from resurge_libs.rpc.validation import Violations
from resurge_rendezvous import wire_out
from resurge_rendezvous.core.model import JobSpec, NodePhase, RecoveryClosed, VerdictUnavailable
from resurge_restart_policy import wire as policy_wire
from resurge_restart_policy.core.step import decide, explain
from tests.unit.rendezvous.desk import RESTART, Desk

SPEC = JobSpec(JobId("job"), min_nodes=1, max_nodes=2, max_restarts=4)
TRACKED = ProgressRules(ProgressSource.MARKER, 1, 1)
READ = CycleProgress(at_end=MarkerReading(100), is_over=True, sdk_step=131)


def recorded(by: str = "policy", cycles: int = 1, **spec) -> rendezvous_pb2.Recovery:
    """The record of the last of so many failed cycles, through its wire; decided by the rules of the policy or here."""
    d = Desk(replace(SPEC, **spec))
    d.join("n0")
    d.running("n0", progress=CycleProgress(at_start=MarkerReading(100)))
    d.proven("n0")
    for _ in range(cycles):
        d.crash("n0")
        if spec.get("progress") is not None:
            d.tell("n0", NodePhase.TEARING_DOWN, d.runs["n0"].generation, progress=READ)
        view = d.asked[-1].view
        match by:
            case "policy":
                d.verdict(decide(view, VerdictRules()))
            case "default":
                d.ask(VerdictUnavailable(d.stamp(), view.incident, view.round, "connection refused"))
            case "held":
                d.verdict(RESTART)
        if d.stage == "Fenced":
            d.down("n0")
            d.wait(60.0, ("n0",))
            d.proven("n0")
    record = d.facts_of(RecoveryClosed)[-1].record
    return rendezvous_pb2.Recovery.FromString(wire_out.recovery_to_proto(record).SerializeToString())


def replayed_by_policy(incident: policy_pb2.Incident) -> policy_pb2.ExplainResponse:
    wrong = Violations()
    view = policy_wire.view_of(incident, wrong, "incident")
    wrong.check()
    return policy_wire.explanation_to_proto(explain(view, VerdictRules()), incident)


CASES = {
    "a restart": ({}, "restart", "restart (WORKER_SIGNAL)"),
    "the budget": ({"max_restarts": 0}, "budget", "stop with exit code 1 (BUDGET_EXHAUSTED)"),
    "no progress": ({"progress": TRACKED}, "no_progress", "stop with exit code 93 (NO_PROGRESS)"),
    "no progress, another code": (
        {"progress": TRACKED, "no_restart_exit_code": 77},
        "no_progress",
        "stop with exit code 77 (NO_PROGRESS)",
    ),
    "a cause": (
        {"restarts": RestartRules(((FaultCause.SIGNAL, 0),))},
        "budget_of_cause",
        "stop with exit code 1 (BUDGET_EXHAUSTED)",
    ),
    "a wait": (
        {"restarts": RestartRules(backoff=BackoffRules(free_failures=0, first_delay_s=7.0, fast_failure_s=900.0))},
        "restart",
        "restart (WORKER_SIGNAL)",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("by", ["policy", "default"])
def test_the_rule_is_named_and_the_replay_gives_the_same_verdict(name, by):
    spec, rule, words = CASES[name]
    record = recorded(by, **spec)
    answer = replayed_by_policy(record.incident) if by == "policy" else replayed_by_default(record.incident)
    text = "\n".join(explanation_lines(record, answer, by))
    assert f"The rule {rule}" in text and f"decided: {words}." in text
    assert "The replay gives the same verdict." in text and "differs" not in text


@pytest.mark.parametrize("by", ["policy", "default"])
def test_a_crash_loops_wait_is_replayed_to_the_millisecond(by):
    backoff = BackoffRules(free_failures=0, first_delay_s=7.0, fast_failure_s=900.0, jitter_share=0.5)
    record = recorded(by, max_restarts=9, restarts=RestartRules(backoff=backoff), cycles=1)
    record.incident.recent_cycle_s.append(3.0)
    view = policy_wire.view_of(record.incident, Violations(), "incident")
    verdict = default_verdict(view)
    record.verdict.CopyFrom(wire_out.verdict_to_proto(replace(verdict, source=by)))
    assert verdict.delay_s > 1
    text = "\n".join(explanation_lines(record, replayed_by_default(record.incident), by))
    assert "The replay gives the same verdict." in text and f"after {verdict.delay_s:.2f} s" in text


def tampered(field: str, record: rendezvous_pb2.Recovery) -> None:
    match field:
        case "exit code":
            record.verdict.exit_code = 1
        case "verdict":
            record.verdict.kind = policy_pb2.VERDICT_KIND_RESTART
        case "reason":
            record.verdict.because.code = "BUDGET_EXHAUSTED"
        case "restarts left":
            record.verdict.restarts_left = 3
        case "wait":
            record.verdict.delay.seconds = 30
        case "the evidence":
            record.incident.progress.value = 200


@pytest.mark.parametrize("field", ["exit code", "verdict", "reason", "restarts left", "wait", "the evidence"])
def test_a_record_that_was_changed_is_said_to_differ(field):
    record = recorded(progress=TRACKED)
    assert record.verdict.restarts_left == 4
    tampered(field, record)
    text = "\n".join(explanation_lines(record, replayed_by_policy(record.incident), "the restart policy"))
    assert "The replay differs: " in text and "the record was changed" in text
    assert field == "the evidence" or f"{field} recorded" in text
    assert "gives the same verdict" not in text and "The rule no_progress decided" not in text


def test_the_sentences_show_what_was_weighed():
    record = recorded(progress=TRACKED)
    text = "\n".join(explanation_lines(record, replayed_by_policy(record.incident), "the restart policy"))
    assert "progress    marker stands at 100 after 100; 1 of 1 cycles in a row without progress" in text
    assert "raise --ft-max-no-progress-cycles" in text
    assert "rules before it did not apply: job_already_succeeded, shutdown_requested, no_restart_latched." in text


def test_what_rendezvous_held_back_is_not_laid_to_a_rule():
    record = recorded("held", max_restarts=0)
    text = "\n".join(explanation_lines(record, replayed_by_policy(record.incident), "the restart policy"))
    assert "No rule decided: rendezvous itself gave the verdict (BUDGET_EXHAUSTED)." in text
    assert "The replay differs" not in text
