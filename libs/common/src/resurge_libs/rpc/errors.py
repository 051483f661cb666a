"""Puts typed refusals on the wire as google.rpc.Status details, and reads them back. Decides nothing.

A status without a detail that we know is read by its code: where the transport may have lost the answer of something
that was done, it becomes ReplyLost, which is not definite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from resurge_api.common.v1 import ids_pb2, refusals_pb2
from resurge_libs.core.ids import Attempt, FencingToken, Generation, Incarnation, JobId, NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import (
    AlreadyAttached,
    BadRequest,
    BudgetExhausted,
    FieldViolation,
    InternalFault,
    NodeExcluded,
    NotYourNode,
    Overloaded,
    Refused,
    ReplyLost,
    RpcProblem,
    StaleGeneration,
    Superseded,
    Unauthenticated,
    Unimplemented,
    Unready,
    Unsure,
    VersionMismatch,
    WrongJob,
)
from resurge_libs.core.text import whole_text

__all__ = [
    "DETAILS_KEY",
    "AlreadyAttached",
    "BadRequest",
    "BudgetExhausted",
    "InternalFault",
    "NodeExcluded",
    "NotYourNode",
    "Overloaded",
    "Refused",
    "ReplyLost",
    "RpcProblem",
    "StaleGeneration",
    "Superseded",
    "Unauthenticated",
    "Unimplemented",
    "Unready",
    "Unsure",
    "VersionMismatch",
    "WrongJob",
    "abort",
    "because_from_proto",
    "because_to_proto",
    "from_status",
    "problem_of",
    "to_status",
    "token_from_proto",
    "token_to_proto",
]

DETAILS_KEY = "grpc-status-details-bin"
ERROR_DOMAIN = "resurge"
Code = grpc.StatusCode


def token_to_proto(token: FencingToken) -> ids_pb2.FencingToken:
    """The wire form of a fencing token."""
    return ids_pb2.FencingToken(job_id=token.job, attempt=token.attempt, generation=token.generation)


def token_from_proto(proto: ids_pb2.FencingToken) -> FencingToken:
    """The fencing token on the wire."""
    return FencingToken(JobId(proto.job_id), Attempt(proto.attempt), Generation(proto.generation))


def because_to_proto(because: Because) -> ids_pb2.Because:
    """The wire form of a reason."""
    return ids_pb2.Because(code=str(because.code), sentence=whole_text(because.sentence))


def because_from_proto(proto: ids_pb2.Because, otherwise: Reason = Reason.BAD_REQUEST) -> Because:
    """The reason on the wire; a code of another release becomes `otherwise`, with the code kept in the sentence."""
    try:
        return Because(Reason(proto.code), proto.sentence)
    except ValueError:
        return Because(otherwise, f"{proto.code}: {proto.sentence}" if proto.code else proto.sentence)


@dataclass(frozen=True, slots=True)
class _Row:
    """One refusal on the wire: its status code, its detail message, and both directions."""

    kind: type[RpcProblem]
    code: Code
    proto: Any
    to_proto: Callable[[Any], Any]
    from_proto: Callable[[Any], RpcProblem]


def _excluded_to_proto(problem: NodeExcluded) -> Any:
    proto = refusals_pb2.NodeExcluded(node_id=problem.node, because=because_to_proto(problem.because))
    if problem.until is not None:
        proto.until.FromNanoseconds(round(problem.until * 1e9))
    return proto


def _excluded_from_proto(proto: Any) -> NodeExcluded:
    until = Wall(proto.until.ToNanoseconds() / 1e9) if proto.HasField("until") else None
    return NodeExcluded(NodeId(proto.node_id), because_from_proto(proto.because, Reason.EXCLUDED), until)


def _overloaded_to_proto(problem: Overloaded) -> Any:
    proto = error_details_pb2.RetryInfo()
    proto.retry_delay.FromNanoseconds(round(problem.retry_after_s * 1e9))
    return proto


def _bad_request_to_proto(problem: BadRequest) -> Any:
    violation = error_details_pb2.BadRequest.FieldViolation
    return error_details_pb2.BadRequest(
        field_violations=[violation(field=item.field, description=item.right) for item in problem.violations]
    )


_ROWS: tuple[_Row, ...] = (
    _Row(
        StaleGeneration,
        Code.FAILED_PRECONDITION,
        refusals_pb2.StaleGeneration,
        lambda p: refusals_pb2.StaleGeneration(
            presented=token_to_proto(p.presented), current=token_to_proto(p.current)
        ),
        lambda d: StaleGeneration(token_from_proto(d.presented), token_from_proto(d.current)),
    ),
    _Row(
        AlreadyAttached,
        Code.ALREADY_EXISTS,
        refusals_pb2.AlreadyAttached,
        lambda p: refusals_pb2.AlreadyAttached(node_id=p.node, incarnation=p.incarnation, holder=p.holder),
        lambda d: AlreadyAttached(NodeId(d.node_id), Incarnation(d.incarnation), d.holder),
    ),
    _Row(
        Superseded,
        Code.ABORTED,
        refusals_pb2.Superseded,
        lambda p: refusals_pb2.Superseded(node_id=p.node, presented=p.presented, current=p.current),
        lambda d: Superseded(NodeId(d.node_id), Incarnation(d.presented), Incarnation(d.current)),
    ),
    _Row(NodeExcluded, Code.PERMISSION_DENIED, refusals_pb2.NodeExcluded, _excluded_to_proto, _excluded_from_proto),
    _Row(
        BudgetExhausted,
        Code.RESOURCE_EXHAUSTED,
        refusals_pb2.BudgetExhausted,
        lambda p: refusals_pb2.BudgetExhausted(spent=p.spent, max_restarts=p.max_restarts),
        lambda d: BudgetExhausted(d.spent, d.max_restarts),
    ),
    _Row(
        VersionMismatch,
        Code.FAILED_PRECONDITION,
        refusals_pb2.VersionMismatch,
        lambda p: refusals_pb2.VersionMismatch(presented=p.presented, supported=p.supported),
        lambda d: VersionMismatch(d.presented, d.supported),
    ),
    _Row(
        WrongJob,
        Code.FAILED_PRECONDITION,
        refusals_pb2.WrongJob,
        lambda p: refusals_pb2.WrongJob(
            presented=p.presented,
            served=p.served,
            field=p.field,
            presented_value=p.presented_value,
            served_value=p.served_value,
        ),
        lambda d: WrongJob(JobId(d.presented), JobId(d.served), d.field, d.presented_value, d.served_value),
    ),
    _Row(
        Unready,
        Code.UNAVAILABLE,
        refusals_pb2.Unready,
        lambda p: refusals_pb2.Unready(because=because_to_proto(p.because)),
        lambda d: Unready(because_from_proto(d.because, Reason.JOURNAL_FAILED)),
    ),
    _Row(
        Overloaded,
        Code.RESOURCE_EXHAUSTED,
        error_details_pb2.RetryInfo,
        _overloaded_to_proto,
        lambda d: Overloaded(d.retry_delay.ToNanoseconds() / 1e9),
    ),
    _Row(
        BadRequest,
        Code.INVALID_ARGUMENT,
        error_details_pb2.BadRequest,
        _bad_request_to_proto,
        lambda d: BadRequest(tuple(FieldViolation(v.field, v.description) for v in d.field_violations)),
    ),
)
_CODES_BY_ERROR_INFO: dict[type[RpcProblem], tuple[Code, str]] = {
    Unauthenticated: (Code.UNAUTHENTICATED, "UNAUTHENTICATED"),
    NotYourNode: (Code.PERMISSION_DENIED, "NOT_YOUR_NODE"),
    Unimplemented: (Code.UNIMPLEMENTED, "UNIMPLEMENTED"),
    InternalFault: (Code.INTERNAL, "INTERNAL_FAULT"),
}


def to_status(problem: RpcProblem) -> tuple[Code, status_pb2.Status]:
    """The status code and the Status message, with its detail, of one refusal."""
    for row in _ROWS:
        if isinstance(problem, row.kind):
            return row.code, _status(row.code, str(problem), row.to_proto(problem))
    for kind, (code, reason) in _CODES_BY_ERROR_INFO.items():
        if isinstance(problem, kind):
            return code, _status(code, str(problem), error_details_pb2.ErrorInfo(reason=reason, domain=ERROR_DOMAIN))
    code = Code.DEADLINE_EXCEEDED if isinstance(problem, ReplyLost) and problem.timed_out else Code.UNAVAILABLE
    return code, status_pb2.Status(code=code.value[0], message=str(problem))


def from_status(code: Code, message: str, status: status_pb2.Status | None) -> RpcProblem:
    """The refusal that a status tells of."""
    for detail in status.details if status is not None else ():
        problem = _from_detail(detail, message)
        if problem is not None:
            return problem
    return _from_code(code, message)


def problem_of(error: grpc.RpcError) -> RpcProblem:
    """The refusal behind what a synchronous or asyncio stub raised."""
    call: Any = error
    code = call.code() if callable(getattr(call, "code", None)) else Code.UNKNOWN
    message = call.details() if callable(getattr(call, "details", None)) else str(error)
    metadata = call.trailing_metadata() if callable(getattr(call, "trailing_metadata", None)) else ()
    return from_status(code, message or "", _status_in(metadata or ()))


async def abort(context: Any, problem: RpcProblem) -> NoReturn:
    """End the call being served with this refusal. `context` is an asyncio servicer context."""
    code, status = to_status(problem)
    await context.abort(code, str(problem), ((DETAILS_KEY, status.SerializeToString()),))
    raise AssertionError("abort always raises")


def _status(code: Code, message: str, detail: Any) -> status_pb2.Status:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return status_pb2.Status(code=code.value[0], message=message, details=[packed])


def _status_in(metadata: Iterable[tuple[str, Any]]) -> status_pb2.Status | None:
    for key, value in metadata:
        if key == DETAILS_KEY:
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                return None
    return None


def _from_detail(detail: any_pb2.Any, message: str) -> RpcProblem | None:
    for row in _ROWS:
        if detail.Is(row.proto.DESCRIPTOR):
            body = row.proto()
            try:
                detail.Unpack(body)
            except DecodeError:
                return None
            return row.from_proto(body)
    info = error_details_pb2.ErrorInfo()
    if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.domain == ERROR_DOMAIN:
        for kind, (_, reason) in _CODES_BY_ERROR_INFO.items():
            if info.reason == reason:
                return kind(message)
    return None


def _from_code(code: Code, message: str) -> RpcProblem:
    match code:
        case Code.UNAUTHENTICATED:
            return Unauthenticated(message)
        case Code.UNIMPLEMENTED:
            return Unimplemented(message or "the peer does not know this call: it is of another release")
        case Code.INVALID_ARGUMENT | Code.RESOURCE_EXHAUSTED:
            return BadRequest.of("message", message)
        case Code.PERMISSION_DENIED:
            return NotYourNode(message)
        case Code.INTERNAL if "deserializing request" in message:
            return BadRequest.of("message", "could not be read: it is malformed or of another release")
        case Code.FAILED_PRECONDITION | Code.ALREADY_EXISTS | Code.NOT_FOUND | Code.OUT_OF_RANGE:
            return InternalFault(f"{code.name}: {message}")
        case Code.DEADLINE_EXCEEDED:
            return ReplyLost(message or "no answer within the deadline", timed_out=True)
        case _:  # UNAVAILABLE, CANCELLED, UNKNOWN, INTERNAL, ABORTED, DATA_LOSS: it may have been done
            return ReplyLost(f"{code.name}: {message}")
