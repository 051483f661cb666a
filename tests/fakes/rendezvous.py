"""A rendezvous that does what a test says: real gRPC, no decisions. It answers beats and remembers what it was told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core.refusals import RpcProblem
from resurge_libs.rpc.errors import abort
from resurge_libs.testing import wait_until_async

LEASE_TTL_S = 5.0


class FakeRendezvous(rendezvous_pb2_grpc.RendezvousServiceServicer):
    """Serves one launcher; `want` sets its desired state, `told` is its newest observed state."""

    def __init__(self) -> None:
        self.hellos: list[attach_pb2.Hello] = []
        self.history: list[tuple[float, attach_pb2.Observed]] = []
        self.refusal: RpcProblem | None = None
        self.answers_beats = True
        self.port = 0
        self._desired: attach_pb2.Desired | None = None
        self._queues: list[asyncio.Queue[attach_pb2.Desired]] = []
        self._revision = 0
        self._server: grpc.aio.Server | None = None

    async def start(self, path: Path | None = None) -> str:
        """Serve; the endpoint as the launcher takes it."""
        self._server = grpc.aio.server()
        rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(self, self._server)
        endpoint = f"unix:{path}" if path is not None else f"127.0.0.1:{self.port}"
        self.port = self._server.add_insecure_port(endpoint)
        await self._server.start()
        return endpoint if path is not None else f"127.0.0.1:{self.port}"

    async def stop(self) -> None:
        """Close every stream."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    @property
    def told(self) -> attach_pb2.Observed:
        """The newest observed state."""
        return self.history[-1][1] if self.history else attach_pb2.Observed()

    def want(self, **goal: Any) -> None:
        """Set the desired state: run=, down=, park= or exit=."""
        self._revision += 1
        self._desired = attach_pb2.Desired(revision=self._revision, **goal)
        for queue in self._queues:
            queue.put_nowait(self._desired)

    def want_run(self, generation: int, workers: int = 1, **more: Any) -> None:
        """Run this generation on the one node, on the port that it offered."""
        self.want(
            run=attach_pb2.Run(
                generation=generation,
                attempt=1,
                cycle=generation - 1,
                group_world_size=1,
                world_size=workers,
                master_addr=self.told.store_offer.address or "127.0.0.1",
                master_port=self.told.store_offer.port or 29400,
                store_is_served=self.told.store_offer.is_served,
                **more,
            )
        )

    def want_down(self, generation: int, incident_id: str = "") -> None:
        """Tear this generation down."""
        self.want(down=attach_pb2.Down(generation=generation, incident_id=incident_id))

    def want_exit(self, code: int, all_acknowledged: bool = True) -> None:
        """End the job."""
        self.want(exit=attach_pb2.Exit(code=code, all_acknowledged=all_acknowledged))

    async def until(self, phase: str, generation: int | None = None, limit_s: float = 20.0) -> attach_pb2.Observed:
        """The newest observed state, once it has this phase (and generation)."""
        number = attach_pb2.NodePhase.Value(f"NODE_PHASE_{phase}")

        def there() -> bool:
            return self.told.phase == number and generation in (None, self.told.generation)

        await wait_until_async(there, limit_s, f"phase {phase} of {generation}, not {self.told}")
        return self.told

    def first_told(self, phase: str, generation: int) -> float:
        """When this phase was heard first, by time.monotonic."""
        number = attach_pb2.NodePhase.Value(f"NODE_PHASE_{phase}")
        return next(at for at, o in self.history if o.phase == number and o.generation == generation)

    async def Attach(self, request_iterator: Any, context: Any) -> AsyncIterator[rendezvous_pb2.AttachResponse]:
        if self.refusal is not None:
            await abort(context, self.refusal)
        queue: asyncio.Queue[attach_pb2.Desired] = asyncio.Queue()
        self._queues.append(queue)
        if self._desired is not None:
            queue.put_nowait(self._desired)
        reader = asyncio.get_running_loop().create_task(self._read(request_iterator, queue))
        try:
            while True:
                yield rendezvous_pb2.AttachResponse(desired=await queue.get())
        finally:
            reader.cancel()
            self._queues.remove(queue)

    async def _read(self, request_iterator: Any, queue: asyncio.Queue[attach_pb2.Desired]) -> None:
        async for request in request_iterator:
            observed = request.observed
            if observed.HasField("hello"):
                self.hellos.append(observed.hello)
            self.history.append((time.monotonic(), observed))
            if observed.HasField("beat") and self.answers_beats:
                desired = attach_pb2.Desired()
                desired.beat_reply.sequence = observed.beat.sequence
                desired.beat_reply.launcher_sent.CopyFrom(observed.beat.sent)
                desired.beat_reply.received.GetCurrentTime()
                desired.beat_reply.sent.GetCurrentTime()
                desired.beat_reply.lease_ttl.FromNanoseconds(round(LEASE_TTL_S * 1e9))
                queue.put_nowait(desired)
