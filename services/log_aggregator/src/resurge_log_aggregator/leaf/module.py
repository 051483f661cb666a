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

from resurge_api.compat import log_aggregation_pb2_grpc
from resurge_api.logs.v1 import logs_pb2
from resurge_libs.hosting.module import Module, ModulePorts, Target
from resurge_libs.hosting.root import root_of
from resurge_libs.hosting.usage import UsageError
from resurge_libs.rpc.passing import Passing
from resurge_log_aggregator.leaf.nvrx import NvrxLeafServicer
from resurge_log_aggregator.leaf.settings import MIB, LeafSettings
from resurge_log_aggregator.leaf.uplink import Uplink
from resurge_log_aggregator.module import NVRX_METHODS, NVRX_SERVICE
from resurge_log_aggregator.push import PushStream

NAME = "log_leaf"
_SERVICE = logs_pb2.DESCRIPTOR.services_by_name["LogAggregatorService"]
FIELD = "--log-root"
WANTED = "give the address of the log server: host:port or unix:/path"
SENDER_WINDOW_BYTES = 8 * MIB
"""Text of one sender that may be under way: what it holds at most of its own accord."""


class LeafModule:
    """A leaf in a host."""

    service_names = (str(_SERVICE.full_name), NVRX_SERVICE)

    def __init__(self, settings: LeafSettings, ports: ModulePorts) -> None:
        self._settings = settings
        if not ports.job_id:
            raise UsageError("--job-id", "is missing", "give the job whose lines are passed on")
        root = root_of(settings.log_root, FIELD, WANTED, ports.token)
        self._uplink = Uplink(root, ports.limits, ports.token, ports.job_id, settings)
        self._of_others = NvrxLeafServicer(self._uplink, settings.leaf_queue_mib * MIB)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the log server's contract: streams of senders are gathered, other calls are passed on as they are."""
        passing = Passing(self._uplink.root_channel)
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
                handlers[method.name] = passing.handler(path, method.server_streaming)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),))
        log_aggregation_pb2_grpc.add_LogAggregationServiceServicer_to_server(self._of_others, server)

    async def start(self) -> None:
        """Begin to look for the root."""
        self._uplink.start(f"{socket.gethostname()}:{os.getpid()}")

    async def stop(self) -> None:
        """Pass on what senders still have; who is left comes back elsewhere."""
        await self._uplink.stop(self._settings.leaf_stop_limit_s)
        await self._of_others.stop()

    async def _push(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for answer in PushStream(self._uplink, SENDER_WINDOW_BYTES).answers(requests):
            yield answer


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
    open_methods=lambda settings: NVRX_METHODS if settings.leaf_nvrx_without_token else (),
)
