"""RPC to decision to reply. Decides nothing itself, waits for nothing, and forgets nothing that anybody relies on."""

from __future__ import annotations

import grpc.aio

from resurge_api.policy.v1 import policy_pb2, policy_pb2_grpc
from resurge_libs.core.ids import IncidentId
from resurge_libs.core.refusals import BadRequest
from resurge_libs.core.verdict import IncidentView, Verdict, VerdictRules
from resurge_libs.obs import log
from resurge_libs.rpc.context import trace_of
from resurge_libs.rpc.validation import Violations
from resurge_restart_policy import wire
from resurge_restart_policy.clients import RecordPort
from resurge_restart_policy.core.step import decide, explain
from resurge_restart_policy.recent import RecentIncidents
from resurge_restart_policy.spans import DecideSpans


class RestartPolicyServicer(policy_pb2_grpc.RestartPolicyServiceServicer):
    """The policy's calls."""

    def __init__(self, rules: VerdictRules, spans: DecideSpans, records: RecordPort) -> None:
        self._rules = rules
        self._spans = spans
        self._records = records
        self._recent = RecentIncidents()

    async def Decide(
        self, request: policy_pb2.DecideRequest, context: grpc.aio.ServicerContext
    ) -> policy_pb2.DecideResponse:
        start = self._spans.wall()
        view = wire.incident_of(request)
        verdict = decide(view, self._rules)
        self._recent.remember(request.incident)
        _tell(view, verdict)
        self._spans.emit(view, verdict, trace_of(context.invocation_metadata()), start)
        return policy_pb2.DecideResponse(verdict=wire.verdict_to_proto(verdict))

    async def Explain(
        self, request: policy_pb2.ExplainRequest, context: grpc.aio.ServicerContext
    ) -> policy_pb2.ExplainResponse:
        incident = self._incident_of(request)
        wrong = Violations()
        view = wire.view_of(incident, wrong, "incident")
        wrong.check()
        return wire.explanation_to_proto(explain(view, self._rules), incident)

    async def ReportRecommendation(
        self, request: policy_pb2.ReportRecommendationRequest, context: grpc.aio.ServicerContext
    ) -> policy_pb2.ReportRecommendationResponse:
        said = wire.recommendation_in(request)
        response = await self._records.record(request, context.time_remaining())
        log.event(
            "recommendation",
            kind=said.kind,
            source=said.source or None,
            effect=policy_pb2.RecommendationEffect.Name(response.effect).removeprefix("RECOMMENDATION_EFFECT_"),
            sentence=said.sentence or None,
        )
        return response

    def _incident_of(self, request: policy_pb2.ExplainRequest) -> policy_pb2.Incident:
        if request.HasField("incident"):
            return request.incident
        found = self._recent.get(IncidentId(request.incident_id))
        if found is None:
            raise BadRequest.of(
                "incident_id",
                f"{request.incident_id[: wire.MAX_NAME_BYTES]!r} was not decided here lately; "
                "give the incident as recorded by rendezvous",
            )
        return found


def _tell(view: IncidentView, verdict: Verdict) -> None:
    log.event(
        "verdict",
        job=view.job,
        incident=view.incident,
        round=view.round,
        generation=view.generation,
        verdict=verdict.kind,
        reason=verdict.because.code,
        sentence=verdict.because.sentence,
        restarts_left=verdict.restarts_left,
        delay_s=verdict.delay_s,
    )
