"""Rendezvous as a module of a host: journal, machine, engine, effects and servicer bound together. Decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from resurge_api.rendezvous.v1 import rendezvous_pb2, rendezvous_pb2_grpc
from resurge_libs.core import codec
from resurge_libs.core.instant import Instant
from resurge_libs.core.machine import Step
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.engine.memory_journal import MemoryJournal
from resurge_libs.engine.ports import Clock, Entropy, Ids, Journal, JournalFailed
from resurge_libs.engine.real import RealClock, RealEntropy, RealIds
from resurge_libs.engine.runner import Engine, EngineOptions
from resurge_libs.hosting.module import Module, ModulePorts, Target
from resurge_libs.obs import log
from resurge_libs.rpc.records import CYCLES_NAME
from resurge_rendezvous import tell, wire_out
from resurge_rendezvous.clients import POLICY, GrpcPolicy, PolicyPort
from resurge_rendezvous.core import replaced
from resurge_rendezvous.core.crowds import is_patient, may_be_one_of_many, together
from resurge_rendezvous.core.exclusions import every_exclusion
from resurge_rendezvous.core.facts import ReplacementSettled
from resurge_rendezvous.core.model import Ended, Job, NodeExcluded, NodeReadmitted, Paused, RdzvState, Tick
from resurge_rendezvous.core.step import RULES_VERSION, RendezvousMachine
from resurge_rendezvous.core.views import job_view
from resurge_rendezvous.cycles import CycleExport, CyclePlace
from resurge_rendezvous.desk import Desk
from resurge_rendezvous.effects import RdzvEffects
from resurge_rendezvous.exclusion_file import ExclusionFile
from resurge_rendezvous.export import RecoveryExport
from resurge_rendezvous.journal import open_journal, restored
from resurge_rendezvous.relay.module import TARGET as RELAY
from resurge_rendezvous.servicer import RendezvousServicer
from resurge_rendezvous.settings import RendezvousSettings

NAME = "rendezvous"
SERVICE = rendezvous_pb2.DESCRIPTOR.services_by_name["RendezvousService"].full_name

SHOW_EVERY_S = 0.02
SHOW_PER_NODE_S = 0.0002
"""A crowd that joins or starts changes at every moment: its picture is taken when it has come some way."""
SHOW_SHARE = 0.05
"""Share of this process's time that pictures of the job may take."""


@dataclass(frozen=True, slots=True)
class World:
    """What a test puts in place of the real world."""

    clock: Clock = field(default_factory=RealClock)
    entropy: Entropy = field(default_factory=RealEntropy)
    ids: Ids = field(default_factory=RealIds)
    journal: Journal | None = None
    policy: PolicyPort | None = None


