"""Proto to core values and back, and all validation of outside input. Decides nothing; has no effects.

A request that does not fit is refused with BadRequest that names every wrong field and what would be right.
"""

from __future__ import annotations

import math
from itertools import accumulate

from google.protobuf.duration_pb2 import Duration

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.recommendation import Recommendation
from resurge_libs.core.verdict import (
    EXIT_NO_RESTART,
    FaultView,
    IncidentView,
    NoRestart,
    Verdict,
    VerdictKind,
)
from resurge_libs.rpc.culprits import culprit_from_proto
from resurge_libs.rpc.errors import because_from_proto, because_to_proto
from resurge_libs.rpc.progress import check_from_proto
from resurge_libs.rpc.recommendations import recommendation_of
from resurge_libs.rpc.restarts import backoff_from_proto, cause_budget_from_proto, cause_named
from resurge_libs.rpc.validation import Violations
from resurge_restart_policy.core.model import Explanation

MAX_NAME_BYTES = 256
MAX_SENTENCE_BYTES = 4_096
MAX_FAULTS = 1_024
MAX_CYCLES = 256
MAX_EXIT_CODE = 255
MAX_ADVICE_MISSING = 16

KINDS = {
    VerdictKind.RESTART: policy_pb2.VERDICT_KIND_RESTART,
    VerdictKind.RESTART_EXCLUDING: policy_pb2.VERDICT_KIND_RESTART_EXCLUDING,
    VerdictKind.STOP: policy_pb2.VERDICT_KIND_STOP,
    VerdictKind.SHUTDOWN: policy_pb2.VERDICT_KIND_SHUTDOWN,
}


def incident_of(request: policy_pb2.DecideRequest) -> IncidentView:
    """The incident to be decided. Raises BadRequest."""
    wrong = Violations()
    wrong.name("request_id", request.request_id, MAX_NAME_BYTES)
    if not request.HasField("incident"):
        wrong.add("incident", "is missing; give the incident to be decided")
        wrong.check()
    view = view_of(request.incident, wrong, "incident")
    wrong.check()
    return view


def view_of(incident: policy_pb2.Incident, wrong: Violations, at: str) -> IncidentView:
    """The incident as the rules see it; what does not fit is added to `wrong`, and then the view must not be used."""
    wrong.name(f"{at}.incident_id", incident.incident_id, MAX_NAME_BYTES)
    wrong.name(f"{at}.token.job_id", incident.token.job_id, MAX_NAME_BYTES)
    wrong.count(f"{at}.faults", len(incident.faults), MAX_FAULTS)
    wrong.count(f"{at}.recent_cycle_s", len(incident.recent_cycle_s), MAX_CYCLES)
    wrong.count(f"{at}.advice_missing", len(incident.advice_missing), MAX_ADVICE_MISSING)
    if not 0.0 <= incident.jitter < 1.0:  # also refuses NaN
        wrong.add(f"{at}.jitter", f"is {incident.jitter}; must be in [0, 1)")
    for index, lived_s in enumerate(incident.recent_cycle_s[:MAX_CYCLES]):
        if not (math.isfinite(lived_s) and lived_s >= 0.0):
            wrong.add(f"{at}.recent_cycle_s[{index}]", f"is {lived_s}; must be seconds, not negative")
    for index, name in enumerate(incident.advice_missing[:MAX_ADVICE_MISSING]):
        wrong.name(f"{at}.advice_missing[{index}]", name, MAX_NAME_BYTES)
    faults = tuple(
        _fault_of(fault, wrong, f"{at}.faults[{index}]") for index, fault in enumerate(incident.faults[:MAX_FAULTS])
    )
    latched = None
    if incident.HasField("latched_stop"):
        wrong.between(f"{at}.latched_stop_exit_code", incident.latched_stop_exit_code, 0, MAX_EXIT_CODE)
        because = _because_of(incident.latched_stop, wrong, f"{at}.latched_stop")
        latched = NoRestart(because, incident.latched_stop_exit_code or EXIT_NO_RESTART)
    if incident.restarts_refunded > incident.restarts_spent:
        wrong.add(f"{at}.restarts_refunded", f"is {incident.restarts_refunded}; must not exceed restarts_spent")
    wrong.between(f"{at}.no_restart_exit_code", incident.no_restart_exit_code, 0, MAX_EXIT_CODE)
    asked = Because(Reason.SHUTDOWN_REQUESTED) if incident.shutdown_requested else None
    return IncidentView(
        job=JobId(incident.token.job_id),
        attempt=Attempt(incident.token.attempt),
        generation=Generation(incident.token.generation),
        cycle=Cycle(incident.cycle),
        incident=IncidentId(incident.incident_id),
        round=incident.round,
        faults=faults,
        restarts_spent=incident.restarts_spent,
        max_restarts=incident.max_restarts,
        min_nodes=incident.min_nodes,
        nodes_available=incident.nodes_available,
        restarts_refunded=incident.restarts_refunded,
        failure_ages_s=tuple(accumulate(incident.recent_cycle_s)),
        jitter=incident.jitter,
        job_succeeded=incident.job_succeeded,
        shutdown_requested=asked,
        no_restart=latched,
        advice_missing=tuple(incident.advice_missing),
        progress=check_from_proto(incident, "progress", wrong, at),
        cause=cause_named(incident.cause),
        cause_budget=cause_budget_from_proto(incident, "cause_budget", wrong, at),
        backoff=backoff_from_proto(incident, "backoff", wrong, at),
        no_restart_exit_code=incident.no_restart_exit_code or EXIT_NO_RESTART,
        culprit=culprit_from_proto(incident, wrong, at),
    )


