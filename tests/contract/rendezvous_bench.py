"""Rendezvous behind a memory channel: its module as a host would run it, with the journal and policy of the test."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from resurge_api.common.v1 import ids_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.core.verdict import SOURCE_POLICY, IncidentView, Verdict, VerdictKind
from resurge_libs.engine.memory_journal import MemoryJournal
from resurge_libs.hosting.module import ModulePorts
from resurge_libs.rpc.interceptors import RefusalInterceptor
from resurge_libs.testing.memory_channel import MemoryChannel, MemoryServer
from resurge_rendezvous.module import World, build
from resurge_rendezvous.settings import RendezvousSettings
from tests.fakes.launcher import FakeLauncher, job_spec

NUMBERS = itertools.count(1)


@dataclass
class AnsweringPolicy:
    """A policy port that restarts, and remembers what it was asked."""

    asked: list[IncidentView] = field(default_factory=list)

    async def decide(self, view, limit_s):
        """Restart."""
        self.asked.append(view)
        because = Because(Reason.WORKER_SIGNAL, "the test's policy restarts")
        return Verdict(VerdictKind.RESTART, because, restarts_left=view.budget.left - 1, source=SOURCE_POLICY)

    async def close(self):
        """Nothing is open."""


@dataclass
class Bench:
    """One running rendezvous and a way to call it."""

    channel: MemoryChannel
    stub: rendezvous_pb2_grpc.RendezvousServiceStub
    journal: MemoryJournal
    policy: AnsweringPolicy
    failures: list[str]
    endings: list[bool]

    def launcher(self, node="n0", spec=None, **fields):
        """A scripted launcher on this channel."""
        return FakeLauncher(self.channel, spec or job_spec(), node, **fields)

    @asynccontextmanager
    async def running(self, nodes=("n0", "n1"), spec=None):
        """The nodes, attached; the first MIN of them run one generation, the others are parked."""
        launchers = [self.launcher(node, spec) for node in nodes]
        try:
            for launcher in launchers:
                await launcher.attach()
            for launcher in launchers:
                await launcher.until(lambda node: node.desired is not None)
            for launcher in launchers[: launchers[0].spec.min_nodes]:
                await launcher.until_goal("run")
            yield launchers
        finally:
            for launcher in launchers:
                await launcher.vanish()

    async def token(self):
        """The token that holds."""
        return (await self.stub.GetJob(pb.GetJobRequest())).job.token

    async def job(self):
        """The job as it stands."""
        return (await self.stub.GetJob(pb.GetJobRequest())).job


@asynccontextmanager
async def bench(journal=None, limits=None, job_id="", settings=None):
    """Rendezvous from start to stop."""
    journal, policy = journal or MemoryJournal(), AnsweringPolicy()
    failures, endings = [], []
    ports = ModulePorts(
        limits=limits or TimeLimits(), job_id=job_id, on_failed=failures.append, on_ended=endings.append
    )
    module = build(settings or RendezvousSettings(), ports, World(journal=journal, policy=policy))
    server = MemoryServer([RefusalInterceptor()])
    module.add_to(server)
    await module.start()
    channel = MemoryChannel(server)
    try:
        yield Bench(channel, rendezvous_pb2_grpc.RendezvousServiceStub(channel), journal, policy, failures, endings)
    finally:
        await channel.close()
        await module.stop()


def request_id():
    """One that was never used."""
    return f"request-{next(NUMBERS)}"


def older(token):
    """A token of the generation before."""
    return ids_pb2.FencingToken(job_id=token.job_id, attempt=token.attempt, generation=token.generation - 1)
