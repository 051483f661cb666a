"""The policy's rules in their order of precedence. Pure: each sees the incident and the settings, nothing else.

The order is the contract: job already succeeded, shutdown requested, latched no-restart verdict, no progress,
exclusion leaves too few nodes, budget, budget of the cause, repeat offender, restart. All but the two about machines
are the functions of the default verdict, so that policy and its stand-in cannot drift apart; all live in libs, so that
a record can be replayed without this service.
"""

from __future__ import annotations

from resurge_libs.core.progress import told
from resurge_libs.core.repeat_offenders import exclusion_leaves_too_few, kept_sentence, repeat_offender
from resurge_libs.core.verdict import (
    IncidentView,
    VerdictRules,
    budget_is_exhausted,
    budget_of_cause_is_exhausted,
    job_already_succeeded,
    no_progress,
    no_restart_is_latched,
    restart,
    shutdown_was_requested,
)
from resurge_restart_policy.core.model import NamedRule


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


ORDER: tuple[NamedRule, ...] = (
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
