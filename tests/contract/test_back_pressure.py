"""A service with too much to do says so with a time to wait, and a launcher comes back after it, not before."""

from __future__ import annotations

import asyncio
import time

import grpc

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2, rendezvous_pb2_grpc
from resurge_launcher.core import happenings as h
from resurge_launcher.stream import ControlStream, Where
from resurge_launcher.wire import Times
from resurge_libs.core.refusals import Overloaded
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.endpoint import parse_endpoint
from resurge_libs.rpc.server import listen, make_server

WAIT_S = 0.7
"""Longer than a launcher's own longest wait here."""
LIMITS = TimeLimits(reconnect_backoff_min_s=0.01, reconnect_backoff_max_s=0.02)


class Full(rendezvous_pb2_grpc.RendezvousServiceServicer):
    """Takes nobody in the first time."""

    def __init__(self) -> None:
        self.asked_at: list[float] = []
        self.taken = asyncio.Event()

    async def Attach(self, request_iterator, context):
        self.asked_at.append(time.monotonic())
        if len(self.asked_at) == 1:
            raise Overloaded(WAIT_S, "events")
        yield rendezvous_pb2.AttachResponse(desired=attach_pb2.Desired(revision=1, park=attach_pb2.Park()))
        self.taken.set()
        await asyncio.Event().wait()


async def serving(servicer):
    server = make_server(LIMITS)
    rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(servicer, server)
    bound = listen(server, parse_endpoint("127.0.0.1:0"))
    await server.start()
    return server, bound


async def test_a_launcher_that_is_told_to_wait_comes_back_when_the_wait_is_over():
    full = Full()
    server, bound = await serving(full)
    posted: list[h.Event] = []
    hello = attach_pb2.Hello(protocol_version=1, node_id="n1", incarnation=1, local_world_size=1)
    stream = ControlStream(Where(bound, LIMITS), Times(0), lambda: hello, posted.append)
    try:
        stream.start()
        await asyncio.wait_for(full.taken.wait(), 10)
        first, second = full.asked_at
        assert WAIT_S <= second - first < WAIT_S + 5
        lost = next(event for event in posted if isinstance(event, h.StreamLost))
        assert "ask again in 0.7 s" in str(lost)
    finally:
        await stream.stop()
        await server.stop(0)


async def test_the_wait_is_on_the_wire_where_every_client_finds_it():
    server, bound = await serving(Full())
    try:
        async with grpc.aio.insecure_channel(bound.target) as channel:
            call = rendezvous_pb2_grpc.RendezvousServiceStub(channel).Attach()
            try:
                await call.read()
                raise AssertionError("nobody was refused")
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                trailing = dict(error.trailing_metadata() or ())
                assert b"google.rpc.RetryInfo" in trailing["grpc-status-details-bin"]
    finally:
        await server.stop(0)
