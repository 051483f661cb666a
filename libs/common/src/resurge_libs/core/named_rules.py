"""The rules of a verdict under the names that people read, with the words of one that has nothing to say. Pure.

The policy and its stand-in share the functions, and so whoever replays a record names them alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from resurge_libs.core.progress import told
from resurge_libs.core.repeat_offenders import exclusion_leaves_too_few, kept_sentence, repeat_offender
from resurge_libs.core.verdict import (
    IncidentView,
    VerdictRule,
    VerdictRules,
    budget_is_exhausted,
    budget_of_cause_is_exhausted,
    job_already_succeeded,
    no_progress,
    no_restart_is_latched,
    restart,
    shutdown_was_requested,
)


@dataclass(frozen=True, slots=True)
class NamedRule:
    """One rule with the words it uses when it has nothing to say."""

    name: str
    judge: VerdictRule
    passed_over: Callable[[IncidentView, VerdictRules], str]
    """Why the rule did not answer, with the figures that mattered; only called when it did not."""


def _progress(view: IncidentView, rules: VerdictRules) -> str:
    return "progress over restarts is not tracked" if view.progress is None else told(view.progress)


def _budget_left(view: IncidentView, rules: VerdictRules) -> str:
    budget = view.budget
    refunds = f" and {budget.refunded} given back" if budget.refunded else ""
    return f"{budget.left} restarts left: {budget.spent} spent of {budget.max_restarts} allowed{refunds}"


def _cause_left(view: IncidentView, rules: VerdictRules) -> str:
    budget = view.cause_budget
    if budget is None:
        return f"cause {view.cause} has no bound of its own"
    return f"{budget.allowed - budget.spent} restarts left for cause {budget.cause}: {budget.spent} spent"


POLICY_RULES: tuple[NamedRule, ...] = (
    NamedRule("job_already_succeeded", job_already_succeeded, lambda view, rules: "the job had not succeeded"),
    NamedRule("shutdown_requested", shutdown_was_requested, lambda view, rules: "nobody asked for a shutdown"),
    NamedRule(
        "no_restart_latched", no_restart_is_latched, lambda view, rules: "no verdict against a restart is latched"
    ),
    NamedRule("no_progress", no_progress, _progress),
    NamedRule("exclusion_leaves_too_few", exclusion_leaves_too_few, kept_sentence),
    NamedRule("budget", budget_is_exhausted, _budget_left),
    NamedRule("budget_of_cause", budget_of_cause_is_exhausted, _cause_left),
    NamedRule("repeat_offender", repeat_offender, kept_sentence),
    NamedRule("restart", restart, lambda view, rules: "always answers"),
)
"""In the policy's order of precedence."""
_BY_JUDGE = {rule.judge: rule for rule in POLICY_RULES}


def named(judge: VerdictRule) -> NamedRule:
    """The rule with its name; one that is not known here goes by the name of its function."""
    return _BY_JUDGE.get(judge) or NamedRule(judge.__name__, judge, lambda view, rules: "")
