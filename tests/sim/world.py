"""A whole job in one process and in virtual time: real cores, model workers, a network, and verbs to be rude with.

    world = World(seed=41, nodes=4)
    world.crash("n1", at_s=40)
    world.run_until_quiet(limit_s=600)
    world.oracle.check()

The same seed and the same verbs give the same world, to the last message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from resurge_launcher.core.model import OnExcluded, OnLostControl
from resurge_libs.core.budget import RestartRules
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import Attempt, JobId
from resurge_libs.core.progress import MarkerReading, ProgressRules, ProgressSource
from resurge_libs.core.recommendation import StopAction
from resurge_libs.core.time_limits import TimeLimits
from resurge_rendezvous.core import model as rm
from tests.sim.in_place import InPlace
from tests.sim.launcher import Launcher
from tests.sim.model_worker import Crowd, Habits, Process, Training
from tests.sim.network import Network
from tests.sim.oracle import Oracle
from tests.sim.relay import Relay
from tests.sim.service import Service
from tests.sim.timeline import Clock, Timeline
from tests.sim.verbs import Verbs

SHORT_LIMITS = TimeLimits(
    quorum_wait_s=60.0,
    all_lost_wait_s=30.0,
    start_process_group_limit_s=40.0,
    start_restore_limit_s=40.0,
    start_first_step_limit_s=40.0,
    hang_limit_s=20.0,
    finish_skew_limit_s=30.0,
    lost_control_limit_s=90.0,
    drain_grace_s=10.0,
)
"""The waits that a world would otherwise spend most of its time in; the order of the table holds."""
MAX_ACTS = 400_000


class NotQuiet(AssertionError):
    """S7: the world was healed, and yet the job neither runs nor ended with a named reason."""


@dataclass(frozen=True)
class Setup:
    """What a world is made of."""

    seed: int = 0
    nodes: int = 2
    min_nodes: int = 0
    """0: all of them."""
    workers: int = 2
    max_restarts: int = 5
    strict_fence: bool = True
    limits: TimeLimits = SHORT_LIMITS
    habits: Habits = field(default_factory=Habits)
    on_lost_control: OnLostControl = OnLostControl.KEEP
    on_excluded: OnExcluded = OnExcluded.PARK
    max_excluded_share: float = 0.2
    exclusion_window_s: float = 3600.0
    stray_rate: float = 0.05
    spawn_failure_rate: float = 0.0
    refund_after_s: float = 0.0
    by_cause: str = ""
    """Restarts allowed for single causes, as `signal:2,node:1`."""
    progress_by: str = "nothing"
    """What counts as progress over restarts: `marker` or `sdk`."""
    min_progress: int = 1
    no_progress_cycles: int = 3
    marker_hang_rate: float = 0.0
    marker_broken_rate: float = 0.0
    slow_fsync_rate: float = 0.0
    skewed_clocks: bool = True
    relays: int = 0
    page_interval_s: float = 0.5
    calm_beats: bool = False
    """Whether beats where nothing can go wrong are taken without messages; see calm.py."""
    attribution_stops: bool = False
    """A STOP of attribution ends the job."""
    most_acts: int = MAX_ACTS
    preempted_exit_code: int = 0
    keep_lines: int = 50


def progress_of(setup: Setup) -> ProgressRules:
    """How a world's job judges its progress."""
    source = ProgressSource.NONE if setup.progress_by == "nothing" else ProgressSource(setup.progress_by)
    return ProgressRules(source, setup.min_progress, setup.no_progress_cycles)


def _bounds(text: str) -> tuple[tuple[FaultCause, int], ...]:
    pairs = (pair.split(":") for pair in text.split(",") if pair)
    return tuple(sorted((FaultCause(cause), int(count)) for cause, count in pairs))


