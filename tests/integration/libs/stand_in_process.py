"""The stand-in rendezvous, or one client of it, as a process of its own, so that it can be stopped and killed."""

from __future__ import annotations

import asyncio
import sys

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.channel import open_channel
from resurge_libs.rpc.endpoint import parse_endpoint
from resurge_libs.rpc.server import listen, make_server
from tests.contract.libs.rendezvous_stand_in import StandIn


async def serve(where: str) -> None:
    """Serve until killed; says when it is ready."""
    server = make_server(TimeLimits())
    rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(StandIn(), server)
    endpoint = listen(server, parse_endpoint(where))
    await server.start()
    print(endpoint, flush=True)
    await server.wait_for_termination()


async def attach(where: str) -> None:
    """Hold one open stream until killed; says when it is open."""
    async with open_channel(parse_endpoint(where), TimeLimits()) as channel:
        stream = rendezvous_pb2_grpc.RendezvousServiceStub(channel).Attach()
        await stream.write(rendezvous_pb2.AttachRequest(observed=attach_pb2.Observed(revision_seen=1)))
        await stream.read()
        print("attached", flush=True)
        await stream.read()


if __name__ == "__main__":
    asyncio.run({"serve": serve, "attach": attach}[sys.argv[1]](sys.argv[2]))
