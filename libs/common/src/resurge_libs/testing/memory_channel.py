"""A gRPC channel without a network: generated stub → bytes → generated servicer, in one event loop.

Deadlines, metadata, streams, statuses and interceptors behave as over a wire, in whatever time the loop runs. Faults
are switched on at the channel: unreachable, hung, a reply lost after the work was done, all streams broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import grpc.aio

from resurge_libs.testing.memory_call import CallContext, MemoryCall, rpc_error


class MemoryServer:
    """Holds servicers: give it to a generated `add_…Servicer_to_server`."""

    def __init__(self, interceptors: Sequence[Any] = ()) -> None:
        self._handlers: dict[str, Any] = {}
        self._interceptors = tuple(interceptors)

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Part of the server interface that generated code uses."""
        for generic in handlers:
            found = getattr(generic, "_method_handlers", {})
            self._handlers.update(found)

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Part of the server interface that generated code uses."""
        self._handlers.update({f"/{service}/{method}": handler for method, handler in handlers.items()})

    async def handler_for(self, method: str, metadata: tuple[tuple[str, Any], ...]) -> Any:
        """The method's handler behind all interceptors; None for an unknown method."""

        class Details:
            pass

        details: Any = Details()
        details.method, details.invocation_metadata = method, metadata

        async def innermost(_details: Any) -> Any:
            return self._handlers.get(method)

        continuation: Any = innermost
        for interceptor in reversed(self._interceptors):
            continuation = _bind(interceptor, continuation)
        return await continuation(details)


def _bind(interceptor: Any, inner: Any) -> Any:
    async def outer(details: Any) -> Any:
        return await interceptor.intercept_service(inner, details)

    return outer


class MemoryChannel:
    """The client side; stands in for `grpc.aio.Channel` in generated stubs."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.unreachable = False
        """Calls fail at once with UNAVAILABLE."""
        self.hung = False
        """Calls get no answer until their deadline."""
        self.lose_replies = 0
        """So many next unary calls are done by the server but answered UNAVAILABLE."""
        self.calls: list[str] = []
        """Every method called, in order."""
        self._open: set[MemoryCall] = set()

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any, **_: Any) -> Any:
        """A callable for one method, as stubs want it."""
        return _Method(self, method, request_serializer, response_deserializer)

    unary_stream = unary_unary
    stream_unary = unary_unary
    stream_stream = unary_unary

    def break_streams(self) -> None:
        """End every open call with UNAVAILABLE, as a lost connection does."""
        for call in tuple(self._open):
            call.break_now()

    async def close(self, grace: float | None = None) -> None:
        """End every open call."""
        self.break_streams()

    async def __aenter__(self) -> MemoryChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def opened(self, call: MemoryCall) -> None:
        """Remember an open call."""
        self._open.add(call)

    def closed(self, call: MemoryCall) -> None:
        """Forget an ended call."""
        self._open.discard(call)


class _Method:
    def __init__(self, channel: MemoryChannel, method: str, serialize: Any, deserialize: Any) -> None:
        self._channel, self._method = channel, method
        self._serialize, self._deserialize = serialize, deserialize

    def __call__(
        self,
        request: Any = None,
        timeout: float | None = None,
        metadata: Any = None,
        **_: Any,
    ) -> MemoryCall:
        call = MemoryCall(self._channel, self._method, self._deserialize, self._serialize)
        self._channel.calls.append(self._method)
        call.start(request, timeout, tuple(metadata or ()), self._serve(call))
        return call

    async def _serve(self, call: MemoryCall) -> None:
        """The server's side of one call, as a task."""
        channel = self._channel
        if channel.unreachable:
            raise rpc_error(grpc.StatusCode.UNAVAILABLE, "memory channel: unreachable")
        if channel.hung:
            await asyncio.get_running_loop().create_future()
        context = CallContext(call)
        call.context = context
        handler = await channel.server.handler_for(self._method, call.metadata)
        if handler is None:
            raise rpc_error(grpc.StatusCode.UNIMPLEMENTED, f"Method not found: {self._method}")
        if handler.response_streaming:
            await self._serve_stream(call, context, handler)
        else:
            await self._serve_unary(call, context, handler)

    async def _serve_unary(self, call: MemoryCall, context: CallContext, handler: Any) -> None:
        behavior = handler.stream_unary if handler.request_streaming else handler.unary_unary
        response = await behavior(await _argument(call, handler), context)
        if self._channel.lose_replies > 0:
            self._channel.lose_replies -= 1
            raise rpc_error(grpc.StatusCode.UNAVAILABLE, "memory channel: the reply was lost")
        await call.answer(handler.response_serializer(response))

    async def _serve_stream(self, call: MemoryCall, context: CallContext, handler: Any) -> None:
        behavior = handler.stream_stream if handler.request_streaming else handler.unary_stream
        context.serializer = handler.response_serializer
        result = behavior(await _argument(call, handler), context)
        if hasattr(result, "__aiter__"):
            async for response in result:
                await call.answer(handler.response_serializer(response))
        else:
            await result


async def _argument(call: MemoryCall, handler: Any) -> Any:
    if call.context is not None:
        call.context.deserializer = handler.request_deserializer
    if handler.request_streaming:
        return _requests(call, handler.request_deserializer)
    data = await call.next_request()
    try:
        return handler.request_deserializer(data)
    except Exception as error:  # whatever the deserializer raises, grpc answers INTERNAL
        raise rpc_error(grpc.StatusCode.INTERNAL, f"Exception deserializing request! {error!r}") from error


async def _requests(call: MemoryCall, deserialize: Any) -> AsyncIterator[Any]:
    while True:
        data = await call.next_request()
        if data is None:
            return
        yield deserialize(data)
