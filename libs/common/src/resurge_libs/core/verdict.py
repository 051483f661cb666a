"""Decides what happens after an incident, from what it is given and nothing else. Never asks, never waits.

The rules are an ordered tuple of functions; the first that answers wins. The order is: job already succeeded,
shutdown requested, latched no-restart verdict, no progress, budget, budget of the cause, restart. The policy service
adds its own two about machines that keep failing. Rendezvous uses `default_verdict` under its own name when the policy
is unreachable or silent: nobody is excluded then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from resurge_libs.core.backoff import BackoffRules, consecutive_fast_failures, delay_s
from resurge_libs.core.budget import Budget, CauseBudget
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.offenders import CulpritView, OffenderRules
from resurge_libs.core.progress import ProgressCheck, is_exhausted, no_progress_sentence
from resurge_libs.core.reasons import Because, Reason

EXIT_SUCCESS = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NO_RESTART = 93

SOURCE_DEFAULT = "default"
SOURCE_POLICY = "policy"


class VerdictKind(StrEnum):
    """What a verdict orders."""

    RESTART = "RESTART"
    RESTART_EXCLUDING = "RESTART_EXCLUDING"
    STOP = "STOP"
    SHUTDOWN = "SHUTDOWN"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do, why, and on whose word."""

    kind: VerdictKind
    because: Because
    exit_code: int = EXIT_SUCCESS
    """What `resurge run` exits with; only meaningful for STOP and SHUTDOWN."""
    delay_s: float = 0.0
    excluded: frozenset[NodeId] = frozenset()
    would_exclude: frozenset[NodeId] = frozenset()
    """Nodes that the rules want out and keep, as too few would be left."""
    restarts_left: int = 0
    """After this verdict's own charge."""
    source: str = SOURCE_DEFAULT

    @property
    def is_restart(self) -> bool:
        """Whether training goes on."""
        return self.kind in (VerdictKind.RESTART, VerdictKind.RESTART_EXCLUDING)


@dataclass(frozen=True, slots=True)
class FaultView:
    """One claim about one worker or node, as the policy sees it."""

    node: NodeId
    because: Because
    rank: Rank | None = None
    exit_code: int | None = None
    signal: int | None = None
    step: int | None = None
    """The last optimizer step the worker reported."""


@dataclass(frozen=True, slots=True)
class NoRestart:
    """A latched order not to restart again."""

    because: Because
    exit_code: int = EXIT_NO_RESTART


@dataclass(frozen=True, slots=True)
class IncidentView:
    """Everything a verdict may depend on."""

    job: JobId
    attempt: Attempt
    generation: Generation
    cycle: Cycle
    incident: IncidentId
    round: int
    """0 for the incident's first round; each closed retry round is charged once."""
    faults: tuple[FaultView, ...]
    restarts_spent: int
    max_restarts: int
    min_nodes: int
    nodes_available: int
    restarts_refunded: int = 0
    failure_ages_s: tuple[float, ...] = ()
    """Ages of earlier failures of this job, youngest first."""
    jitter: float = 0.0
    job_succeeded: bool = False
    shutdown_requested: Because | None = None
    no_restart: NoRestart | None = None
    no_restart_exit_code: int = EXIT_NO_RESTART
    """What a verdict that tells the scheduler not to requeue exits with."""
    advice_missing: tuple[str, ...] = ()
    """Services that gave no advice, said in the verdict's sentence."""
    progress: ProgressCheck | None = None
    """The cycle's check; None where progress is not tracked, or was not judged yet."""
    culprit: CulpritView | None = None
    """What is held against the machine on which this round's faults began; None where it is not known."""
    cause: FaultCause = FaultCause.OTHER
    """What kind of trouble the incident's first cause is; the restart is charged to it."""
    cause_budget: CauseBudget | None = None
    """Of that cause; None where it has no bound of its own."""
    backoff: BackoffRules | None = None
    """What the job asked for; None: as the rules are set up."""

    @property
    def budget(self) -> Budget:
        """The restart budget before this verdict."""
        return Budget(self.max_restarts, self.restarts_spent, self.restarts_refunded)


@dataclass(frozen=True, slots=True)
class VerdictRules:
    """The settings of the default verdict."""

    backoff: BackoffRules = field(default_factory=BackoffRules)
    offenders: OffenderRules = field(default_factory=OffenderRules)


VerdictRule = Callable[[IncidentView, VerdictRules], Verdict | None]


def job_already_succeeded(view: IncidentView, rules: VerdictRules) -> Verdict | None:
    """A fault after success ends nothing that matters."""
    if not view.job_succeeded:
        return None
    because = Because(Reason.SUCCEEDED, "the job had already succeeded")
    return Verdict(VerdictKind.SHUTDOWN, because, EXIT_SUCCESS, restarts_left=view.budget.left)


