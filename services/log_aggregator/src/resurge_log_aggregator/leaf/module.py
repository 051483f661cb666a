"""The leaf as a module of a host: senders' streams below, one stream to the root above. Decides nothing.

Downwards it is the log server's contract, so a sender cannot tell the difference. Acknowledgements are the root's: a
leaf that dies costs its senders a new stream, and no line.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from resurge_api.logs.v1 import logs_pb2
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import Unready
from resurge_libs.hosting.module import Module, ModulePorts, Target
from resurge_libs.hosting.usage import UsageError
from resurge_libs.rpc.auth import TokenMissing, require_token
from resurge_libs.rpc.endpoint import BadEndpoint, Endpoint, parse_endpoint
from resurge_libs.rpc.errors import problem_of
from resurge_log_aggregator.leaf.settings import MIB, LeafSettings
from resurge_log_aggregator.leaf.uplink import Uplink
from resurge_log_aggregator.push import PushStream

NAME = "log_leaf"
_SERVICE = logs_pb2.DESCRIPTOR.services_by_name["LogAggregatorService"]
FIELD = "--log-root"
WANTED = "give the address of the log server: host:port or unix:/path"
SENDER_WINDOW_BYTES = 8 * MIB
"""Text of one sender that may be under way: what it holds at most of its own accord."""


class LeafModule:
    """A leaf in a host."""

    service_names = (str(_SERVICE.full_name),)

    def __init__(self, settings: LeafSettings, ports: ModulePorts) -> None:
        self._settings = settings
        if not ports.job_id:
            raise UsageError("--job-id", "is missing", "give the job whose lines are passed on")
        root = _root_of(settings, ports.token)
        self._uplink = Uplink(root, ports.limits, ports.token, ports.job_id, settings)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the log server's contract: streams of senders are gathered, other calls are passed on as they are."""
        handlers: dict[str, Any] = {
            "Push": grpc.stream_stream_rpc_method_handler(
                self._push,
                request_deserializer=logs_pb2.PushRequest.FromString,
                response_serializer=logs_pb2.PushResponse.SerializeToString,
            )
        }
        for method in _SERVICE.methods:
            path = f"/{_SERVICE.full_name}/{method.name}"
            if not method.client_streaming:
                handlers[method.name] = self._stream_of(path) if method.server_streaming else self._unary(path)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),))

    async def start(self) -> None:
        """Begin to look for the root."""
        self._uplink.start(f"{socket.gethostname()}:{os.getpid()}")

    async def stop(self) -> None:
        """Pass on what senders still have; who is left comes back elsewhere."""
        await self._uplink.stop(self._settings.leaf_stop_limit_s)

    async def _push(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for answer in PushStream(self._uplink, SENDER_WINDOW_BYTES).answers(requests):
            yield answer

    def _unary(self, method: str) -> Any:
        async def passed(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            try:
                return bytes(await self._channel().unary_unary(method)(request, **_beside(context)))
            except grpc.RpcError as error:
                raise problem_of(error) from None

        return grpc.unary_unary_rpc_method_handler(passed)

    def _stream_of(self, method: str) -> Any:
        async def passed(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
            try:
                async for answer in self._channel().unary_stream(method)(request, **_beside(context)):
                    yield answer
            except grpc.RpcError as error:
                raise problem_of(error) from None

        return grpc.unary_stream_rpc_method_handler(passed)

    def _channel(self) -> Any:
        if self._uplink.channel is None:
            raise Unready(Because(Reason.LOG_NOT_WRITTEN, f"the leaf does not reach {self._settings.log_root}"))
        return self._uplink.channel


def _beside(context: Any) -> dict[str, Any]:
    carried = tuple((key, value) for key, value in context.invocation_metadata() or () if _travels(key))
    return {"timeout": context.time_remaining(), "metadata": carried or None}


def _travels(key: str) -> bool:
    return key == "traceparent" or key.startswith("x-resurge-")


def _root_of(settings: LeafSettings, token: str | None) -> Endpoint:
    if not settings.log_root:
        raise UsageError(FIELD, "is missing", WANTED)
    try:
        root = parse_endpoint(settings.log_root)
        require_token(root, token)
    except BadEndpoint as error:
        raise UsageError(FIELD, str(error), WANTED) from error
    except TokenMissing as error:
        raise UsageError(FIELD, str(error), "set RESURGE_JOB_TOKEN") from error
    return root


def build(settings: LeafSettings, ports: ModulePorts) -> Module:
    """A leaf. Raises UsageError when the root or the job is not named, or not rightly."""
    return LeafModule(settings, ports)


TARGET = Target(
    NAME,
    LeafSettings,
    build,
    keeps_state=False,
    stands_alone=True,
    longer_stop_s=lambda settings: float(settings.leaf_stop_limit_s),
)
