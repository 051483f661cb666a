"""The policy's rules in their order of precedence. Pure: each sees the incident and the settings, nothing else.

The order is the contract: job already succeeded, shutdown requested, latched no-restart verdict, no progress,
exclusion leaves too few nodes, budget, restart. All but the seam are the functions of the default verdict, so that
policy and its stand-in cannot drift apart. A seam never answers: the evidence it would judge is not collected yet, and
it says so when asked to explain.
"""

from __future__ import annotations

from resurge_libs.core.progress import told
from resurge_libs.core.verdict import (
    IncidentView,
    Verdict,
    VerdictRules,
    budget_is_exhausted,
    job_already_succeeded,
    no_progress,
    no_restart_is_latched,
    restart,
    shutdown_was_requested,
)
from resurge_restart_policy.core.model import NamedRule


def exclusion_leaves_too_few(view: IncidentView, rules: VerdictRules) -> Verdict | None:
    """Seam: an exclusion that would make MIN unreachable will be weighed here. Never answers yet."""
    return None


def _progress(view: IncidentView) -> str:
    return "progress over restarts is not tracked" if view.progress is None else told(view.progress)


def _budget_left(view: IncidentView) -> str:
    budget = view.budget
    refunds = f" and {budget.refunded} given back" if budget.refunded else ""
    return f"{budget.left} restarts left: {budget.spent} spent of {budget.max_restarts} allowed{refunds}"


ORDER: tuple[NamedRule, ...] = (
    NamedRule("job_already_succeeded", job_already_succeeded, lambda view: "the job had not succeeded"),
    NamedRule("shutdown_requested", shutdown_was_requested, lambda view: "nobody asked for a shutdown"),
    NamedRule("no_restart_latched", no_restart_is_latched, lambda view: "no verdict against a restart is latched"),
    NamedRule("no_progress", no_progress, _progress),
    NamedRule("exclusion_leaves_too_few", exclusion_leaves_too_few, lambda view: "no node is excluded by a rule yet"),
    NamedRule("budget", budget_is_exhausted, _budget_left),
    NamedRule("restart", restart, lambda view: "always answers"),
)