def shutdown_was_requested(view: IncidentView, rules: VerdictRules) -> Verdict | None:
    """A requested shutdown is not undone by a restart."""
    if view.shutdown_requested is None:
        return None
    because = Because(Reason.SHUTDOWN_REQUESTED, view.shutdown_requested.sentence or "a shutdown was requested")
    return Verdict(VerdictKind.SHUTDOWN, because, EXIT_SUCCESS, restarts_left=view.budget.left)


def no_restart_is_latched(view: IncidentView, rules: VerdictRules) -> Verdict | None:
    """A late STOP for the running generation holds at its next fault."""
    if view.no_restart is None:
        return None
    because = Because(Reason.NO_RESTART_LATCHED, str(view.no_restart.because))
    return Verdict(VerdictKind.STOP, because, view.no_restart.exit_code, restarts_left=view.budget.left)


def no_progress(view: IncidentView, rules: VerdictRules) -> Verdict | None:
    """A job that restarts again and again without getting on is stopped, whatever its budget."""
    if view.progress is None or not is_exhausted(view.progress):
        return None
    because = Because(Reason.NO_PROGRESS, no_progress_sentence(view.progress))
    return Verdict(VerdictKind.STOP, because, view.no_restart_exit_code, restarts_left=view.budget.left)


def budget_is_exhausted(view: IncidentView, rules: VerdictRules) -> Verdict | None:
    """No restart beyond what was allowed and refunded."""
    budget = view.budget
    if not budget.is_exhausted:
        return None
    refunds = f" and {budget.refunded} given back" if budget.refunded else ""
    sentence = f"{budget.spent} restarts spent of {budget.max_restarts} allowed{refunds}: {blamed(view)}"
    return Verdict(VerdictKind.STOP, Because(Reason.BUDGET_EXHAUSTED, sentence), EXIT_FAILED, restarts_left=0)


def budget_of_cause_is_exhausted(view: IncidentView, rules: VerdictRules) -> Verdict | None:
    """No restart beyond what was allowed for the incident's own cause."""
    budget = view.cause_budget
    if budget is None or not budget.is_exhausted:
        return None
    sentence = f"{budget.spent} restarts spent of {budget.allowed} allowed for cause {budget.cause}: {blamed(view)}"
    because = Because(Reason.BUDGET_EXHAUSTED, sentence)
    return Verdict(VerdictKind.STOP, because, EXIT_FAILED, restarts_left=view.budget.left)


def restart(view: IncidentView, rules: VerdictRules) -> Verdict:
    """Restart, at once or after the backoff of a crash loop; charges one restart."""
    after = view.budget.charged()
    backoff = view.backoff or rules.backoff
    fast = consecutive_fast_failures(view.failure_ages_s, backoff)
    wait_s = delay_s(fast, view.jitter, backoff)
    code = view.faults[0].because.code if view.faults else Reason.RESTART_WITHIN_BUDGET
    parts = [blamed(view), f"{after.left} of {view.max_restarts} restarts left"]
    if wait_s > 0:
        parts.append(f"{fast} fast failures before it, so wait {wait_s:.2f} s")
    if view.advice_missing:
        parts.append(f"without advice from {', '.join(view.advice_missing)}")
    because = Because(code, "; ".join(parts))
    return Verdict(VerdictKind.RESTART, because, delay_s=wait_s, restarts_left=after.left)


DEFAULT_ORDER: tuple[VerdictRule, ...] = (
    job_already_succeeded,
    shutdown_was_requested,
    no_restart_is_latched,
    no_progress,
    budget_is_exhausted,
    budget_of_cause_is_exhausted,
    restart,
)


def default_verdict(
    view: IncidentView, rules: VerdictRules | None = None, order: tuple[VerdictRule, ...] = DEFAULT_ORDER
) -> Verdict:
    """The verdict of the first rule that answers. The last rule must always answer."""
    settings = rules if rules is not None else VerdictRules()
    for rule in order:
        verdict = rule(view, settings)
        if verdict is not None:
            return verdict
    raise ValueError(f"no rule answered for incident {view.incident}: the last of {len(order)} must")


def blamed(view: IncidentView) -> str:
    """One clause that names the incident's first fault and how many there are."""
    if not view.faults:
        return f"incident {view.incident} without a named fault"
    first = view.faults[0]
    where = first.node if first.rank is None else f"rank {first.rank} on {first.node}"
    more = f" and {len(view.faults) - 1} more" if len(view.faults) > 1 else ""
    what = first.because.sentence or str(first.because.code)
    return f"{where}: {what}{more}"
