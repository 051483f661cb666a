"""Rules of the restart policy and of the values that it judges by, each taken out in turn (edits.py)."""

from __future__ import annotations

from resurge_libs.core import backoff, progress, repeat_offenders, verdict
from resurge_libs.core.budget import Budget, CauseBudget
from resurge_libs.core.progress import ProgressRules
from tests.sim.edits import Edit, without

GUARDS: tuple[Edit, ...] = (
    without("policy: a job that has succeeded is restarted", verdict.job_already_succeeded),
    without("policy: a shutdown is undone by a restart", verdict.shutdown_was_requested),
    without("policy: a latched STOP is not heard", verdict.no_restart_is_latched),
    without("policy: no progress is no reason", verdict.no_progress),
    without("policy: a spent budget is no reason", verdict.budget_is_exhausted),
    without("policy: the spent budget of a cause is no reason", verdict.budget_of_cause_is_exhausted),
    without("policy: a machine goes though too few are left", repeat_offenders.exclusion_leaves_too_few),
    without("policy: a repeat offender stays", repeat_offenders.repeat_offender),
    Edit(
        "policy: keeping a machine grants a restart that is spent",
        repeat_offenders.exclusion_leaves_too_few,
        "if any(spent(view, rules) is not None",
        "if False and any(spent(view, rules) is not None",
    ),
    Edit(
        "policy: offences count though switched off", repeat_offenders.why_kept, "if wanted.faults == 0:", "if False:"
    ),
    Edit(
        "policy: every fault is held against a machine",
        repeat_offenders.why_kept,
        "if culprit.code not in OFFENCES:",
        "if False:",
    ),
    Edit("policy: one fault excludes", repeat_offenders.why_kept, "if counted < wanted.faults:", "if False:"),
    Edit(
        "policy: a fault that follows its rank excludes",
        repeat_offenders.why_kept,
        "culprit.rank is not None and len(follows)",
        "False and len(follows)",
    ),
    Edit(
        "policy: any fault elsewhere follows the rank",
        repeat_offenders._is_alike,
        "one.rank == culprit.rank and one.code is culprit.code",
        "True",
    ),
    Edit(
        "policy: old offences count for ever",
        repeat_offenders._recent,
        "since < one.generation < view.generation",
        "one.generation < view.generation",
    ),
    Edit(
        "policy: the present generation counts twice",
        repeat_offenders._recent,
        "since < one.generation < view.generation",
        "since < one.generation",
    ),
    Edit("policy: offences of any kind count", repeat_offenders._recent, "and one.code in OFFENCES and", "and"),
    Edit("policy: what others did counts", repeat_offenders._recent, "if one.elsewhere is elsewhere and", "if"),
    Edit("budget: one restart too many", Budget.is_exhausted, "self.left == 0", "self.left < 0"),
    Edit(
        "budget: a cause has one restart too many",
        CauseBudget.is_exhausted,
        "self.spent >= self.allowed",
        "self.spent > self.allowed",
    ),
    Edit(
        "budget: more is given back than was spent",
        Budget.given_back,
        "min(self.spent, self.refunded + count)",
        "self.refunded + count",
    ),
    Edit(
        "backoff: slow failures count as fast",
        backoff.consecutive_fast_failures,
        "if age_s - younger_s > rules.fast_failure_s:",
        "if False:",
    ),
    Edit("backoff: no failure is free", backoff.delay_s, "fast_failures - rules.free_failures", "fast_failures"),
    Edit("backoff: it has no longest wait", backoff.delay_s, "min(rules.max_delay_s, ", "max(0.0, "),
    Edit("progress: what was not read is no progress", progress.outcome_of, "if check.value is None:", "if False:"),
    Edit(
        "progress: cycles count before anything was completed",
        progress.outcome_of,
        "if before == 0 and check.value == 0:",
        "if False:",
    ),
    Edit(
        "progress: too few iterations are enough",
        progress.outcome_of,
        "check.value - before >= check.rules.min_iterations",
        "check.value > before",
    ),
    Edit(
        "progress: a marker that goes back is progress",
        progress.outcome_of,
        "check.value - before >=",
        "abs(check.value - before) >=",
    ),
    Edit(
        "progress: the count is not begun anew",
        progress.outcome_of,
        "ProgressMove.ADVANCED, check.value, 0)",
        "ProgressMove.ADVANCED, check.value, check.without_progress)",
    ),
    Edit("progress: a skipped check ends the job", progress.is_exhausted, "and outcome.move is ProgressMove.STUCK", ""),
    Edit(
        "progress: jobs that do not ask for it are ended",
        progress.is_exhausted,
        "check.rules.is_tracked\n        and",
        "True and",
    ),
    Edit("progress: a limit of 0 ends jobs", ProgressRules.is_tracked, "and self.max_no_progress_cycles > 0", ""),
)
