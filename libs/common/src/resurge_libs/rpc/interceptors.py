"""Turns what a servicer raises into the call's status, so that servicers hold no error mapping. Decides nothing."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from resurge_libs.core.refusals import BadRequest, InternalFault, RpcProblem
from resurge_libs.obs.log import event
from resurge_libs.rpc.errors import abort


class RefusalInterceptor(grpc.aio.ServerInterceptor):
    """Answers a raised RpcProblem with its status and detail, anything else with INTERNAL."""

    def __init__(self) -> None:
        self._answering: dict[str, tuple[Any, Any]] = {}
        """By method that is served: its handler, and that with what it raises turned into a status."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """Wrap the method's handler."""
        handler: Any = await continuation(handler_call_details)
        details: Any = handler_call_details
        if handler is None:  # an unknown method: gRPC answers it
            return cast(grpc.RpcMethodHandler, None)
        known, wrapped = self._answering.get(details.method, (None, None))
        if known is not handler:
            wrapped = answering(handler, details.method)
            self._answering[details.method] = handler, wrapped
        return cast(grpc.RpcMethodHandler, wrapped)


def answering(handler: Any, method: str) -> Any:
    """The handler, with what it raises turned into a status; synchronous ones (health, reflection) stay as they are."""
    kind = (bool(handler.request_streaming), bool(handler.response_streaming))
    behavior = {
        (False, False): handler.unary_unary,
        (False, True): handler.unary_stream,
        (True, False): handler.stream_unary,
        (True, True): handler.stream_stream,
    }[kind]
    make: Any = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[kind]
    if inspect.isasyncgenfunction(behavior):
        wrapped = _stream(behavior, method)
    elif inspect.iscoroutinefunction(behavior):
        wrapped = _coroutine(behavior, method)
    else:
        return handler
    return make(
        wrapped,
        request_deserializer=_tolerant(handler.request_deserializer),
        response_serializer=handler.response_serializer,
    )


class Malformed:
    """Stands for a request that could not be read; any look at it is the refusal."""

    def __init__(self, error: Exception) -> None:
        object.__setattr__(self, "error", error)

    def __getattr__(self, name: str) -> Any:
        raise self.refusal()

    def refusal(self) -> BadRequest:
        """What the caller is told."""
        return BadRequest.of(
            "message", f"is malformed, or of another release: {object.__getattribute__(self, 'error')}"
        )


def _tolerant(deserialize: Any) -> Any:
    """gRPC itself would answer UNKNOWN, which does not say that nothing was done."""

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
            return Malformed(error)

    return read if deserialize is not None else None


def _coroutine(behavior: Any, method: str) -> Any:
    async def answer(request: Any, context: Any) -> Any:
        try:
            if isinstance(request, Malformed):
                raise request.refusal()
            return await behavior(request, context)
        except RpcProblem as problem:
            await abort(context, problem)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # the root of one call: logged once, answered INTERNAL
            event("call_failed", method=method, error=repr(error), trace=traceback.format_exc())
            await abort(context, InternalFault(f"{method}: {error!r}"))

    return answer


def _stream(behavior: Any, method: str) -> Any:
    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            if isinstance(request, Malformed):
                raise request.refusal()
            async for message in behavior(request, context):
                yield message
        except RpcProblem as problem:
            await abort(context, problem)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # the root of one call: logged once, answered INTERNAL
            event("call_failed", method=method, error=repr(error), trace=traceback.format_exc())
            await abort(context, InternalFault(f"{method}: {error!r}"))

    return answer