class World(Verbs):
    """Everything there is; the verbs of a test are its methods, each with an optional `at_s`."""

    def __init__(self, setup: Setup | None = None, **changes: object) -> None:
        self.setup = replace(setup or Setup(), **changes)
        self.chance = Random(self.setup.seed)
        self.timeline = Timeline()
        self.faulted = self.setup.on_lost_control is OnLostControl.STOP or self.setup.spawn_failure_rate > 0
        self.slow_to_turn: set[str] = set()
        """Nodes whose relay ended while their own links were slow: such a launcher may turn to the next way too late,
        and its loss, but no other's, is then a fault like that of a cut link."""
        self.lines: deque[tuple[float, str, str]] = deque(maxlen=self.setup.keep_lines or None)
        self.attempt = 0
        """What the scheduler tells new launchers; 0: it says nothing."""
        self.oracle = Oracle(self)
        self.net = Network(self.timeline, self.chance, self.setup.limits)
        self.crowd = Crowd(self.timeline, self.chance, self.setup.habits)
        self.crowd.on_commit, self.crowd.on_stop = self.oracle.committed, self.oracle.stopping.told
        self.in_place = InPlace(self)
        self.relays = {f"r{number}": Relay(self, f"r{number}") for number in range(1, self.setup.relays + 1)}
        self.disk_is_full = False
        self._clocks: dict[str, Clock] = {}
        self._incarnations: dict[str, int] = {}
        self._boots: dict[str, int] = {}
        self.machines: dict[str, str] = {}
        """Where a node is not on the machine that it began on: which it is on now."""
        self._live: dict[str, list[Launcher]] = {}
        self.gone: list[Launcher] = []
        self._coming = 0
        """Launchers that will be started by plan."""
        self.service = Service(self, self.setup.limits)
        self.service.start()
        for relay in self.relays.values():
            self.net.link(relay.way_up)
            relay.start()
        for node in self.node_names if self.relays else ():
            for name in self.relays:
                self.net.link(f"{node}>{name}")
        for node in self.node_names:
            self.after(self.chance.uniform(0.0, 2.0), lambda node=node: self._come_back(node), coming=True)

    # ----------------------------------------------------------------------------------------------- what there is

    @property
    def now_s(self) -> float:
        return self.timeline.now_s

    @property
    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.setup.nodes + 1)]

    def spec(self, attempt: int) -> rm.JobSpec:
        """What the job is, as launchers of one attempt say it."""
        setup = self.setup
        return rm.JobSpec(
            job_id=JobId("job"),
            attempt=Attempt(attempt),
            min_nodes=setup.min_nodes or setup.nodes,
            max_nodes=setup.nodes,
            max_restarts=setup.max_restarts,
            strict_fence=setup.strict_fence,
            lease_ttl_s=setup.limits.lease_ttl_s,
            fault_grace_s=setup.limits.fault_grace_s,
            progress=progress_of(setup),
            max_excluded_share=setup.max_excluded_share,
            exclusion_window_s=setup.exclusion_window_s,
            preempted_exit_code=setup.preempted_exit_code,
            restarts=RestartRules(_bounds(setup.by_cause), setup.refund_after_s),
            attribution_stop_action=StopAction.NO_RESTART if setup.attribution_stops else StopAction.LOG,
        )

    def marker(self) -> MarkerReading:
        """What is in the marker file now."""
        if self.chance.random() < self.setup.marker_broken_rate:
            return MarkerReading(skipped=self.chance.choice(["is empty", "holds 'abc', which is no iteration"]))
        step = self.crowd.checkpoint_step
        return MarkerReading(step) if step > 0 else MarkerReading(skipped="does not exist")

    @property
    def job(self) -> rm.Job:
        return self.service.state.durable

    @property
    def training(self) -> Training | None:
        """The workers of the generation that holds, if they have started."""
        stage = self.job.stage
        if not isinstance(stage, rm.Running | rm.Proving):
            return None
        found = [t for (g, _, _), t in self.crowd.trainings.items() if g == int(stage.formation.generation)]
        return found[-1] if found else None

    def clock_of(self, node: str) -> Clock:
        if node not in self._clocks:
            skew_s = self.chance.uniform(-3.0, 3.0) if self.setup.skewed_clocks else 0.0
            rate = 1.0 + (self.chance.uniform(-2e-4, 2e-4) if self.setup.skewed_clocks else 0.0)
            self._clocks[node] = Clock(self.chance.uniform(0.0, 1e6), rate, skew_s)
        return self._clocks[node]

    def machine_of(self, node: str) -> str:
        return self.machines.get(node, f"machine-of-{node}")

    def boot_of(self, node: str) -> str:
        machine = self.machine_of(node)
        return f"boot-{machine}-{self._boots.get(machine, 0)}"

    def order_of(self, node: str) -> int:
        return int(node[1:])

    def launchers(self) -> list[Launcher]:
        """Every launcher that lives, also two of one node."""
        return [launcher for crowd in self._live.values() for launcher in crowd if launcher.alive]

    def launchers_of(self, node: str) -> list[Launcher]:
        """The node's launchers that live."""
        return [launcher for launcher in self._live.get(node, ()) if launcher.alive]

    def launcher(self, node: str) -> Launcher:
        """The node's launcher that attached last, alive or not."""
        return self._live[node][-1]

    def known(self, node: str) -> list[Launcher]:
        """Every launcher that a node ever had."""
        return self._live[node]

    def processes(self, node: str | None = None, rank: int | None = None) -> list[Process]:
        return [
            p
            for p, _ in self.crowd.processes.values()
            if (node is None or p.node == node) and (rank is None or p.rank == rank) and not p.dying
        ]

    def fsync_s(self) -> float:
        if self.chance.random() < self.setup.slow_fsync_rate:
            return self.chance.uniform(0.1, 3.0)
        return self.chance.uniform(0.0002, 0.004)

    def log(self, who: str, what: str) -> None:
        self.lines.append((self.timeline.now_s, who, what))

    # --------------------------------------------------------------------------------------------------------- time

    def after(self, wait_s: float, act: Callable[[], None], *, coming: bool = False) -> None:
        """Plan an act; `coming`: it brings a launcher, so the world is not quiet before."""
        self._coming += coming

        def do() -> None:
            self._coming -= coming
            act()

        self.timeline.after(wait_s, do)

    def at(self, at_s: float | None, act: Callable[[], None]) -> None:
        """Do it at a time, or now."""
        if at_s is None:
            act()
        else:
            self.timeline.at(at_s, act)

    def run(self, until_s: float) -> World:
        """Let time pass."""
        if not self.timeline.advance_until(until_s, self.setup.most_acts):
            self._too_many_acts()
        self.timeline.now_s = max(self.timeline.now_s, until_s)
        return self

    def run_until(self, condition: Callable[[], object], limit_s: float) -> World:
        """Let time pass until something is so; raises NotQuiet at the limit."""
        until_s = self.now_s + limit_s
        while not condition():
            next_s = self.timeline.next_at_s()
            if next_s is None or next_s > until_s:
                raise NotQuiet(f"S7: after {limit_s:g} s: {self.describe()}")
            self._advance()
        return self

    def run_until_quiet(self, limit_s: float = 600.0) -> World:
        """Let time pass until the job trains undisturbed, or has ended for everybody; raises NotQuiet at the limit."""
        checked_at_s = [-1.0]

        def quiet() -> bool:
            if self.now_s - checked_at_s[0] < 0.25 and self.timeline.next_at_s() is not None:
                return False
            checked_at_s[0] = self.now_s
            return self.is_quiet()

        return self.run_until(quiet, limit_s)

    def _advance(self) -> None:
        self.timeline.advance()
        if self.timeline.acts_done > self.setup.most_acts:
            self._too_many_acts()

    def _too_many_acts(self) -> None:
        raise NotQuiet(f"S7: {self.setup.most_acts} acts and no end: {self.describe()}")

    def is_quiet(self) -> bool:
        """Whether nothing is left to wait for: the job trains and may save, or everybody has left."""
        if self._coming:
            return False
        live = self.launchers()
        if not live:
            return True
        if not self.service.alive or self.service.paused:
            return False
        stage = self.job.stage
        if not isinstance(stage, rm.Running):
            return False
        training = self.training
        if training is None or any(launcher.stream is None or launcher.paused for launcher in live):
            return False
        moving = self.now_s - training.moved_at_s < 3 * self.setup.habits.step_s
        may_save = training.step > 0 and training.members[0][1].may_commit(training.generation)
        return moving and may_save and not training.broken and not training.finished

    def describe(self) -> str:
        """One sentence on where everything stands."""
        service = self.service
        stage = type(self.job.stage).__name__ if service.state else "?"
        waits = getattr(service.state.volatile, "waits_for", "") if service.state else ""
        nodes = ", ".join(
            f"{launcher.name} {type(launcher.state.phase).__name__} ({type(launcher.state.goal).__name__})"
            f"{'' if launcher.stream else ' without control'}"
            for launcher in self.launchers()
        )
        up = "up" if service.alive else "down"
        return f"job {stage} g{self.job.generation} {waits!r}; service {up}; {nodes or 'no launcher'}"

    # --------------------------------------------------------------------------------------------------------- peace

    def heal(self) -> None:
        """From now on nobody is rude: links are whole, services live, dead launchers are started again."""
        self.disk_is_full = False
        for name in (*self.relays, *(relay.way_up for relay in self.relays.values())):
            self.net.heal(name)
        for relay in self.relays.values():
            if not relay.alive:
                relay.start()
        for node in self.node_names:
            for link in self.net.links_of(node):
                link.slow_s = 0.0
            self.net.heal(node)
            if self.oracle.decision is None:
                self.after(self.chance.uniform(0.1, 2.0), lambda node=node: self._come_back(node), coming=True)
        for process, host in self.crowd.processes.values():
            process.undying_until_s = min(process.undying_until_s, self.now_s + 1.0)
            self.crowd.dies_at_last(process, host)
            if not self.setup.habits.uses_sdk or process.step is None:
                # nobody can see that a script hangs which has never said anything
                process.hangs = process.stopped = False
        self._revive_service()
