"""Recommendations on the wire: proto to core and back, with all checks, for the policy that takes them and for
rendezvous that records them. Decides nothing."""

from __future__ import annotations

from resurge_api.policy.v1 import policy_pb2
from resurge_libs.core.ids import Attempt, Generation, IncidentId, NodeId
from resurge_libs.core.recommendation import Recommendation, RecommendationEffect, RecommendationKind
from resurge_libs.rpc.validation import MAX_SENTENCE_CHARACTERS, Violations

MAX_NAME_BYTES = 256
MAX_CULPRITS = 1_024
MAX_NUMBER = 2**53

KINDS = {
    policy_pb2.RECOMMENDATION_KIND_RESTART: RecommendationKind.RESTART,
    policy_pb2.RECOMMENDATION_KIND_RESTART_EXCLUDING: RecommendationKind.RESTART_EXCLUDING,
    policy_pb2.RECOMMENDATION_KIND_STOP: RecommendationKind.STOP,
    policy_pb2.RECOMMENDATION_KIND_CONTINUE: RecommendationKind.CONTINUE,
    policy_pb2.RECOMMENDATION_KIND_UNKNOWN: RecommendationKind.UNKNOWN,
}
KINDS_OUT = {core: proto for proto, core in KINDS.items()}
EFFECTS_OUT = {
    RecommendationEffect.RECORDED: policy_pb2.RECOMMENDATION_EFFECT_RECORDED,
    RecommendationEffect.LATCHED: policy_pb2.RECOMMENDATION_EFFECT_LATCHED,
    RecommendationEffect.ENDED: policy_pb2.RECOMMENDATION_EFFECT_ENDED,
    RecommendationEffect.TOO_LATE: policy_pb2.RECOMMENDATION_EFFECT_TOO_LATE,
}


def recommendation_of(said: policy_pb2.Recommendation, wrong: Violations, at: str = "recommendation") -> Recommendation:
    """The recommendation; what does not fit is added to `wrong`, and then the value must not be used."""
    kind = KINDS.get(said.kind)
    if kind is None:
        wrong.add(f"{at}.kind", f"is {said.kind}; must be one of RecommendationKind, and not UNSPECIFIED")
    wrong.text(f"{at}.token.job_id", said.token.job_id, MAX_NAME_BYTES)
    wrong.between(f"{at}.token.attempt", said.token.attempt, 0, MAX_NUMBER)
    wrong.between(f"{at}.token.generation", said.token.generation, 0, MAX_NUMBER)
    wrong.text(f"{at}.incident_id", said.incident_id, MAX_NAME_BYTES)
    wrong.text(f"{at}.source", said.source, MAX_NAME_BYTES)
    wrong.count(f"{at}.culprit_node_ids", len(said.culprit_node_ids), MAX_CULPRITS)
    if said.HasField("confidence"):
        wrong.between(f"{at}.confidence", said.confidence, 0.0, 1.0)
    for index, name in enumerate(said.culprit_node_ids[:MAX_CULPRITS]):
        wrong.name(f"{at}.culprit_node_ids[{index}]", name, MAX_NAME_BYTES)
    return Recommendation(
        kind=kind or RecommendationKind.UNKNOWN,
        sentence=said.sentence[:MAX_SENTENCE_CHARACTERS],
        attempt=Attempt(said.token.attempt),
        generation=Generation(said.token.generation),
        confidence=said.confidence if said.HasField("confidence") else None,
        culprits=tuple(NodeId(name) for name in said.culprit_node_ids),
        incident=IncidentId(said.incident_id) if said.incident_id else None,
        source=said.source,
    )


def recommendation_to_proto(said: Recommendation, job_id: str) -> policy_pb2.Recommendation:
    """The recommendation as the wire shows it."""
    told = policy_pb2.Recommendation(
        kind=KINDS_OUT[said.kind],
        sentence=said.sentence,
        confidence=said.confidence,
        culprit_node_ids=said.culprits,
        incident_id=said.incident or "",
        source=said.source,
    )
    told.token.job_id, told.token.attempt, told.token.generation = job_id, said.attempt, said.generation
    return told
