"""Calls with a deadline whose errors are typed, and retries of idempotent calls, which stay within one deadline.

Only Unsure errors are retried, and only under the same request id: the request message is sent again unchanged.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import tenacity

from resurge_libs.core.instant import Instant
from resurge_libs.core.refusals import BadRequest, Unsure
from resurge_libs.rpc.auth import Metadata
from resurge_libs.rpc.deadline import Deadline
from resurge_libs.rpc.errors import problem_of


@dataclass(frozen=True, slots=True)
class RetryRules:
    """How often, how long, and how far apart an idempotent call is tried."""

    limit_s: float = 10.0
    """For all tries together."""
    try_limit_s: float = 2.0
    """For one try."""
    max_tries: int = 10
    first_wait_s: float = 0.05
    longest_wait_s: float = 1.0


async def call(method: Any, request: Any, limit_s: float, metadata: Metadata = ()) -> Any:
    """One try of a unary call of an asyncio stub. Raises Refused or Unsure errors, never grpc.RpcError."""
    try:
        return await method(request, timeout=limit_s, metadata=metadata or None)
    except grpc.RpcError as error:
        raise problem_of(error) from None


def call_sync(method: Any, request: Any, limit_s: float, metadata: Metadata = ()) -> Any:
    """As `call`, for a synchronous stub."""
    try:
        return method(request, timeout=limit_s, metadata=metadata or None)
    except grpc.RpcError as error:
        raise problem_of(error) from None


async def call_idempotent(method: Any, request: Any, rules: RetryRules | None = None, metadata: Metadata = ()) -> Any:
    """A unary call tried again while its outcome is unsure. Raises the last try's error when the limit is over.

    The request must carry a `request_id` where its message has one; BadRequest is raised otherwise, before any try.
    """
    rules = rules or RetryRules()
    _need_request_id(request)
    deadline = Deadline.within(rules.limit_s, _now())
    async for attempt in tenacity.AsyncRetrying(**_policy(rules, deadline)):
        with attempt:
            return await call(method, request, _try_limit_s(rules, deadline), metadata)
    raise AssertionError("tenacity returns or raises")


def call_idempotent_sync(method: Any, request: Any, rules: RetryRules | None = None, metadata: Metadata = ()) -> Any:
    """As `call_idempotent`, for a synchronous stub."""
    rules = rules or RetryRules()
    _need_request_id(request)
    deadline = Deadline.within(rules.limit_s, _now())
    for attempt in tenacity.Retrying(**_policy(rules, deadline)):
        with attempt:
            return call_sync(method, request, _try_limit_s(rules, deadline), metadata)
    raise AssertionError("tenacity returns or raises")


def _policy(rules: RetryRules, deadline: Deadline) -> dict[str, Any]:
    return {
        "retry": tenacity.retry_if_exception_type(Unsure),
        "wait": tenacity.wait_random_exponential(multiplier=rules.first_wait_s, max=rules.longest_wait_s),
        "stop": lambda state: state.attempt_number >= rules.max_tries or deadline.is_over(_now()),
        "reraise": True,
    }


def _try_limit_s(rules: RetryRules, deadline: Deadline) -> float:
    return max(0.001, deadline.shrunk_to(rules.try_limit_s, _now()).left_s(_now()))


def _need_request_id(request: Any) -> None:
    fields = request.DESCRIPTOR.fields_by_name
    if "request_id" in fields and not request.request_id:
        raise BadRequest.of("request_id", "must be set on a call that may be sent again")


def _now() -> Instant:
    return Instant(time.monotonic())