class RendezvousModule:
    """Rendezvous in a host."""

    service_names = (SERVICE,)

    def __init__(self, settings: RendezvousSettings, ports: ModulePorts, world: World) -> None:
        self._settings, self._ports, self._world = settings, ports, world
        self._machine = RendezvousMachine(ports.limits)
        self._journal = world.journal or self._open_journal()
        self._restored = restored(self._machine, self._journal, ports.job_id)
        self.desk = Desk(settings, ports.limits, world.clock, world.entropy, world.ids)
        self.desk.job_id = ports.job_id
        self._policy = world.policy or GrpcPolicy(ports.endpoint_of, ports.limits, ports.token)
        self._export = RecoveryExport(ports.state_dir, ports.spans)
        self._cycles = CycleExport(self._cycle_place())
        self._exclusions = ExclusionFile(settings.exclusion_file)
        self._effects = RdzvEffects(self.desk, self._policy, self._export, self._changed)
        self._is_over = False
        self._engine: Engine[RdzvState] | None = None
        self._showing: asyncio.TimerHandle | None = None
        self._show_not_before = Instant(0.0)
        self._is_hurried = False
        self._alone: asyncio.TimerHandle | None = None

    def _cycle_place(self) -> CyclePlace | None:
        given = self._settings.cycle_info_dir
        own = self._ports.state_dir / CYCLES_NAME if self._ports.state_dir is not None else None
        if given is not None:
            return CyclePlace(given.absolute(), is_given=True, link=own)
        if own is not None and own.is_symlink():  # of an earlier start with a directory of its own
            with contextlib.suppress(OSError):
                own.unlink(missing_ok=True)
        return CyclePlace(own, is_given=False) if own is not None else None

    def _open_journal(self) -> Journal:
        if self._ports.state_dir is None:  # a host refuses this; a contract test may want it
            return MemoryJournal()
        return open_journal(self._ports.state_dir, self._ports.job_id)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the servicer."""
        rendezvous_pb2_grpc.add_RendezvousServiceServicer_to_server(RendezvousServicer(self.desk), server)

    async def start(self) -> None:
        """Take up the job where the journal left it; each known lease gets a full term."""
        world, limits = self._world, self._ports.limits
        state = self._machine.recovered(self._restored.durable, world.clock.monotonic())
        engine: Engine[RdzvState] = Engine(
            self._machine, state, self._journal, self._effects, world.clock, self._options()
        )
        self._engine = engine
        self.desk.open(engine)
        self.desk.attention.begin(world.clock)
        engine.start(self._restored.last_seq, self._restored.rules_version)
        self._export.catch_up(self._restored.durable.records)
        self._cycles.catch_up(state)
        self._show_exclusions(state.durable)
        self._changed()
        if self._restored.durable.spec is None:
            wait_s = limits.first_contact_limit_s
            self._alone = asyncio.get_running_loop().call_later(wait_s, self._nobody_came)

    async def stop(self) -> None:
        """Stop deciding; what was decided is durable afterwards."""
        if self._alone is not None:
            self._alone.cancel()
        self.desk.attention.end()
        self.desk.close()
        await self._effects.stop()
        if self._engine is not None:
            await self._engine.stop()
            self._hide()
            self._show()
        await self._policy.close()
        await asyncio.get_running_loop().run_in_executor(None, self._journal.close)
        if self._engine is not None:
            self._export.show_last()
        # side by side: each gives a directory that hangs the whole of its short time
        for_people = (self._export, self._cycles, self._exclusions)
        await asyncio.gather(*(asyncio.to_thread(export.close) for export in for_people))

    def _options(self) -> EngineOptions:
        return EngineOptions(
            tick=lambda: Tick(self.desk.stamp()),
            paused=self._paused,
            crowds=_LAUNCHERS,
            late_tick_s=self._ports.limits.late_tick_s,
            snapshot_every=self._settings.snapshot_every,
            rules_version=RULES_VERSION,
            settings_digest=self._settings_digest(),
            on_step=self._told,
            on_rejected=_rejected,
            on_failed=self._failed,
        )

    def _settings_digest(self) -> bytes:
        """Which settings decided, so that a replay of an old entry can tell whether they have changed since."""
        return hashlib.sha256(
            self._settings.model_dump_json(exclude={"cycle_info_dir", "exclusion_file"}).encode()
            + codec.digest(self._ports.limits)
        ).digest()

    def _paused(self, for_s: float) -> Paused:
        log.event("service_paused", for_s=for_s)
        return Paused(self.desk.stamp(), for_s)

    def _show_replaced(self, step: Step[RdzvState]) -> None:
        job = step.state.durable
        for fact in step.facts:
            if isinstance(fact, ReplacementSettled) and job.spec is not None:
                one = replaced.known(job, fact.generation, fact.node, fact.number)
                if one is not None:
                    self._export.export_replaced(job.spec.job_id, one)

    def _told(self, event: Any, step: Step[RdzvState]) -> None:
        if _is_over(step.state) != self._is_over:  # acknowledgements are no facts, and no picture changes by them
            self._hurry()  # a host that lives for this job waits for it
            self._changed()
        self._cycles.told(step.state, step.facts)
        self._show_replaced(step)
        if any(isinstance(fact, NodeExcluded | NodeReadmitted) for fact in step.facts):
            self._show_exclusions(step.state.durable)
        try:
            for fact in step.facts:
                tell.fact(fact, step.reason)
        except Exception as error:  # the root of telling: a log line must not keep a decision from being carried out
            log.event("facts_not_told", what=type(event).__name__, error=repr(error))

    def _show_exclusions(self, job: Job) -> None:
        self._exclusions.show(job.spec.job_id if job.spec is not None else "", every_exclusion(job))

    def _failed(self, failure: JournalFailed) -> None:
        log.event("journal_failed", sentence=str(failure))
        self.desk.close(Because(Reason.JOURNAL_FAILED, str(failure)))
        self._ports.on_failed(str(failure))

    def _changed(self) -> None:
        """The job looks different; of many changes in a row only the last is shown."""
        self.desk.wake_if_fenced()
        if self._showing is None:
            nodes = len(self.desk.published.volatile.seats)
            patient_s = max(SHOW_PER_NODE_S * nodes, self._show_not_before - self._world.clock.monotonic())
            wait_s = SHOW_EVERY_S if self._is_hurried else max(SHOW_EVERY_S, patient_s)
            self._showing = asyncio.get_running_loop().call_later(wait_s, self._show)

    def _hurry(self) -> None:
        """Show it now, whatever the last picture cost."""
        self._is_hurried = True
        if self._showing is not None and self._showing.when() > asyncio.get_running_loop().time() + SHOW_EVERY_S:
            self._hide()

    def _hide(self) -> None:
        if self._showing is not None:
            self._showing.cancel()
            self._showing = None

    def _show(self) -> None:
        """Tell observers, people, and a host that lives for this job."""
        self._showing, self._is_hurried = None, False
        began = self._world.clock.monotonic()
        view = job_view(self.desk.published)
        job = wire_out.job_to_proto(view)
        self.desk.watchers.publish(job)
        self._export.show_job(job)
        self._cycles.shown(self.desk.published)
        if view.all_acknowledged != self._is_over:
            self._is_over = view.all_acknowledged
            self._ports.on_ended(self._is_over)
        # a picture of ten thousand nodes takes a while, here and in the writer: it never takes more than its share
        now = self._world.clock.monotonic()
        took_s = (now - began) + self._export.show_took_s
        self._show_not_before = Instant(now + took_s / SHOW_SHARE)

    def _nobody_came(self) -> None:
        if self.desk.published.durable.spec is None:
            log.event("nobody_came", limit_s=self._ports.limits.first_contact_limit_s)
            self._ports.on_ended(True)


class _Launchers:
    """What launchers say may be stepped together."""

    takes = staticmethod(may_be_one_of_many)
    is_patient = staticmethod(is_patient)
    of = staticmethod(together)


_LAUNCHERS = _Launchers()


def _is_over(state: RdzvState) -> bool:
    """The job has ended and every launcher knows it, or its lease is over."""
    return isinstance(state.durable.stage, Ended) and len(state.volatile.unacknowledged) == 0


def _rejected(event: Any, error: BaseException) -> None:
    log.event("event_rejected", what=type(event).__name__, error=repr(error))


def build(settings: RendezvousSettings, ports: ModulePorts, world: World | None = None) -> Module:
    """Rendezvous with its journal opened and replayed. Raises UsageError for a state directory that cannot serve."""
    return RendezvousModule(settings, ports, world or World())


TARGET = Target(NAME, RendezvousSettings, build, keeps_state=True, calls=(POLICY,))

__all__ = ["NAME", "RELAY", "TARGET", "RendezvousModule", "World", "build"]
