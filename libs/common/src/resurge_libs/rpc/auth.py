"""The job token: a shared secret in call metadata, required where an endpoint can be reached from elsewhere.

The token comes in as a value (from settings); this module never reads the environment and never logs a token.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from resurge_libs.core.refusals import Unauthenticated
from resurge_libs.rpc.endpoint import Endpoint, EndpointProblem, token_flaw

TOKEN_KEY = "x-resurge-job-token"
TOKEN_VARIABLE = "RESURGE_JOB_TOKEN"
OPEN_METHODS = ("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch")
"""Health says nothing about a job, and orchestrators ask it without a secret."""

Metadata = tuple[tuple[str, str | bytes], ...]


class TokenProblem(EndpointProblem):
    """The job token cannot serve at this endpoint."""


class TokenMissing(TokenProblem):
    """An endpoint that others can reach has no token."""


class TokenFlawed(TokenProblem):
    """The token cannot travel as call metadata."""


def require_token(endpoint: Endpoint, token: str | None) -> None:
    """Raise TokenMissing where the endpoint is neither loopback nor a Unix socket and no token is set, TokenFlawed for
    one that no call could carry."""
    flaw = token_flaw(token or "")
    if flaw:
        raise TokenFlawed(f"{TOKEN_VARIABLE} {flaw}: set it to one line of printable characters")
    if endpoint.needs_token and not token:
        raise TokenMissing(
            f"endpoint {endpoint} can be reached from other machines, so {TOKEN_VARIABLE} must be set to a shared "
            "secret on every node and service of the job (or use a loopback address or a Unix socket)"
        )


def token_metadata(token: str | None) -> Metadata:
    """The metadata that presents the token; empty without one."""
    return ((TOKEN_KEY, token),) if token else ()


def is_right(presented: str | bytes | None, token: str) -> bool:
    """Whether the presented token is the job's, compared in constant time."""
    given = presented.encode() if isinstance(presented, str) else presented or b""
    return hmac.compare_digest(given, token.encode())


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses every call without the job's token, but for health checks and what a service has opened."""

    def __init__(self, token: str, open_methods: Sequence[str] = ()) -> None:
        self._token, self._open = token, frozenset((*OPEN_METHODS, *open_methods))

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """Pass the call on, or answer UNAUTHENTICATED in its own shape."""
        handler: Any = await continuation(handler_call_details)
        details: Any = handler_call_details
        if handler is None or details.method in self._open:
            return handler
        presented = next((value for key, value in details.invocation_metadata or () if key == TOKEN_KEY), None)
        if is_right(presented, self._token):
            return handler
        return _refusing(handler)


def _refusing(handler: Any) -> Any:
    async def refuse(_request: Any, context: grpc.aio.ServicerContext) -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(Unauthenticated()))

    async def refuse_stream(_request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(Unauthenticated()))
        yield None  # never reached; makes this an asynchronous generator, as streams need

    made: dict[tuple[bool, bool], Any] = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    make = made[bool(handler.request_streaming), bool(handler.response_streaming)]
    return make(
        refuse_stream if handler.response_streaming else refuse,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
