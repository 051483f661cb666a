"""The restart policy as a module of a host. Binds settings, servicer and spans together; decides nothing."""

from __future__ import annotations

import grpc.aio

from resurge_api.policy.v1 import policy_pb2, policy_pb2_grpc
from resurge_libs.engine.real import RealClock
from resurge_libs.hosting.module import Module, ModulePorts, Target
from resurge_restart_policy.clients import RENDEZVOUS, GrpcRecords
from resurge_restart_policy.servicer import RestartPolicyServicer
from resurge_restart_policy.settings import PolicySettings
from resurge_restart_policy.spans import DecideSpans

NAME = "restart_policy"
SERVICE = policy_pb2.DESCRIPTOR.services_by_name["RestartPolicyService"].full_name


class RestartPolicyModule:
    """The policy in a host; keeps nothing that outlives it."""

    service_names = (SERVICE,)

    def __init__(self, settings: PolicySettings, ports: ModulePorts) -> None:
        self._records = GrpcRecords(ports.endpoint_of, ports.limits, ports.token)
        spans = DecideSpans(ports.spans, RealClock().wall)
        self._servicer = RestartPolicyServicer(settings.rules(), spans, self._records)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the servicer."""
        policy_pb2_grpc.add_RestartPolicyServiceServicer_to_server(self._servicer, server)

    async def start(self) -> None:
        """Nothing to begin: every call is answered from its own request."""

    async def stop(self) -> None:
        """Let go of the way to rendezvous."""
        await self._records.close()


def build(settings: PolicySettings, ports: ModulePorts) -> Module:
    """The policy with these settings. Raises UsageProblem when two of them contradict each other."""
    return RestartPolicyModule(settings, ports)


TARGET = Target(NAME, PolicySettings, build, keeps_state=False, calls=(RENDEZVOUS,))
