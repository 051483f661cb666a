"""Rendezvous behind the policy's own small port: what attribution recommends is kept there, as all durable state of a
job is. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import grpc.aio

from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import ReplyLost, Unready
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.auth import TokenProblem
from resurge_libs.rpc.channel import open_channel
from resurge_libs.rpc.context import call_metadata
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.retry import RetryRules, call_idempotent

RENDEZVOUS = "rendezvous"
RECORD_LIMIT_S = 10.0
"""For all tries together: a control plane that is started again is back by then."""
RESERVE_S = 0.1
"""Kept back of the caller's own deadline."""


class RecordPort(Protocol):
    """Whoever keeps recommendations."""

    async def record(
        self, request: policy_pb2.ReportRecommendationRequest, left_s: float | None
    ) -> policy_pb2.ReportRecommendationResponse:
        """Hand it on. Raises what was refused, and Unready where nobody can be reached in time."""
        ...


class GrpcRecords:
    """Rendezvous at the address that the book gives; the same call whether it is in this process or not."""

    def __init__(
        self, endpoint_of: Callable[[str], Endpoint | None], limits: TimeLimits, token: str | None = None
    ) -> None:
        self._endpoint_of, self._limits, self._token = endpoint_of, limits, token
        self._channel: grpc.aio.Channel | None = None

    async def record(
        self, request: policy_pb2.ReportRecommendationRequest, left_s: float | None
    ) -> policy_pb2.ReportRecommendationResponse:
        """One call under the caller's own request id, repeated while its outcome is unsure."""
        limit_s = RECORD_LIMIT_S if left_s is None else min(RECORD_LIMIT_S, max(RESERVE_S, left_s - RESERVE_S))
        stub = rendezvous_pb2_grpc.RendezvousServiceStub(self._open())
        told = rendezvous_pb2.RecordRecommendationRequest(
            request_id=request.request_id, recommendation=request.recommendation
        )
        try:
            response = await call_idempotent(
                stub.RecordRecommendation, told, RetryRules(limit_s=limit_s), call_metadata(self._token)
            )
        except ReplyLost as lost:
            sentence = f"rendezvous, which keeps recommendations, did not answer: {lost}; send it again"
            raise Unready(Because(Reason.CONTROL_UNREACHABLE, sentence)) from None
        return policy_pb2.ReportRecommendationResponse(effect=response.effect, because=response.because)

    async def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            endpoint = self._endpoint_of(RENDEZVOUS)
            if endpoint is None:
                sentence = "no address of rendezvous is known here; give --addresses rendezvous=HOST:PORT"
                raise Unready(Because(Reason.CONTROL_UNREACHABLE, sentence))
            try:
                self._channel = open_channel(endpoint, self._limits, self._token)
            except TokenProblem as error:
                raise Unready(Because(Reason.CONTROL_UNREACHABLE, str(error))) from error
        return self._channel
