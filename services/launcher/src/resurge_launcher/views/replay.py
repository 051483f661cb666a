"""An incident replayed from its durable record through the shared default rules, and compared with what was recorded.

The policy service replays with its own rules where it answers; these are the ones that decide in its absence. Pure.
"""

from __future__ import annotations

from itertools import accumulate

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.named_rules import named
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import (
    DEFAULT_ORDER,
    EXIT_NO_RESTART,
    SOURCE_DEFAULT,
    SOURCE_POLICY,
    FaultView,
    IncidentView,
    NoRestart,
    Verdict,
    VerdictKind,
    VerdictRule,
    VerdictRules,
)
from resurge_libs.rpc.culprits import culprit_from_proto
from resurge_libs.rpc.errors import because_from_proto, because_to_proto
from resurge_libs.rpc.progress import check_from_proto
from resurge_libs.rpc.restarts import backoff_from_proto, cause_budget_from_proto, cause_named
from resurge_libs.rpc.validation import Violations

DELAY_TOLERANCE_S = 0.001

KINDS = {
    VerdictKind.RESTART: policy_pb2.VERDICT_KIND_RESTART,
    VerdictKind.RESTART_EXCLUDING: policy_pb2.VERDICT_KIND_RESTART_EXCLUDING,
    VerdictKind.STOP: policy_pb2.VERDICT_KIND_STOP,
    VerdictKind.SHUTDOWN: policy_pb2.VERDICT_KIND_SHUTDOWN,
}


def replayed_by_default(
    incident: policy_pb2.Incident, order: tuple[VerdictRule, ...] = DEFAULT_ORDER
) -> policy_pb2.ExplainResponse:
    """Every rule's word on the incident, in order, with the default settings; rules after the one that decided were not
    asked."""
    view, rules = incident_view(incident), VerdictRules()
    answer = policy_pb2.ExplainResponse(incident=incident)
    decided = False
    for rule in map(named, order):
        verdict = None if decided else rule.judge(view, rules)
        if verdict is not None:
            decided = True
            answer.verdict.CopyFrom(_verdict_to_proto(verdict))
            because = verdict.because
        else:
            words = "" if decided else rule.passed_over(view, rules)
            because = Because(Reason.RULE_NOT_ASKED if decided else Reason.RULE_PASSED_OVER, words)
        answer.rules.add(rule=rule.name, decided=verdict is not None, because=because_to_proto(because))
    return answer


def was_held(record: rendezvous_pb2.Recovery) -> str:
    """Why the recorded verdict is none of the rules' own; empty where it is."""
    verdict = record.verdict
    if verdict.source not in ("", SOURCE_DEFAULT, SOURCE_POLICY):
        return f"{verdict.source} itself gave the verdict ({verdict.because.code})"
    if verdict.because.code == Reason.NO_RESTART_LATCHED and not record.incident.HasField("latched_stop"):
        return "a stop was latched after the policy had been asked, and holds before every rule"
    return ""


def differences(recorded: policy_pb2.Verdict, replayed: policy_pb2.Verdict) -> list[str]:
    """In what two verdicts differ; empty where they are the same. Sentences and sources may differ."""
    pairs = [
        ("verdict", _kind(recorded), _kind(replayed)),
        ("reason", recorded.because.code, replayed.because.code),
        ("exit code", recorded.exit_code, replayed.exit_code),
        ("restarts left", recorded.restarts_left, replayed.restarts_left),
        ("excluded", ", ".join(recorded.excluded_node_ids) or "none", ", ".join(replayed.excluded_node_ids) or "none"),
    ]
    found = [f"{name} recorded {was}, replayed {now}" for name, was, now in pairs if was != now]
    waits = recorded.delay.ToNanoseconds() / 1e9, replayed.delay.ToNanoseconds() / 1e9
    if abs(waits[0] - waits[1]) > DELAY_TOLERANCE_S:
        found.append(f"wait recorded {waits[0]:.3f} s, replayed {waits[1]:.3f} s")
    return found


def verdict_words(verdict: policy_pb2.Verdict) -> str:
    """A verdict in a few words."""
    words = _kind(verdict)
    if verdict.kind in (policy_pb2.VERDICT_KIND_STOP, policy_pb2.VERDICT_KIND_SHUTDOWN):
        words += f" with exit code {verdict.exit_code}"
    elif verdict.delay.ToNanoseconds():
        words += f" after {verdict.delay.ToNanoseconds() / 1e9:.2f} s"
    return f"{words} ({verdict.because.code})" if verdict.because.code else words


def _kind(verdict: policy_pb2.Verdict) -> str:
    return policy_pb2.VerdictKind.Name(verdict.kind).removeprefix("VERDICT_KIND_").lower().replace("_", " ")


def incident_view(incident: policy_pb2.Incident) -> IncidentView:
    """The incident as the rules see it."""
    return IncidentView(
        job=JobId(incident.token.job_id),
        attempt=Attempt(incident.token.attempt),
        generation=Generation(incident.token.generation),
        cycle=Cycle(incident.cycle),
        incident=IncidentId(incident.incident_id),
        round=incident.round,
        faults=tuple(_fault_view(fault) for fault in incident.faults),
        restarts_spent=incident.restarts_spent,
        max_restarts=incident.max_restarts,
        min_nodes=incident.min_nodes,
        nodes_available=incident.nodes_available,
        restarts_refunded=min(incident.restarts_refunded, incident.restarts_spent),
        failure_ages_s=tuple(accumulate(incident.recent_cycle_s)),
        jitter=incident.jitter,
        job_succeeded=incident.job_succeeded,
        shutdown_requested=Because(Reason.SHUTDOWN_REQUESTED) if incident.shutdown_requested else None,
        no_restart=_latched(incident),
        advice_missing=tuple(incident.advice_missing),
        no_restart_exit_code=incident.no_restart_exit_code or EXIT_NO_RESTART,
        progress=check_from_proto(incident, "progress", Violations(), "incident"),
        culprit=culprit_from_proto(incident, Violations(), "incident"),
        cause=cause_named(incident.cause),
        cause_budget=cause_budget_from_proto(incident, "cause_budget", Violations(), "incident"),
        backoff=backoff_from_proto(incident, "backoff", Violations(), "incident"),
    )


def _latched(incident: policy_pb2.Incident) -> NoRestart | None:
    if not incident.HasField("latched_stop"):
        return None
    return NoRestart(_because(incident.latched_stop), incident.latched_stop_exit_code or EXIT_NO_RESTART)


def _fault_view(fault: policy_pb2.Fault) -> FaultView:
    rank = Rank(fault.rank) if fault.HasField("rank") else None
    return FaultView(
        node=NodeId(fault.node_id),
        because=_because(fault.because),
        rank=rank,
        exit_code=fault.exit_code if fault.HasField("exit_code") else None,
        signal=fault.signal if fault.HasField("signal") else None,
        step=fault.last_step if fault.HasField("last_step") else None,
    )


def _because(because: ids_pb2.Because) -> Because:
    return because_from_proto(because, Reason.OBSERVED)


def _verdict_to_proto(verdict: Verdict) -> policy_pb2.Verdict:
    made = policy_pb2.Verdict(
        kind=KINDS[verdict.kind],
        because=because_to_proto(verdict.because),
        exit_code=verdict.exit_code,
        excluded_node_ids=sorted(verdict.excluded),
        would_exclude_node_ids=sorted(verdict.would_exclude),
        restarts_left=verdict.restarts_left,
        source=verdict.source,
    )
    made.delay.FromNanoseconds(round(verdict.delay_s * 1e9))
    return made
