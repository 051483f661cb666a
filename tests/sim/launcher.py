"""One launcher with its real core: carries out its actions on model workers, dials rendezvous, beats."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING, Any

from resurge_launcher.core import happenings as h
from resurge_launcher.core.goals import DownGoal, RunGoal
from resurge_launcher.core.model import Rules, StoreOffer
from resurge_launcher.core.muster_state import MusterEvict, MusterTell
from resurge_launcher.core.replacement_state import ReplaceWorkers
from resurge_launcher.core.step import LauncherMachine
from resurge_launcher.core.worker_news import OrderAbort, ScriptOver
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.machine import Step
from resurge_libs.core.progress import MarkerReading
from resurge_libs.core.reasons import Because, Reason
from tests.sim import mapping
from tests.sim.control_line import ControlLine, Heard
from tests.sim.model_worker import Page, Process, mark
from tests.sim.network import Stream
from tests.sim.process import SimProcess

if TYPE_CHECKING:
    from tests.sim.world import World

STRAY_LOOK_S = 0.05
OVER_S = 0.02
"""From TERM to the end of a script, in steps of it: the process ends later, by itself or by KILL."""
TICK = h.Tick()


class Launcher(SimProcess):
    """One launcher process, from its start to its end; the next one of the node is another object."""

    def __init__(
        self, world: World, node: str, incarnation: int, rules: Rules, *, place: str = "", take_over: bool = False
    ) -> None:
        super().__init__(world.timeline, world.clock_of(node))
        self.world, self.node, self.incarnation, self.rules = world, node, incarnation, rules
        self.name = node if incarnation == 1 else f"{node}.{incarnation}"
        self.take_over = take_over
        self.place = place or node
        self.attempt = world.attempt
        self.boot = world.boot_of(node)
        self.machine_id = world.machine_of(node)
        self.host = self.machine_id.rstrip("+") + self.place.removeprefix(node)
        """A machine that takes the place of another takes its host name too."""
        self.machine = LauncherMachine(rules)
        self.pages: dict[int, Page] = {}
        self.ended: list[Process] = []
        self.ordered: list[tuple[float, OrderAbort]] = []
        self.passed_on: list[h.PassOn] = []
        self.strays: list[float] = []
        """Descendants that workers left behind: until when KILL cannot end each."""
        self.exit: tuple[int, Because] | None = None
        self.signals: set[int] = set()
        self.observed: h.Observed | None = None
        self.line = ControlLine(self)
        self._port, self._sweeping = 0, set[int]()

    # ------------------------------------------------------------------------------------------- life and death

    def start(self) -> None:
        self.born()
        step = self.machine.begin(self.now)
        self.state = step.state
        self.world.log(self.name, f"starts, incarnation {self.incarnation}")
        self.stepped(None, step.state, step)
        self.arm()
        self.line.dial()

    def kill(self) -> None:
        """SIGKILL: its workers die with it, its kernel closes the stream."""
        if not self.alive:
            return
        self.died()
        self._end_workers()
        if self.stream is not None:
            self.stream.client_close()

    def vanish(self) -> None:
        """The machine is without power: nothing lives, nothing is said."""
        if not self.alive:
            return
        self.died()
        for process in self.world.crowd.alive_in(self.place):
            process.dying, process.undying_until_s = True, 0.0
            self.world.crowd.end(process, self, signal=SIGKILL, killed=True)
        self.strays = []
        if self.stream is not None:
            self.stream.vanish()

    def _end_workers(self) -> None:
        for process in self.world.crowd.alive_in(self.place):
            self.world.crowd.signal(process, self, SIGKILL)

    # ------------------------------------------------------------------------------------------ hosting workers

    def worker_ended(self, process: Process) -> None:
        self.ended.append(process)
        if self.world.chance.random() < self.world.setup.stray_rate:
            self.strays.append(0.0)
        event = h.WorkerExited(
            generation=process.generation,
            local_rank=process.local_rank,
            pid=process.pid,
            at=self.now,
            exit_code=process.exit_code,
            signal=process.signal,
            last_step=process.step,
        )
        told_s = self.world.chance.uniform(0.0002, 0.004)
        if process.told_to_stop:  # pages are read before an end is told
            self.later(told_s * 0.9, lambda: self._read_pages(process.generation))
        self.later(told_s, lambda: self.post(event))
        if process.pid % 2:
            # the lock on its page tells of some ends before the kernel is done with them, of one in a few too late
            factor = 2.0 if process.pid % 5 == 0 else 0.3
            self.later(told_s * factor, lambda: self.post(h.WorkerDying(event)))

    def worker_said(self, process: Process) -> None:
        self._read_pages(process.generation)

    def may_commit(self, generation: int) -> bool:
        """What resurge.fence() answers a worker, without a call: its lease. Without the strict fence nobody asks."""
        if not self.world.setup.strict_fence:
            return True
        if self.line.unheard_s is not None:
            self.line.hear_calm()
        page = self.pages.get(generation)
        return page is not None and not page.fenced and page.lease_until is not None and self.now < page.lease_until

    @property
    def stream(self) -> Stream | None:
        return self.line.stream

    @property
    def holds_lease(self) -> bool:
        lease = self.state.control.lease
        return self.alive and lease is not None and not lease.expired(self.now)

    # -------------------------------------------------------------------------------------------------- actions

    def tick_event(self) -> Any:
        return TICK

    def paused_event(self, for_s: float) -> Any:
        return h.Paused(for_s)

    def stepped(self, event: Any, before: Any, step: Step[Any]) -> None:
        if type(before.phase) is not type(step.state.phase):
            self.world.log(self.name, f"{type(step.state.phase).__name__}: {step.reason}")
        for action in step.actions:
            self._act(action)
            if not self.alive:
                return

    def _act(self, action: h.Action) -> None:
        chance = self.world.chance
        match action:
            case h.SendObserved(observed, beats):
                self._tell(observed, beats)
            case h.SpawnWorkers(run):
                self.later(chance.uniform(0.005, 0.08), lambda: self._spawn(run))
            case h.SignalWorkers(generation, signal):
                self._signal(int(generation), signal)
            case h.SweepStrays(generation):
                self.world.in_place.call_off(self, int(generation))
                self._sweep(int(generation))
            case h.ReserveStore() | h.ReadPages() | h.ReadMarker():
                self._look_or_reserve(action)
            case h.WriteLease() | h.Fence() | h.WriteStop():
                if mark(self.pages.setdefault(int(action.generation), Page()), action):
                    self.world.oracle.stopping.decided(int(action.generation), action.decided, action.alone)
            case MusterTell() | MusterEvict() | ReplaceWorkers():
                self.world.in_place.take(self, action)
            case OrderAbort():
                note_order(self, action)
            case h.PassOn():
                self.passed_on.append(action)
            case h.ExitWith(code, because):
                self._leave(code, because)

    def _look_or_reserve(self, action: h.ReserveStore | h.ReadPages | h.ReadMarker) -> None:
        chance = self.world.chance
        match action:
            case h.ReserveStore():
                self.later(chance.uniform(0.0005, 0.003), self._reserve)
            case h.ReadPages(generation):
                self.later(chance.uniform(0.0002, 0.002), lambda: self._read_pages(int(generation)))
            case h.ReadMarker(generation, at_start):
                read_marker(self, int(generation), at_start)

    def _tell(self, observed: h.Observed, beats: bool) -> None:
        self.observed = observed
        if self.stream is not None:
            self.stream.send_up(mapping.observed(observed, self.clock))
            if beats:
                self.line.beat_now()

    def apply(self, event: Any) -> None:
        if self.line.unheard_s is not None:
            self.line.hear_calm()
        if isinstance(event, Heard):
            self.line.take_late(event)
        else:
            super().apply(event)

    def before_desired(self, told: h.DesiredReceived) -> None:
        """Pages are read before an order to end workers: one may have begun to save a moment ago."""
        if isinstance(told.goal, DownGoal) and any(p.saving for p in self.world.crowd.alive_in(self.place)):
            self._read_pages(int(told.goal.generation))

    def keep_for_later(self, event: object) -> None:
        """A message lies in the socket while the process stands still."""
        self._inbox.append(event)

    def _signal(self, generation: int, signal: int) -> None:
        self.world.oracle.signalled(self, generation, signal)
        for process in self.world.crowd.alive_in(self.place):
            if process.generation == generation:
                self.world.crowd.signal(process, self, signal)
                if signal == SIGTERM and self.world.setup.habits.uses_sdk:
                    self.later(OVER_S * (process.pid % 7), lambda p=process: say_over(self, p))

    def _spawn(self, run: RunGoal) -> None:
        fails = self.world.chance.random() < self.world.setup.spawn_failure_rate
        count = self.rules.local_world_size - (1 if fails else 0)
        pids = []
        for local_rank in range(count):
            self.world.oracle.spawning(self, run)
            pids.append((local_rank, self.world.crowd.spawn(run, local_rank, self).pid))
        if fails:
            because = Because(Reason.WORKER_START_FAILED, "no memory left")
            self.post(h.SpawnFailed(run.generation, because, tuple(pids)))
        else:
            self.post(h.SpawnDone(run.generation, tuple(pids)))

    def _sweep(self, generation: int) -> None:
        """End strays and look again until none is left; for leftovers, also what an older launcher started."""
        if generation == 0:
            self._end_workers()
        if generation in self._sweeping:
            return
        self._sweeping.add(generation)
        self.later(self.world.chance.uniform(0.001, 0.03), lambda: self._look(generation))

    def _look(self, generation: int) -> None:
        self.strays = [until_s for until_s in self.strays if until_s > self.timeline.now_s]
        alive = self.world.crowd.alive_in(self.place)
        left = [p for p in alive if p.generation == generation or (generation == 0 and p.pid not in self._mine())]
        if self.strays or (generation == 0 and left):
            self.later(STRAY_LOOK_S, lambda: self._look(generation))
            return
        self._sweeping.discard(generation)
        self.post(h.StraysGone(generation))

    def _mine(self) -> set[int]:
        return {p.pid for p, host in self.world.crowd.processes.values() if host is self}

    def _reserve(self) -> None:
        self._port += 1
        port = self.incarnation * 1000 + self._port
        self.post(h.StoreReserved(StoreOffer(self.node, port, is_served=self.world.setup.habits.in_place)))

    def _read_pages(self, generation: int) -> None:
        limit_s = self.rules.limits.hang_limit_s
        readings = self.world.crowd.readings(self, generation, self.ended, self.clock.instant, limit_s)
        self.post(h.PagesRead(generation, readings))

    def _leave(self, code: int, because: Because) -> None:
        self.exit = (code, because)
        self.world.log(self.name, f"exits with {code}: {because}")
        self.world.oracle.left(self, code, because)
        self.kill()
        self.world.left(self)

    def signalled(self, signal: int) -> None:
        """Somebody signals the launcher itself."""
        self.signals.add(int(signal))
        self.post(h.SignalReceived(int(signal)))


def note_order(launcher: Launcher, action: OrderAbort) -> None:
    """Workers hear it at once, and their pages say whether their generation ends."""
    launcher.ordered.append((launcher.world.now_s, action))
    launcher.pages.setdefault(int(action.generation), Page()).ends |= not action.phase


def say_over(launcher: Launcher, process: Process) -> None:
    """A worker that ends says so before its destructors run, where its page says that its generation ends."""
    page = launcher.pages.get(process.generation)
    if process.alive and not (process.hangs or process.saving) and page is not None and page.ends:
        launcher.post(ScriptOver(Generation(process.generation), Rank(process.rank), process.pid))


def read_marker(launcher: Launcher, generation: int, at_start: bool) -> None:
    """The file is there once a checkpoint was completed; in rude worlds it is broken, or its file system hangs."""
    chance, setup = launcher.world.chance, launcher.world.setup
    if chance.random() < setup.marker_hang_rate:
        wait_s, reading = launcher.rules.limits.marker_read_limit_s, MarkerReading(skipped="its file system hangs")
    else:
        wait_s, reading = chance.uniform(0.0003, 0.01), None

    def tell() -> None:
        said = reading or launcher.world.marker()
        launcher.world.oracle.progress.read(generation, at_start, said.value)
        launcher.post(h.MarkerRead(Generation(generation), at_start, said))

    launcher.later(wait_s, tell)
