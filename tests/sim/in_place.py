"""Ranks that restart in place: they join, run, say that an iteration is broken, and leave it; judged as they are told.

What must hold: one start has the same members for all whom it reaches, each of them is told that it takes part, nobody
starts an iteration while a living peer still runs an older one, and no rank is told of an iteration that it has left.
A fresh process takes the place of a lost rank only when that is dead, once for each grant, and all with whom it starts
are told of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from signal import SIGKILL
from typing import TYPE_CHECKING

from resurge_launcher.core.muster_state import MusterEvict, MusterHeard, MusterTell
from resurge_launcher.core.observe import crew_of
from resurge_launcher.core.replacement_state import ReplaceDone, ReplaceFailed, ReplaceWorkers
from resurge_libs.core.ids import Generation, Rank

if TYPE_CHECKING:
    from resurge_launcher.core.goals import RunGoal
    from tests.sim.launcher import Launcher
    from tests.sim.model_worker import Host, Process
    from tests.sim.world import World


@dataclass
class Caller:
    """One rank's process with its function."""

    process: Process
    launcher: Launcher
    iteration: int = 0
    is_fresh: bool = False
    """It took the place of a lost rank, and starts with whatever is gathered for."""
    running: int | None = None
    """The iteration that it runs; None while it waits."""
    inbox: list[MusterTell] = field(default_factory=list)
    """What it was told and has not read yet: a socket keeps the order."""


