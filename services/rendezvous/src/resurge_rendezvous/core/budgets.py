"""What restarts a job has left: the one place that counts them. Pure.

The budget of the whole job holds for every restart. A bound for a cause holds beside it, for restarts of that cause
alone: for an incident that of its own faults, for a drain that of a node that leaves, whatever else failed meanwhile.
"""

from __future__ import annotations

from resurge_libs.core.budget import Budget, CauseBudget
from resurge_libs.core.fault_cause import FaultCause
from resurge_rendezvous.core.causes import first_cause
from resurge_rendezvous.core.job import Incident, Job
from resurge_rendezvous.core.values import JobSpec


def budget_of(job: Job, spec: JobSpec) -> Budget:
    """What this attempt may spend, has spent and was given back."""
    spent = min(job.restarts_spent, spec.max_restarts + job.refunded)
    return Budget(spec.max_restarts, spent, job.refunded)


def cause_budget_of(job: Job, spec: JobSpec, cause: FaultCause) -> CauseBudget | None:
    """The bound of one cause; None where it has none."""
    allowed = spec.restarts.allowed_for(cause)
    return None if allowed is None else CauseBudget(cause, allowed, job.spent_on(cause))


def cause_budgets_of(job: Job, spec: JobSpec) -> tuple[CauseBudget, ...]:
    """The bounds of all causes that have one."""
    return tuple(CauseBudget(cause, allowed, job.spent_on(cause)) for cause, allowed in spec.restarts.by_cause)


def cause_to_charge(job: Job, spec: JobSpec, incident: Incident) -> FaultCause:
    """What a restart is spent on: what began the incident, by all that has become known of it since the verdict.

    Where that cause has a bound and nothing left of it, the restart stays with the cause that it was granted for.
    """
    settled, granted = first_cause(incident.faults).trouble, incident.view.cause
    bound = cause_budget_of(job, spec, settled)
    return granted if bound is not None and bound.is_exhausted else settled


def may_restart_for(job: Job, spec: JobSpec, cause: FaultCause) -> bool:
    """Whether one more restart for this cause is within the job's budget, and within the cause's own."""
    bound = cause_budget_of(job, spec, cause)
    return not budget_of(job, spec).is_exhausted and not (bound is not None and bound.is_exhausted)
