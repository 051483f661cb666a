"""The restart policy behind rendezvous' own small port. Decides nothing: an answer, or why there is none.

Policy is advice. Unreachable is said at once; silence is left to the core's own deadline; nonsense counts as no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2s
from typing import Protocol

import grpc.aio

from resurge_api.policy.v1 import policy_pb2, policy_pb2_grpc
from resurge_libs.core.ids import NodeId
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import ReplyLost, RpcProblem
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.core.trace_ids import span_id_of, trace_id_of
from resurge_libs.core.verdict import SOURCE_POLICY, IncidentView, Verdict, VerdictKind
from resurge_libs.obs.names import SpanName
from resurge_libs.obs.traceparent import TraceContext
from resurge_libs.rpc.auth import TokenProblem
from resurge_libs.rpc.channel import open_channel
from resurge_libs.rpc.context import call_metadata
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.errors import because_from_proto
from resurge_libs.rpc.retry import call
from resurge_libs.rpc.validation import MAX_SENTENCE_CHARACTERS
from resurge_rendezvous.wire import MAX_EXIT_CODE, MAX_NAME_BYTES, MAX_NODES
from resurge_rendezvous.wire_out import VERDICT_KINDS, incident_to_proto

POLICY = "restart_policy"
MAX_DELAY_S = 3_600.0
LATE_S = 0.5
"""A call outlives the core's deadline by so much, so that silence is judged there and a late answer is still heard."""

KINDS = {proto: core for core, proto in VERDICT_KINDS.items()}


class NoVerdict(Exception):
    """Policy cannot be asked, or its answer is no verdict; says why."""


class PolicySilent(Exception):
    """Policy was asked and did not answer in time."""


class PolicyPort(Protocol):
    """Whoever says what to do about an incident."""

    async def decide(self, view: IncidentView, limit_s: float) -> Verdict:
        """The verdict. Raises NoVerdict at once when there can be none, PolicySilent when none came in time."""
        ...

    async def close(self) -> None:
        """Let go of what is open."""
        ...


class GrpcPolicy:
    """The policy service at the address that the book gives; the same call whether it is in this process or not."""

    def __init__(
        self, endpoint_of: Callable[[str], Endpoint | None], limits: TimeLimits, token: str | None = None
    ) -> None:
        self._endpoint_of, self._limits, self._token = endpoint_of, limits, token
        self._channel: grpc.aio.Channel | None = None

    async def decide(self, view: IncidentView, limit_s: float) -> Verdict:
        """One call, never repeated: after the limit the default verdict holds."""
        stub = policy_pb2_grpc.RestartPolicyServiceStub(self._open())
        request = decide_request(view)
        metadata = call_metadata(self._token, decide_context(view))
        try:
            response = await call(stub.Decide, request, limit_s + LATE_S, metadata)
        except ReplyLost as problem:
            if problem.timed_out:
                raise PolicySilent(str(problem)) from None
            raise NoVerdict(str(problem)) from None
        except RpcProblem as problem:
            raise NoVerdict(str(problem)) from None
        return verdict_of(response.verdict)

    async def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            endpoint = self._endpoint_of(POLICY)
            if endpoint is None:
                raise NoVerdict("no address of a restart policy is known here")
            try:
                self._channel = open_channel(endpoint, self._limits, self._token)
            except TokenProblem as error:
                raise NoVerdict(str(error)) from error
        return self._channel


def decide_request(view: IncidentView) -> policy_pb2.DecideRequest:
    """What policy is asked. A round that is put anew is another request, and so has another key."""
    incident = incident_to_proto(view)
    told = blake2s(incident.SerializeToString(deterministic=True), digest_size=8).hexdigest()
    return policy_pb2.DecideRequest(request_id=f"{view.incident}:{view.round}:{told}", incident=incident)


def decide_context(view: IncidentView) -> TraceContext:
    """The trace context under which policy decides: rendezvous' own `decide` span of this round."""
    name = f"{SpanName.DECIDE}#{view.round}" if view.round else SpanName.DECIDE.value
    return TraceContext(trace_id_of(view.incident), span_id_of(view.incident, name))


def verdict_of(verdict: policy_pb2.Verdict) -> Verdict:
    """The verdict as the core takes it. Raises NoVerdict for one that cannot be carried out."""
    kind = KINDS.get(verdict.kind)
    delay_s = float(verdict.delay.seconds) + verdict.delay.nanos / 1e9
    excluded = verdict.excluded_node_ids
    if kind is None:
        raise NoVerdict(f"policy answered with kind {verdict.kind}, which this release does not know")
    if verdict.exit_code > MAX_EXIT_CODE:
        raise NoVerdict(f"policy answered with exit code {verdict.exit_code}, which is beyond {MAX_EXIT_CODE}")
    if not 0.0 <= delay_s <= MAX_DELAY_S:
        raise NoVerdict(f"policy answered with a delay of {delay_s:g} s, which is not within 0 and {MAX_DELAY_S:g}")
    if len(excluded) > MAX_NODES or any(not 0 < len(name.encode()) <= MAX_NAME_BYTES for name in excluded):
        raise NoVerdict("policy answered with names of excluded nodes that are none")
    kept = verdict.would_exclude_node_ids
    if len(kept) > MAX_NODES or any(not 0 < len(name.encode()) <= MAX_NAME_BYTES for name in kept):
        raise NoVerdict("policy answered with names of kept nodes that are none")
    if kind is VerdictKind.RESTART_EXCLUDING and not excluded:
        raise NoVerdict("policy answered RESTART_EXCLUDING without naming a node")
    known = because_from_proto(verdict.because, Reason.OBSERVED)
    return Verdict(
        kind=kind,
        because=Because(known.code, known.sentence[:MAX_SENTENCE_CHARACTERS]),
        exit_code=verdict.exit_code,
        delay_s=delay_s,
        excluded=frozenset(NodeId(name) for name in excluded),
        would_exclude=frozenset(NodeId(name) for name in kept),
        restarts_left=verdict.restarts_left,
        source=SOURCE_POLICY,
    )
