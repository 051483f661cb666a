"""The verdict of an incident's round: exactly one, the first that is journaled.

Without the policy the default verdict decides under its own name. Rendezvous owns the counter of restarts and
therefore holds the budget, whoever decides. A STOP or an exclusion that comes late is latched for the next fault.
"""

from __future__ import annotations

from resurge_libs.core.end_cause import EndCause, end_cause_of
from resurge_libs.core.ids import IncidentId
from resurge_libs.core.instant import after
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_libs.core.verdict import EXIT_FAILED, NoRestart, Verdict, VerdictKind, default_verdict
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.budgets import budget_of
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.endings import terminate
from resurge_rendezvous.core.events import VerdictArrived, VerdictUnavailable
from resurge_rendezvous.core.excluding import exclude_by_verdict, keep
from resurge_rendezvous.core.job import Ended, Fenced, Incident
from resurge_rendezvous.core.progressing import ask_policy

POLICY = "restart_policy"


def on_verdict(d: Draft, event: VerdictArrived) -> None:
    """Policy has answered."""
    if _is_withdrawn(d, event):
        return
    match d.job.stage:
        case Fenced(_, incident) if _is_awaited(incident, event.incident, event.round):
            latch(d, incident, event.verdict)
        case Ended():
            d.because = Because(Reason.LATE_EVENT_IGNORED, "a verdict came after the end of the job")
        case _:
            _latch_late(d, event)


def on_unavailable(d: Draft, event: VerdictUnavailable) -> None:
    """Policy cannot be asked: the default decides at once."""
    if _is_withdrawn(d, event):
        return
    match d.job.stage:
        case Fenced(_, incident) if _is_awaited(incident, event.incident, event.round):
            decide_by_default(d, incident, Because(Reason.POLICY_UNREACHABLE, event.why))
        case _:
            d.because = Because(Reason.LATE_EVENT_IGNORED, "no verdict is awaited")


def verdict_due(d: Draft) -> None:
    """The limit for a verdict is over; or, after a restart of the service, policy is still to be asked."""
    match d.job.stage:
        case Fenced(_, incident) if incident.verdict is None:
            if not d.seen.policy_asked:
                ask_policy(d, at_once=True)
                d.because = Because(Reason.WAITING_FOR_VERDICT, "asked again after a restart of the service")
                return
            sentence = f"no verdict within {d.limits.verdict_limit_s:g} s"
            decide_by_default(d, incident, Because(Reason.VERDICT_TIMEOUT, sentence))
        case _:
            return


def decide_by_default(d: Draft, incident: Incident, lack: Because) -> None:
    """Let the pure default decide, and say what was missing."""
    view = replace(incident.view, advice_missing=(POLICY,), no_restart=d.job.no_restart)
    verdict = default_verdict(view, d.settings.verdict_rules)
    because = Because(verdict.because.code, f"{verdict.because.sentence} ({lack})")
    latch(d, incident, replace(verdict, because=because))


def _is_withdrawn(d: Draft, event: VerdictArrived | VerdictUnavailable) -> bool:
    """Whether it answers a question that named another culprit than is known since: it judges nobody, also not late."""
    if event.question not in d.seen.questions.withdrawn:
        return False
    d.because = Because(Reason.LATE_EVENT_IGNORED, f"{event.incident} was put anew: another culprit is known since")
    return True


def _is_awaited(incident: Incident, name: IncidentId, number: int) -> bool:
    return incident.verdict is None and (incident.incident, incident.round) == (name, number)


def latch(d: Draft, incident: Incident, verdict: Verdict) -> None:
    """Journal the verdict and do what it says."""
    verdict = _held(d, incident, verdict)
    d.record(f.VerdictLatched(incident.incident, incident.round, verdict, d.stamp.wall))
    d.set_timers(verdict_at=None)
    d.because = verdict.because
    match verdict.kind:
        case VerdictKind.STOP:
            terminate(d, verdict.exit_code or EXIT_FAILED, verdict.because, _cause_of(d, verdict))
        case VerdictKind.SHUTDOWN:
            terminate(d, verdict.exit_code, verdict.because)
        case VerdictKind.RESTART | VerdictKind.RESTART_EXCLUDING:
            exclude_by_verdict(d, verdict.excluded, verdict.because, verdict.source)
            keep(d, verdict.would_exclude, verdict.because.sentence)
            if verdict.delay_s > 0:
                d.set_timers(not_before=after(d.now, verdict.delay_s))


def _cause_of(d: Draft, verdict: Verdict) -> EndCause:
    """A latched STOP ends the job for what latched it."""
    if verdict.because.code is Reason.NO_RESTART_LATCHED and d.job.no_restart is not None:
        return end_cause_of(d.job.no_restart.because.code)
    return end_cause_of(verdict.because.code)


def _held(d: Draft, incident: Incident, verdict: Verdict) -> Verdict:
    """What rendezvous itself holds against a restart: a latched order, and the budget that it counts."""
    if not verdict.is_restart:
        return verdict
    if d.job.no_restart is not None:
        latched = Because(Reason.NO_RESTART_LATCHED, str(d.job.no_restart.because))
        return replace(
            verdict, kind=VerdictKind.STOP, because=latched, exit_code=d.job.no_restart.exit_code, delay_s=0.0
        )
    budget = budget_of(d.job, d.spec)
    bound = incident.view.cause_budget
    if budget.is_exhausted:
        back = f" and {budget.refunded} given back" if budget.refunded else ""
        spent = f"{d.job.restarts_spent} of {d.spec.max_restarts} restarts are spent{back}"
    elif bound is not None and bound.is_exhausted:
        spent = f"{bound.spent} of {bound.allowed} restarts for cause {bound.cause} are spent"
    else:
        return verdict
    sentence = f"{spent}; {verdict.source} said {verdict.kind}"
    return Verdict(
        VerdictKind.STOP, Because(Reason.BUDGET_EXHAUSTED, sentence), EXIT_FAILED, restarts_left=0, source="rendezvous"
    )


def _latch_late(d: Draft, event: VerdictArrived) -> None:
    if not _belongs(d, event):
        d.because = Because(Reason.LATE_EVENT_IGNORED, f"no verdict of {event.incident} is awaited")
        return
    match event.verdict.kind:
        case VerdictKind.STOP if d.job.no_restart is None:
            code = event.verdict.exit_code or EXIT_FAILED
            d.record(f.NoRestartLatched(NoRestart(event.verdict.because, code)))
            d.because = Because(Reason.NO_RESTART_LATCHED, f"late, for the next fault: {event.verdict.because}")
        case VerdictKind.RESTART_EXCLUDING:
            exclude_by_verdict(d, event.verdict.excluded, event.verdict.because, event.verdict.source)
            d.because = Because(Reason.EXCLUDED, f"late, for the next round: {event.verdict.because}")
        case _:
            d.because = Because(Reason.LATE_EVENT_IGNORED, "the incident has its verdict")


def _belongs(d: Draft, event: VerdictArrived) -> bool:
    incident = d.job.open_incident
    if incident is not None and incident.incident == event.incident:
        return event.round <= incident.round and incident.verdict != event.verdict
    records = d.job.records
    last = records[-1] if records else None
    return last is not None and last.incident == event.incident and last.attempt == d.job.attempt
