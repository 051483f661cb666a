"""Why a verdict was given: an incident replayed through the shared default rules, and told in lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.views.model import fault_place, first_fault, view_of
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import (
    DEFAULT_ORDER,
    EXIT_NO_RESTART,
    FaultView,
    IncidentView,
    NoRestart,
    Verdict,
    VerdictKind,
    VerdictRules,
)
from resurge_libs.rpc.errors import because_from_proto, because_to_proto
from resurge_libs.rpc.progress import check_from_proto
from resurge_libs.rpc.validation import Violations

KINDS = {
    VerdictKind.RESTART: policy_pb2.VERDICT_KIND_RESTART,
    VerdictKind.RESTART_EXCLUDING: policy_pb2.VERDICT_KIND_RESTART_EXCLUDING,
    VerdictKind.STOP: policy_pb2.VERDICT_KIND_STOP,
    VerdictKind.SHUTDOWN: policy_pb2.VERDICT_KIND_SHUTDOWN,
}


def replayed_by_default(incident: policy_pb2.Incident) -> policy_pb2.ExplainResponse:
    """Every default rule's word on the incident, in order; rules after the one that decided were not asked."""
    view, rules = incident_view(incident), VerdictRules()
    answer = policy_pb2.ExplainResponse(incident=incident)
    decided = False
    for rule in DEFAULT_ORDER:
        name = rule.__name__
        verdict = None if decided else rule(view, rules)
        if verdict is not None:
            decided = True
            answer.verdict.CopyFrom(_verdict_to_proto(verdict))
            because = verdict.because
        else:
            because = Because(Reason.RULE_NOT_ASKED if decided else Reason.RULE_PASSED_OVER)
        answer.rules.add(rule=name, decided=verdict is not None, because=because_to_proto(because))
    return answer


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
        failure_ages_s=tuple(accumulate(incident.recent_cycle_s)),
        jitter=incident.jitter,
        job_succeeded=incident.job_succeeded,
        shutdown_requested=Because(Reason.SHUTDOWN_REQUESTED) if incident.shutdown_requested else None,
        no_restart=_latched(incident),
        advice_missing=tuple(incident.advice_missing),
        no_restart_exit_code=incident.no_restart_exit_code or EXIT_NO_RESTART,
        progress=check_from_proto(incident, "progress", Violations(), "incident"),
    )


def _latched(incident: policy_pb2.Incident) -> NoRestart | None:
    if not incident.HasField("latched_stop"):
        return None
    return NoRestart(_because(incident.latched_stop), incident.latched_stop_exit_code or EXIT_NO_RESTART)


def _fault_view(fault: policy_pb2.Fault) -> FaultView:
    rank = Rank(fault.rank) if fault.HasField("rank") else None
    return FaultView(node=NodeId(fault.node_id), because=_because(fault.because), rank=rank)


def _because(because: ids_pb2.Because) -> Because:
    return because_from_proto(because, Reason.OBSERVED)


def _verdict_to_proto(verdict: Verdict) -> policy_pb2.Verdict:
    made = policy_pb2.Verdict(
        kind=KINDS[verdict.kind],
        because=because_to_proto(verdict.because),
        exit_code=verdict.exit_code,
        excluded_node_ids=sorted(verdict.excluded),
        restarts_left=verdict.restarts_left,
        source=verdict.source,
    )
    made.delay.FromNanoseconds(round(verdict.delay_s * 1e9))
    return made


def explanation_lines(record: rendezvous_pb2.Recovery, answer: policy_pb2.ExplainResponse, by: str) -> list[str]:
    """The story in lines: what happened, what each rule said, what was decided then and what the replay says now."""
    view, incident = view_of(record), record.incident
    lines = [
        f"incident    {view.incident}, {view.started:%Y-%m-%d %H:%M:%S} UTC, generation {view.generations}",
        f"culprit     {view.culprit}: {view.reason}{f' ({view.sentence})' if view.sentence else ''}",
    ]
    lines += [f"            {line}" for line in _further_faults(record.faults or incident.faults)]
    known_then = fault_place(first_fault(incident.faults))
    if known_then != view.culprit:
        lines.append(f"known then  {known_then} was held to be the first, when the verdict was given")
    lines += [
        f"budget      {incident.restarts_spent} of {incident.max_restarts} restarts spent before it",
        f"verdict     {view.verdict} by {view.decided_by or '-'}: {view.verdict_sentence or '-'}",
        "",
        f"Replayed by {by}:",
    ]
    width = max((len(rule.rule) for rule in answer.rules), default=0)
    for rule in answer.rules:
        mark = "=>" if rule.decided else "  "
        lines.append(f" {mark} {rule.rule:<{width}}  {rule.because.sentence or _passed(rule.because.code)}")
    if answer.verdict.kind != record.verdict.kind and record.HasField("verdict"):
        now = policy_pb2.VerdictKind.Name(answer.verdict.kind).removeprefix("VERDICT_KIND_").lower()
        lines += [
            "",
            f"The replay differs: it says {now}. The recorded verdict holds; the rules or their settings changed.",
        ]
    return lines


def _further_faults(faults: Iterable[policy_pb2.Fault]) -> list[str]:
    told = [fault for fault in faults if not fault.culprit]
    return [f"then {fault_place(fault)}: {fault.because.code}" for fault in told[:8]] + (
        [f"and {len(told) - 8} more"] if len(told) > 8 else []
    )


def _passed(code: str) -> str:
    return {"RULE_PASSED_OVER": "did not apply", "RULE_NOT_ASKED": "was not asked"}.get(code, code)