def _fault_of(fault: policy_pb2.Fault, wrong: Violations, at: str) -> FaultView:
    wrong.name(f"{at}.node_id", fault.node_id, MAX_NAME_BYTES)
    return FaultView(
        node=NodeId(fault.node_id),
        because=_because_of(fault.because, wrong, f"{at}.because"),
        rank=Rank(fault.rank) if fault.HasField("rank") else None,
        exit_code=fault.exit_code if fault.HasField("exit_code") else None,
        signal=fault.signal if fault.HasField("signal") else None,
        step=fault.last_step if fault.HasField("last_step") else None,
    )


def _because_of(because: ids_pb2.Because, wrong: Violations, at: str) -> Because:
    wrong.text(f"{at}.code", because.code, MAX_NAME_BYTES)
    wrong.text(f"{at}.sentence", because.sentence, MAX_SENTENCE_BYTES)
    return because_from_proto(because, Reason.OBSERVED)  # a newer release's code is no reason to refuse advice


def recommendation_in(request: policy_pb2.ReportRecommendationRequest) -> Recommendation:
    """What attribution says. Raises BadRequest."""
    wrong = Violations()
    wrong.name("request_id", request.request_id, MAX_NAME_BYTES)
    said = recommendation_of(request.recommendation, wrong)
    wrong.check()
    return said


def verdict_to_proto(verdict: Verdict) -> policy_pb2.Verdict:
    """The verdict as the wire shows it."""
    delay = Duration()
    delay.FromNanoseconds(round(verdict.delay_s * 1e9))
    return policy_pb2.Verdict(
        kind=KINDS[verdict.kind],
        because=because_to_proto(verdict.because),
        exit_code=verdict.exit_code,
        delay=delay,
        excluded_node_ids=sorted(verdict.excluded),
        would_exclude_node_ids=sorted(verdict.would_exclude),
        restarts_left=verdict.restarts_left,
        source=verdict.source,
    )


def explanation_to_proto(explanation: Explanation, incident: policy_pb2.Incident) -> policy_pb2.ExplainResponse:
    """The verdict and every rule's word, beside the incident as it came in."""
    return policy_pb2.ExplainResponse(
        incident=incident,
        verdict=verdict_to_proto(explanation.verdict),
        rules=[
            policy_pb2.RuleOutcome(
                rule=outcome.rule, decided=outcome.decided, because=because_to_proto(outcome.because)
            )
            for outcome in explanation.outcomes
        ],
    )
