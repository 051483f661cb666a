"""What a relay and a leaf share: the way to their root, held for ever, and calls that are passed on as they are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from resurge_libs.core.refusals import RpcProblem
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.channel import open_channel
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.rpc.errors import problem_of


async def hold_for_ever(
    root: Endpoint,
    limits: TimeLimits,
    token: str | None,
    hold: Callable[[grpc.aio.Channel], Awaitable[None]],
    let_go: Callable[[], None],
    lost: Callable[[str], None],
) -> None:
    """Hold a stream to the root until cancelled: a new channel each time, after a short random wait.

    `hold` ends with the stream, by RpcProblem where it broke, which `lost` is told; `let_go` runs after each.
    """
    try:
        while True:
            channel = open_channel(root, limits, token)
            try:
                await hold(channel)
            except RpcProblem as problem:
                lost(str(problem))
            finally:
                let_go()
                await channel.close(None)
            await asyncio.sleep(random.uniform(limits.reconnect_backoff_min_s, limits.reconnect_backoff_max_s))
    finally:
        let_go()


class Passing:
    """Calls that concern one caller only are passed on as they are, byte for byte, with what is left of their time.

    `channel` gives the way to the root; it raises the RpcProblem that callers are to hear while there is none.
    """

    def __init__(self, channel: Callable[[], Any]) -> None:
        self._channel = channel

    def handler(self, path: str, is_stream: bool) -> Any:
        """The handler of one call, whose answers may be a stream."""
        return self.watch(path) if is_stream else self.unary(path)

    def unary(self, method: str) -> Any:
        """The handler of one unary call."""

        async def passed(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            try:
                answer = await self._channel().unary_unary(method)(request, **_beside(context))
            except grpc.RpcError as error:
                raise problem_of(error) from None
            return bytes(answer)

        return grpc.unary_unary_rpc_method_handler(passed)

    def watch(self, method: str) -> Any:
        """The handler of one call whose answers are a stream."""

        async def passed(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
            try:
                async for answer in self._channel().unary_stream(method)(request, **_beside(context)):
                    yield answer
            except grpc.RpcError as error:
                raise problem_of(error) from None

        return grpc.unary_stream_rpc_method_handler(passed)


def _beside(context: Any) -> dict[str, Any]:
    carried = tuple((key, value) for key, value in context.invocation_metadata() or () if _travels(key))
    return {"timeout": context.time_remaining(), "metadata": carried or None}


def _travels(key: str) -> bool:
    return key == "traceparent" or key.startswith("x-resurge-")
