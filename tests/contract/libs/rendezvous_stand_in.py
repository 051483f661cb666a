"""A servicer that answers as a test tells it, behind the house's interceptors."""

from __future__ import annotations

import asyncio
from typing import Any

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2, rendezvous_pb2_grpc


class StandIn(rendezvous_pb2_grpc.RendezvousServiceServicer):
    """Raises `problem` where it is set; else does the least that each call means."""

    def __init__(self) -> None:
        self.problem: BaseException | None = None
        self.puts: list[str] = []
        self.metadata: Any = ()
        self.left_s: float | None = None
        self.ended = 0

    async def Put(self, request, context):
        self.metadata, self.left_s = context.invocation_metadata(), context.time_remaining()
        self.puts.append(request.request_id)
        if self.problem is not None:
            raise self.problem
        return rendezvous_pb2.PutResponse()

    async def Wait(self, request, context):
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.ended += 1

    async def WatchJob(self, request, context):
        for number in range(3):
            yield rendezvous_pb2.WatchJobResponse(job=rendezvous_pb2.Job(cycle=number))
        if self.problem is not None:
            raise self.problem

    async def Attach(self, request_iterator, context):
        try:
            async for request in request_iterator:
                if request.observed.revision_seen == 99:
                    return
                if self.problem is not None:
                    raise self.problem
                yield rendezvous_pb2.AttachResponse(
                    desired=attach_pb2.Desired(revision=request.observed.revision_seen + 1)
                )
        finally:
            self.ended += 1