@dataclass
class InPlace:
    """All of them, of every generation."""

    world: World
    min_world: int = 1
    limit_s: float = 15.0
    replace_s: float = 0.0
    """So long a fresh process in the place of a lost rank is waited for."""
    fork_failure_rate: float = 0.0
    fork_most_s: float = 0.1
    replaced: list[int] = field(default_factory=list)
    """Ranks for which a fresh process was forked."""
    forked: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By generation and rank."""
    forking: set[tuple[str, int, int]] = field(default_factory=set)
    """Forks that are under way, by launcher, generation and local rank."""
    callers: dict[int, Caller] = field(default_factory=dict)
    starts: dict[tuple[int, int, int], tuple[tuple[int, ...], bool]] = field(default_factory=dict)
    """The members of each start, and whether ranks are given anew, by generation, number and iteration; on one node
    starts have no number."""
    evicted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.world.setup.habits.in_place:
            self.world.crowd.on_joined, self.world.crowd.on_lost = self.joined, self.lost

    def joined(self, process: Process, host: Host) -> None:
        """A process has come to its function."""
        is_fresh = any(peer.process.rank == process.rank for peer in self._generation(process))
        caller = self.callers[process.pid] = Caller(process, host, is_fresh=is_fresh)  # type: ignore[arg-type]
        self._soon(caller, lambda: self._say(caller, "join", self.min_world), 0.5)

    def lost(self, process: Process) -> None:
        """A process is dead: a peer's connection may break, or all wait for ever."""
        if self.world.chance.random() < 0.5:
            for caller in self._peers(process)[:2]:
                self._soon(caller, lambda caller=caller: self._breaks(caller), 0.3)

    def take(self, launcher: Launcher, order: MusterTell | MusterEvict | ReplaceWorkers) -> None:
        """What a launcher tells its ranks, or does to them."""
        if isinstance(order, ReplaceWorkers):
            for local_rank in order.local_ranks:
                self._fork(launcher, order.generation, local_rank)
            return
        if isinstance(order, MusterEvict):
            self._evict(launcher, order)
            return
        for caller in list(self.callers.values()):
            if caller.launcher is launcher and caller.process.generation == order.generation:
                caller.inbox.append(order)
                self._soon(caller, lambda caller=caller: self._hears(caller, caller.inbox.pop(0)), 0.003)

    def _evict(self, launcher: Launcher, order: MusterEvict) -> None:
        """Ranks that cannot follow are ended."""
        for process in self.world.crowd.alive_in(launcher.place):
            if process.generation == order.generation and process.local_rank in order.local_ranks:
                self.evicted.append(process.rank)
                self.world.crowd.signal(process, launcher, SIGKILL)

    def call_off(self, launcher: Launcher, generation: int) -> None:
        """The generation's workers are to end: forks that are under way are not wanted any more."""
        for key in sorted(key for key in self.forking if key[:2] == (launcher.name, generation)):
            self.forking.discard(key)
            launcher.post(ReplaceFailed(Generation(generation), key[2], "the workers are no longer wanted"))

    def _fork(self, launcher: Launcher, generation: Generation, local_rank: int) -> None:
        key = (launcher.name, int(generation), local_rank)
        self.forking.add(key)

        def act() -> None:
            crew = crew_of(launcher.state.phase)
            if key not in self.forking or crew is None:
                return
            self.forking.discard(key)
            if self.world.chance.random() < self.fork_failure_rate:
                launcher.post(ReplaceFailed(generation, local_rank, "the fork server is not warm"))
                return
            self._must_be_free(launcher, crew.run, local_rank)
            self.world.oracle.spawning(launcher, crew.run)
            process = self.world.crowd.spawn(crew.run, local_rank, launcher)
            self.replaced.append(process.rank)
            launcher.post(ReplaceDone(generation, local_rank, process.pid))

        launcher.later(self.world.chance.uniform(0.005, self.fork_most_s), act)

    def _must_be_free(self, launcher: Launcher, run: RunGoal, local_rank: int) -> None:
        """The place is free, and a fresh process was granted for it."""
        place = (int(run.generation), run.base_rank + local_rank)
        alive = [p.pid for p in self.world.crowd.alive_in(launcher.place) if (p.generation, p.rank) == place]
        self._must(not alive, f"rank {place[1]} is replaced while pid {alive} of it lives")
        self.forked[place] += 1
        granted = sum((int(one.generation), one.rank) == place for one in self.world.job.replaced)
        is_within = granted >= self.forked[place] or self.world.oracle.journal_was_lost
        self._must(is_within, f"rank {place[1]} is replaced {self.forked[place]} times, {granted} are granted")

    def all_run(self, iteration: int) -> bool:
        """Whether every living rank of the newest generation runs this iteration or a later one."""
        newest = max((caller.process.generation for caller in self.callers.values()), default=0)
        living = [c for c in self.callers.values() if c.process.alive and c.process.generation == newest]
        return bool(living) and all(c.running is not None and c.running >= iteration for c in living)

    def fail(self, node: str, at_s: float) -> None:
        """The function raises on a node, in each rank that runs it by then."""
        for caller in list(self.callers.values()):
            if caller.launcher in self.world.launchers_of(node) and caller.process.alive:
                self.world.at(at_s, lambda caller=caller: self._breaks(caller))

    def _hears(self, caller: Caller, order: MusterTell) -> None:
        is_due = order.iteration == caller.iteration or caller.is_fresh
        if order.kind == "start" and is_due and caller.running is None:
            self._starts(caller, order)
        elif order.kind == "interrupt" and order.iteration == caller.running:
            self._leaves(caller)

    def _starts(self, caller: Caller, order: MusterTell) -> None:
        process = caller.process
        key = (process.generation, order.number, order.iteration)
        members, is_anew = self.starts.setdefault(key, (order.members, order.is_anew))
        old = [peer.process.rank for peer in self._peers(process) if peer.running not in (None, order.iteration)]
        self._must(members == order.members, f"start {order.number} has members {members} and {order.members}")
        self._must(is_anew == order.is_anew, f"start {order.number} gives ranks anew for some, and not for others")
        self._must(is_anew or not caller.is_fresh, f"start {order.number} is not told to be anew for {process.rank}")
        caller.is_fresh = False
        self._must(process.rank in members, f"rank {process.rank} starts among {members}")
        self._must(not old, f"ranks {old} run an older iteration than {order.iteration}")
        caller.running = order.iteration
        process.last_beat_s = self.world.now_s

    def _breaks(self, caller: Caller) -> None:
        if caller.running is not None:
            self._say(caller, "broken")
            self._leaves(caller)

    def _leaves(self, caller: Caller) -> None:
        """Its groups are aborted; then it comes to the next iteration."""
        caller.iteration = (caller.running or 0) + 1
        caller.running = None
        self._soon(caller, lambda: self._say(caller, "join", self.min_world), 0.2)

    def _say(self, caller: Caller, kind: str, needed: int = 0) -> None:
        iteration = caller.iteration if kind == "join" else caller.running
        assert iteration is not None, "only a rank that runs says that it is broken"
        generation, rank = Generation(caller.process.generation), Rank(caller.process.rank)
        said = (kind, iteration, "model", needed, self.limit_s)
        pid = caller.process.pid
        heard = MusterHeard(generation, rank, *said, replace_s=self.replace_s, can_renew=True, pid=pid)
        caller.launcher.post(heard)

    def _soon(self, caller: Caller, act, most_s: float) -> None:
        def do() -> None:
            process = caller.process
            if process.hangs and process.alive:
                self.world.after(0.1, do)
            elif process.alive and not process.dying:
                act()

        self.world.after(self.world.chance.uniform(0.0001, most_s), do)

    def _peers(self, process: Process) -> list[Caller]:
        return [c for c in self._generation(process) if c.process is not process and c.process.alive]

    def _generation(self, process: Process) -> list[Caller]:
        return [c for c in self.callers.values() if c.process.generation == process.generation]

    def _must(self, holds: bool, sentence: str) -> None:
        if not holds:
            self.world.oracle.fail("in place", sentence)
