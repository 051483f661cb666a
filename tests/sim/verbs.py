"""What a test, or the list of rudeness, can do to a world: each verb acts now, or at a time of the world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGUSR1
from typing import TYPE_CHECKING

from resurge_launcher.core.model import Rules as LauncherRules
from resurge_libs.core.ids import FencingToken, Generation, JobId, NodeId, RequestId
from resurge_rendezvous.core import model as rm
from tests.sim.asking_verbs import AskingVerbs
from tests.sim.control_verbs import HARMLESS_S, ControlVerbs
from tests.sim.launcher import Launcher
from tests.sim.machine_verbs import MachineVerbs
from tests.sim.model_worker import Process

if TYPE_CHECKING:
    from tests.sim.world import World


class Verbs(AskingVerbs, ControlVerbs, MachineVerbs):
    """The verbs of a world."""

    # -------------------------------------------------------------------------------------------------- launchers

    def start_launcher(self: World, node: str, *, second: bool = False, take_over: bool = False) -> Launcher:
        """Start a launcher of a node, whether or not one lives.

        A second one on the same machine would not get past the machine's lock: it is in a container of its own.
        """
        self._incarnations[node] = self._incarnations.get(node, 0) + 1
        setup = self.setup
        rules = LauncherRules(
            setup.limits,
            setup.workers,
            10.0,
            setup.on_lost_control,
            setup.on_excluded,
            replaces=setup.habits.in_place,
            progress=self.spec(0).progress.source,
            reads_marker=setup.progress_by == "marker",
            page_interval_s=setup.page_interval_s,
            drain_signals=frozenset({SIGTERM, SIGINT, SIGHUP}),
            pass_on_signals=frozenset({SIGUSR1}),
            preempted_exit_code=setup.preempted_exit_code,
        )
        place = f"{node}/{self._incarnations[node]}" if second else node
        launcher = Launcher(self, node, self._incarnations[node], rules, place=place, take_over=take_over)
        self._live.setdefault(node, []).append(launcher)
        launcher.start()
        return launcher

    def kill_launcher(self: World, node: str, at_s: float | None = None, back_after_s: float | None = None) -> None:
        """SIGKILL of a node's launcher; its workers die with it."""
        self.at(at_s, lambda: self._take_down(node, back_after_s, lambda launcher: launcher.kill(), "is killed"))

    def _take_down(
        self: World, node: str, back_after_s: float | None, how: Callable[[Launcher], None], what: str
    ) -> None:
        self.faulted = True
        for launcher in self.launchers_of(node):
            self.log(launcher.name, what)
            how(launcher)
            self.gone.append(launcher)
        if back_after_s is not None:
            self.after(back_after_s, lambda: self._come_back(node), coming=True)

    def _come_back(self: World, node: str) -> None:
        if not self.launchers_of(node) and not self.ended_for(node):
            self.start_launcher(node)

    def requeue(self: World, at_s: float | None = None, back_after_s: float = 3.0) -> None:
        """The scheduler kills all launchers and starts the job again, as its next attempt."""

        def act() -> None:
            self.attempt = max(self.attempt, int(self.job.attempt)) + 1 if self.service.state else self.attempt + 1
            for node in self.node_names:
                self.kill_launcher(node)
                self.after(back_after_s * self.chance.uniform(0.5, 1.5), partial(self._start_anew, node), coming=True)

        self.at(at_s, act)

    def _start_anew(self: World, node: str) -> None:
        if not self.launchers_of(node):
            self.start_launcher(node)

    def ended_for(self: World, node: str) -> bool:
        """Whether the node's last launcher left by itself: nobody starts it again."""
        crowd = self._live.get(node, [])
        return bool(crowd) and crowd[-1].exit is not None

    def left(self: World, launcher: Launcher) -> None:
        """A launcher has exited by itself."""
        self.gone.append(launcher)

    def pause_launcher(self: World, node: str, for_s: float, at_s: float | None = None) -> None:
        """SIGSTOP of a launcher alone; its workers run on."""

        def act() -> None:
            self.faulted |= for_s > HARMLESS_S
            for launcher in self.launchers_of(node):
                self.log(launcher.name, f"stands still for {for_s:.1f} s")
                launcher.pause(for_s)
                if launcher.stream is not None:
                    until_s = self.now_s + for_s
                    self.net.watch_server(launcher.stream, partial(self._still_paused, launcher, until_s))

        self.at(at_s, act)

    def second_launcher(self: World, node: str, at_s: float | None = None, *, take_over: bool = False) -> None:
        """Somebody starts another launcher of a node that has one."""

        def act() -> None:
            self.faulted |= take_over
            self.start_launcher(node, second=True, take_over=take_over)

        self.at(at_s, act)

    def signal_launcher(self: World, node: str, signal: int, at_s: float | None = None) -> None:
        """The scheduler, or a person, signals a launcher."""
        self.at(at_s, lambda: self._signal_launcher(node, signal))

    def _signal_launcher(self: World, node: str, signal: int) -> None:
        self.faulted = True
        for launcher in self.launchers_of(node):
            self.log(launcher.name, f"gets signal {signal}")
            launcher.signalled(signal)

    # ---------------------------------------------------------------------------------------------------- workers

    def crash(
        self: World, node: str, at_s: float | None = None, *, rank: int | None = None, code: int | None = None
    ) -> None:
        """A worker dies by SIGKILL, or exits with a code."""

        def act() -> None:
            self.faulted = True
            for process in self.processes(node, rank)[:1]:
                self.log(node, f"rank {process.rank} of g{process.generation} dies")
                host = self.crowd.processes[process.pid][1]
                self.crowd.end(process, host, code=code, signal=SIGKILL if code is None else None)

        self.at(at_s, act)

    def hang(
        self: World,
        node: str,
        at_s: float | None = None,
        *,
        rank: int | None = None,
        for_s: float | None = None,
        stopped: bool = False,
    ) -> None:
        """A worker stands still, for ever or for a while; `stopped`: by SIGSTOP, which the kernel shows."""

        def act() -> None:
            self.faulted = True
            for process in self.processes(node, rank)[:1]:
                self.log(node, f"rank {process.rank} of g{process.generation} hangs")
                process.hangs, process.stopped = True, stopped
                if for_s is not None:
                    self.timeline.after(for_s, partial(_goes_on, process))

        self.at(at_s, act)

    def stick(self: World, node: str, for_s: float, at_s: float | None = None, *, rank: int | None = None) -> None:
        """A worker falls into uninterruptible sleep: it neither works nor dies."""

        def act() -> None:
            self.faulted = True
            for process in self.processes(node, rank)[:1]:
                self.log(node, f"rank {process.rank} of g{process.generation} cannot die for {for_s:.1f} s")
                process.hangs, process.undying_until_s = True, self.now_s + for_s

        self.at(at_s, act)

    # ---------------------------------------------------------------------------------------- ----------- network

    def cut(
        self: World, node: str, for_s: float, at_s: float | None = None, *, up: bool = True, down: bool = True
    ) -> None:
        """Nothing gets through between a node and rendezvous, in one direction or both."""

        def act() -> None:
            self.faulted = True
            self.log(node, f"is cut off ({'up ' if up else ''}{'down ' if down else ''}) for {for_s:.1f} s")
            self.net.block(node, up=up, down=down)
            self.timeline.after(for_s, lambda: self.net.heal(node))

        self.at(at_s, act)

    def reset_stream(self: World, node: str, at_s: float | None = None) -> None:
        """Something on the way ends a launcher's stream: each side takes it for the other's kernel."""

        def act() -> None:
            for launcher in [one for one in self.launchers_of(node) if one.stream is not None]:
                self.faulted |= any(link.slow_s > 0 for link in self.net.links_of(node))
                self.log(launcher.name, "has its stream reset")
                launcher.stream.reset()

        self.at(at_s, act)

    def jump_clock(self: World, node: str, by_s: float, at_s: float | None = None) -> None:
        """Somebody sets a node's wall clock; a launcher that runs goes by its own, the next one by this."""

        def act() -> None:
            clock = self.clock_of(node)
            self.log(node, f"has its clock set by {by_s:+.1f} s")
            self._clocks[node] = replace(clock, wall_skew_s=clock.wall_skew_s + by_s)

        self.at(at_s, act)

    # ---------------------------------------------------------------------------------------------------- operators

    def exclude(self: World, node: str, at_s: float | None = None, *, lasts_s: float | None = None) -> None:
        """An operator takes a node out of later rounds."""
        self._ask(at_s, lambda s, r: rm.ExcludeAsked(s, r, NodeId(node), "an operator said so", lasts_s))

    def readmit(self: World, node: str, at_s: float | None = None) -> None:
        """An operator lets a node in again."""
        self._ask(at_s, lambda s, r: rm.ReadmitAsked(s, r, NodeId(node)))

    def shutdown(self: World, at_s: float | None = None) -> None:
        """An operator ends the job."""
        self._ask(at_s, lambda s, r: rm.ShutdownAsked(s, r, "an operator said so"))

    def drain(self: World, node: str | None, at_s: float | None = None) -> None:
        """An operator wants a node, or the job, to save and stop."""
        self._ask(at_s, lambda s, r: rm.DrainAsked(s, r, None if node is None else NodeId(node), "maintenance", 10.0))

    def preempt(self: World, at_s: float | None = None, *, within_s: float = 0.5) -> None:
        """The scheduler tells every launcher to leave, one after the other."""

        def act() -> None:
            for node in self.node_names:
                self.signal_launcher(node, SIGTERM, self.now_s + self.chance.uniform(0.0, within_s))

        self.at(at_s, act)

    def write_store(self: World, generation: int, at_s: float | None = None) -> None:
        """A worker of some generation writes to the store, perhaps long after its time."""

        def put(stamp: rm.Stamp, request: RequestId) -> rm.StorePutAsked:
            token = FencingToken(JobId("job"), self.job.attempt, Generation(generation))
            return rm.StorePutAsked(stamp, request, token, "key", b"value")

        self._ask(at_s, put)

    def _ask(self: World, at_s: float | None, make: Callable[[rm.Stamp, RequestId], object]) -> None:
        def act() -> None:
            if self.service.alive and self.job.spec is not None:
                stamp = self.service.stamp()
                event = make(stamp, RequestId(stamp.fresh_id))
                self.faulted |= isinstance(event, rm.ShutdownAsked | rm.DrainAsked)
                self.log("rdzv", f"is asked: {type(event).__name__}")
                self.service.ask(event)
                if self.chance.random() < 0.3:  # the answer is lost on its way; the same request comes again
                    self.timeline.after(self.chance.uniform(0.01, 5.0), lambda: self.service.ask(event))

        self.at(at_s, act)


def _goes_on(process: Process) -> None:
    process.hangs = process.stopped = False
