"""What attribution and workers ask for, proto to core and back, with all checks. Decides nothing; has no effects."""

from __future__ import annotations

from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_libs.core.ids import NodeId, Rank, RequestId
from resurge_libs.core.recommendation import Recommendation
from resurge_libs.rpc.errors import because_to_proto
from resurge_libs.rpc.recommendations import EFFECTS_OUT, recommendation_of
from resurge_libs.rpc.validation import MAX_SENTENCE_CHARACTERS, Violations
from resurge_rendezvous import wire
from resurge_rendezvous.core.advice import AdviceTaken
from resurge_rendezvous.core.model import ControlAction, ControlAsked, Stamp
from resurge_rendezvous.core.workload import ControlTaken
from resurge_rendezvous.wire_out import decision_to_proto

ACTIONS = {
    pb.CONTROL_ACTION_CONTINUE: ControlAction.CONTINUE,
    pb.CONTROL_ACTION_EXCLUDE_THIS_NODE: ControlAction.EXCLUDE_THIS_NODE,
    pb.CONTROL_ACTION_SHUTDOWN_WORKLOAD: ControlAction.SHUTDOWN_WORKLOAD,
}


def recommendation_in(request: pb.RecordRecommendationRequest) -> tuple[RequestId, Recommendation]:
    """A recommendation and its request's id. Raises BadRequest."""
    wrong = Violations()
    wrong.name("request_id", request.request_id, wire.MAX_NAME_BYTES)
    said = recommendation_of(request.recommendation, wrong)
    wrong.check()
    return RequestId(request.request_id), said


def advice_to_proto(taken: AdviceTaken) -> pb.RecordRecommendationResponse:
    """What came of a recommendation."""
    return pb.RecordRecommendationResponse(effect=EFFECTS_OUT[taken.effect], because=because_to_proto(taken.because))


def control_in(request: pb.ReportControlRequestRequest, stamp: Stamp) -> ControlAsked:
    """What a worker asks for. Raises BadRequest."""
    wrong = Violations()
    wrong.name("request_id", request.request_id, wire.MAX_NAME_BYTES)
    wrong.name("node_id", request.node_id, wire.MAX_NAME_BYTES)
    wrong.between("rank", request.rank, 0, wire.MAX_RANK)
    action = ACTIONS.get(request.action)
    if action is None:
        wrong.add("action", f"is {request.action}; must be one of ControlAction, and not UNSPECIFIED")
    token, at = wire.token_of(request, wrong), wire.wall_of(request, "at", wrong)
    wrong.check()
    assert action is not None, "checked just now"
    return ControlAsked(
        stamp,
        RequestId(request.request_id),
        token,
        NodeId(request.node_id),
        Rank(request.rank),
        action,
        request.reason[:MAX_SENTENCE_CHARACTERS],
        at,
    )


def control_to_proto(taken: ControlTaken) -> pb.ReportControlRequestResponse:
    """What came of a worker's wish."""
    response = pb.ReportControlRequestResponse(carried_out=taken.carried_out, because=because_to_proto(taken.because))
    if taken.decision is not None:
        response.decision.CopyFrom(decision_to_proto(taken.decision))
    return response
