"""A scripted restart policy: answers, refuses, stays silent, or answers nonsense, as the test says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum

import grpc.aio

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2, policy_pb2_grpc


class Mood(Enum):
    """What the next call meets."""

    RESTART = "RESTART"
    STOP = "STOP"
    SILENT = "SILENT"
    REFUSES = "REFUSES"
    NONSENSE = "NONSENSE"


@dataclass
class FakePolicy(policy_pb2_grpc.RestartPolicyServiceServicer):
    """Serves on `endpoint` once started; keeps what it was asked."""

    mood: Mood = Mood.RESTART
    asked: list[policy_pb2.Incident] = field(default_factory=list)
    metadata: list[tuple[tuple[str, str], ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._server: grpc.aio.Server | None = None

    async def start(self, endpoint: str = "127.0.0.1:0") -> str:
        """Serve; the returned endpoint has the port that was given for port 0."""
        self._server = grpc.aio.server()
        policy_pb2_grpc.add_RestartPolicyServiceServicer_to_server(self, self._server)
        port = self._server.add_insecure_port(endpoint)
        await self._server.start()
        return endpoint if endpoint.startswith("unix:") else f"{endpoint.rpartition(':')[0]}:{port}"

    async def stop(self) -> None:
        """Stop serving at once."""
        if self._server is not None:
            await self._server.stop(None)

    async def Decide(
        self, request: policy_pb2.DecideRequest, context: grpc.aio.ServicerContext
    ) -> policy_pb2.DecideResponse:
        """Keep the incident and do what the mood says."""
        self.asked.append(request.incident)
        self.metadata.append(tuple(context.invocation_metadata() or ()))
        match self.mood:
            case Mood.SILENT:
                await asyncio.Event().wait()
            case Mood.REFUSES:
                await context.abort(grpc.StatusCode.INTERNAL, "not today")
            case Mood.NONSENSE:
                return policy_pb2.DecideResponse(
                    verdict=policy_pb2.Verdict(kind=policy_pb2.VERDICT_KIND_UNSPECIFIED, exit_code=70_000)
                )
            case Mood.STOP:
                because = ids_pb2.Because(code="NO_PROGRESS", sentence="the scripted policy stops")
                return policy_pb2.DecideResponse(
                    verdict=policy_pb2.Verdict(
                        kind=policy_pb2.VERDICT_KIND_STOP, because=because, exit_code=93, source="policy"
                    )
                )
            case Mood.RESTART:
                pass
        because = ids_pb2.Because(code="WORKER_SIGNAL", sentence="the scripted policy restarts")
        left = max(0, request.incident.max_restarts - request.incident.restarts_spent - 1)
        return policy_pb2.DecideResponse(
            verdict=policy_pb2.Verdict(
                kind=policy_pb2.VERDICT_KIND_RESTART, because=because, restarts_left=left, source="policy"
            )
        )
