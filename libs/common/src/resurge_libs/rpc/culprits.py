"""What policy is told of the machine on which a round's faults began, to proto and back. Decides nothing."""

from __future__ import annotations

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2
from resurge_libs.core.ids import Generation, NodeId, Rank
from resurge_libs.core.offenders import CulpritView, OffenceView
from resurge_libs.core.reasons import Reason
from resurge_libs.rpc.errors import because_from_proto
from resurge_libs.rpc.validation import Violations

MAX_NAME_BYTES = 256
MAX_OFFENCES = 256


def culprit_to_proto(culprit: CulpritView) -> policy_pb2.Culprit:
    """What policy is told of the machine on which a round's faults began."""
    return policy_pb2.Culprit(
        node_id=culprit.node,
        code=culprit.code,
        rank=culprit.rank,
        nodes_left=culprit.nodes_left,
        is_enough=culprit.is_enough,
        offences=[
            policy_pb2.Offence(
                node_id=one.node, generation=one.generation, code=one.code, rank=one.rank, elsewhere=one.elsewhere
            )
            for one in culprit.offences
        ],
    )


def culprit_from_proto(incident: policy_pb2.Incident, wrong: Violations, at: str) -> CulpritView | None:
    """The culprit of an incident; None where it is not known. What does not fit is added to `wrong`."""
    if not incident.HasField("culprit"):
        return None
    culprit, at = incident.culprit, f"{at}.culprit"
    wrong.name(f"{at}.node_id", culprit.node_id, MAX_NAME_BYTES)
    wrong.count(f"{at}.offences", len(culprit.offences), MAX_OFFENCES)
    for index, one in enumerate(culprit.offences[:MAX_OFFENCES]):
        wrong.name(f"{at}.offences[{index}].node_id", one.node_id, MAX_NAME_BYTES)
    return CulpritView(
        node=NodeId(culprit.node_id),
        code=_code_of(culprit.code),
        rank=Rank(culprit.rank) if culprit.HasField("rank") else None,
        nodes_left=culprit.nodes_left,
        is_enough=culprit.is_enough,
        offences=tuple(
            OffenceView(
                node=NodeId(one.node_id),
                generation=Generation(one.generation),
                code=_code_of(one.code),
                rank=Rank(one.rank) if one.HasField("rank") else None,
                elsewhere=one.elsewhere,
            )
            for one in culprit.offences[:MAX_OFFENCES]
        ),
    )


def _code_of(code: str) -> Reason:
    return because_from_proto(ids_pb2.Because(code=code), Reason.OBSERVED).code
