"""Model workers: processes that start, train together, save behind the fence, and die in every known way.

A generation trains while all of its workers live and none hangs; a step of one is a step of all, as with a collective.
What a worker says of itself (beats, milestones) stands on its page; what the launcher says to it (its lease) too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from signal import SIGKILL, SIGTERM
from typing import Protocol

from resurge_launcher.core import happenings as h
from resurge_launcher.core.goals import RunGoal
from resurge_launcher.core.model import Milestone, MilestoneKind, PageReading
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant
from tests.sim.timeline import Timeline


@dataclass(frozen=True)
class Habits:
    """How the training script of one world behaves."""

    uses_sdk: bool = True
    asks_stop: bool = True
    """Ranks ask after each step whether to stop, save then and end; else only a signal ends them."""
    survivors_raise: bool = True
    """Ranks whose peer died exit with an error; otherwise they wait for ever, as in a collective of GPUs."""
    total_steps: int = 10**9
    step_s: float = 1.0
    start_s: float = 2.0
    term_s: float = 0.3
    """How long a worker takes to end after TERM at most; longer than the grace means that it is killed."""
    save_s: float = 0.0
    """How long a save takes at most; without the strict fence it is at once, as nothing could hold a late one back."""
    in_place: bool = False
    """Ranks restart in place (in_place.py): a death ends none of the others."""
    saves_every: int = 1
    """Steps from one checkpoint to the next."""


@dataclass
class Page:
    """The shared page of one generation's workers on one node."""

    lease_until: Instant | None = None
    fenced: bool = False
    ends: bool = False
    held: int = 0
    decided: int | None = None


def mark(page: Page, action: h.WriteLease | h.Fence | h.WriteStop) -> bool:
    """Write what a launcher says to its workers; whether it now tells them where to stop."""
    match action:
        case h.WriteLease(_, until):
            page.lease_until = until
        case h.Fence():
            page.fenced = True
        case h.WriteStop(_, held, decided):
            page.held = page.held if held is None else held
            page.decided = page.decided if decided is None else decided
            return decided is not None
    return False


@dataclass
class Process:
    """One worker process."""

    pid: int
    node: str
    place: str
    """Its machine, or its container: who looks for processes sees those of one place only."""
    generation: int
    rank: int
    local_rank: int
    alive: bool = True
    started: bool = False
    hangs: bool = False
    stopped: bool = False
    """It hangs because the kernel holds it stopped, which its launcher can see."""
    undying_until_s: float = 0.0
    """In uninterruptible sleep until then: even KILL waits."""
    dying: bool = False
    asked_to_end: bool = False
    """Its launcher has signalled it."""
    last_beat_s: float | None = None
    step: int | None = None
    asked_step: int | None = None
    waits_to_stop: bool = False
    told_to_stop: bool = False
    saving: bool = False
    """It writes a checkpoint, and its page says so."""
    milestones: list[tuple[MilestoneKind, float, int | None]] = field(default_factory=list)
    shown: tuple[Milestone, ...] = ()
    """Those, as its page shows them in its launcher's time."""
    exit_code: int | None = None
    signal: int | None = None


class Host(Protocol):
    """What a model worker needs from its node."""

    node: str
    place: str
    pages: dict[int, Page]

    def worker_ended(self, process: Process) -> None: ...
    def worker_said(self, process: Process) -> None: ...
    def may_commit(self, generation: int) -> bool: ...


class Training:
    """All workers of one generation, over all nodes."""

    def __init__(self, run: RunGoal, habits: Habits, crowd: Crowd) -> None:
        self.generation, self.world_size = int(run.generation), run.world_size
        self.habits, self.crowd = habits, crowd
        self.members: dict[int, tuple[Process, Host]] = {}
        self.step = 0
        self.broken = False
        self.finished = False
        self.moved_at_s = crowd.timeline.now_s

    def join(self, process: Process, host: Host) -> None:
        """A worker's first own instruction."""
        if not process.alive:
            return
        process.started = True
        self.crowd.on_joined(process, host)
        self._say(process, host, MilestoneKind.WORKER_STARTED, None)
        before = self.members.get(process.rank)
        self.members[process.rank] = (process, host)
        if before is not None:  # it takes the place of one that was lost, and has its part of the start
            process.milestones, process.step = list(before[0].milestones), before[0].step
            return
        if len(self.members) == self.world_size and not self.broken:
            self._later(self.crowd.chance.uniform(0.05, self.habits.start_s), self._ready)

    def _later(self, wait_s: float, act: Callable[[], None]) -> None:
        self.crowd.timeline.after(wait_s, act)

    def _all_well(self) -> bool:
        members = [p for p, _ in self.members.values() if p.alive or not self.habits.in_place]
        return all(p.alive and not p.dying and not p.hangs for p in members)

    def _goes_on(self, act: Callable[[], None]) -> bool:
        """Whether all ranks can take this step now; with one that stands still it is tried again later."""
        if self.broken or self.finished:
            return False
        if not self._all_well():
            self._later(self.habits.step_s, act)
            return False
        return True

    def _ready(self) -> None:
        if self._goes_on(self._ready):
            self._all_say(MilestoneKind.PROCESS_GROUP_READY, None)
            self._later(self.crowd.chance.uniform(0.01, 0.5), self._restored)

    def _restored(self) -> None:
        if self._goes_on(self._restored):
            self.step = self.crowd.checkpoint_step
            self._all_say(MilestoneKind.CHECKPOINT_RESTORED, self.step)
            self._later(self.habits.step_s, self._stepped)

    def _stepped(self) -> None:
        if not self._goes_on(self._stepped):
            return
        self.step += 1
        self.moved_at_s = self.crowd.timeline.now_s
        for process, _ in self.members.values():
            process.step = self.step
            process.last_beat_s = self.moved_at_s
        first = not any(k is MilestoneKind.FIRST_STEP for k, _, _ in self.members[0][0].milestones)
        if first:
            self._all_say(MilestoneKind.FIRST_STEP, self.step)
        if self.step % self.habits.saves_every == 0:
            self._commit()
        if self.step >= self.habits.total_steps:
            self.finished = True
            for process, host in list(self.members.values()):
                self._later(self.crowd.chance.uniform(0.0, 0.5), lambda p=process, h=host: self.crowd.end(p, h, code=0))
            return
        if self.habits.uses_sdk and self.habits.asks_stop and self._ask():
            return
        self._later(self.habits.step_s * self.crowd.chance.uniform(0.8, 1.2), self._stepped)

    # --- whether to stop: each rank asks at its own moment; all goes on when the last one was told to

    def _ask(self) -> bool:
        """Whether somebody has to wait or to stop before the next step."""
        pages = [host.pages.get(self.generation) for _, host in self.members.values()]
        if not any(page is not None and (page.held or page.decided is not None) for page in pages):
            for process, _ in self.members.values():
                process.asked_step = self.step
            return False
        self._going = set[int]()
        for rank, (process, host) in list(self.members.items()):
            wait_s = self.crowd.chance.choice([0.0, 0.0, 0.2]) * self.crowd.chance.random()
            self._later(wait_s, lambda r=rank, p=process, h=host, s=self.step: self._asks(r, p, h, s))
        return True

    def _asks(self, rank: int, process: Process, host: Host, step: int) -> None:
        if not process.alive or process.dying or self.broken:
            return
        if process.hangs:
            self._later(0.1, lambda: self._asks(rank, process, host, step))
            return
        process.asked_step = step
        page = host.pages.get(self.generation) or Page()
        if page.decided is not None and (page.decided == 0 or step >= page.decided):
            process.told_to_stop, process.waits_to_stop = True, False
            self.crowd.on_stop(self.generation, rank, step)
            save_s = self.crowd.chance.uniform(0.0, self.habits.save_s)
            self._later(save_s, lambda: self._stopped(process, host, step))
        elif page.decided is None and page.held and step >= page.held:
            process.waits_to_stop = True
            self._later(0.01, lambda: self._asks(rank, process, host, step))
        else:
            process.waits_to_stop = False
            self._going.add(rank)
            if len(self._going) == self.world_size:
                self._later(self.habits.step_s * self.crowd.chance.uniform(0.8, 1.2), self._stepped)

    def _stopped(self, process: Process, host: Host, step: int) -> None:
        """A rank that was told to stop has saved its part."""
        if not process.alive or process.dying or self.broken:
            return
        self.finished = True
        self._committed(process, host, step)
        self.crowd.end(process, host, code=0)

    def _commit(self) -> None:
        """Rank 0 saves; a slow save ends long after its peers may have died, so the fence is asked at its end."""
        process, host = self.members[0]
        step, save_s = self.step, self.crowd.chance.uniform(0.0, self.habits.save_s)
        process.saving = save_s > 0
        self._later(save_s, lambda: self._saved(process, host, step))

    def _saved(self, process: Process, host: Host, step: int) -> None:
        process.saving = False
        self._committed(process, host, step)

    def _committed(self, process: Process, host: Host, step: int) -> None:
        if process.alive and not process.dying and not process.hangs and host.may_commit(self.generation):
            self.crowd.committed(self.generation, host.node, step)
            self.crowd.checkpoint_step = max(step, self.crowd.checkpoint_step)

    def _all_say(self, kind: MilestoneKind, step: int | None) -> None:
        for process, host in list(self.members.values()):
            self._say(process, host, kind, step)

    def _say(self, process: Process, host: Host, kind: MilestoneKind, step: int | None) -> None:
        if not self.habits.uses_sdk or not process.alive:
            return
        process.milestones.append((kind, self.crowd.timeline.now_s, step))
        if kind is MilestoneKind.FIRST_STEP:
            process.last_beat_s = self.crowd.timeline.now_s
        self._later(self.crowd.chance.uniform(0.0001, 0.003), lambda: host.worker_said(process))

    def lost(self, process: Process) -> None:
        """A member is dead: its peers cannot go on."""
        if self.broken or self.finished:
            return
        if self.habits.in_place:
            self.crowd.on_lost(process)
            return
        self.broken = True
        if self.habits.survivors_raise:
            for peer, host in list(self.members.values()):
                if peer is not process and peer.alive and not peer.hangs:
                    wait_s = self.crowd.chance.uniform(0.001, 1.0)
                    self._later(wait_s, lambda p=peer, h=host: self.crowd.end(p, h, code=1))


class Crowd:
    """Every worker of the world."""

    def __init__(self, timeline: Timeline, chance: Random, habits: Habits) -> None:
        self.timeline, self.chance, self.habits = timeline, chance, habits
        self.trainings: dict[tuple[int, str, int], Training] = {}
        self.processes: dict[int, tuple[Process, Host]] = {}
        self._in: dict[str, dict[int, Process]] = {}
        """The living of each place."""
        self.checkpoint_step = 0
        self.own_ends: list[tuple[float, Process]] = []
        """Workers that failed by themselves, in the order in which it happened."""
        self.on_stop: Callable[[int, int, int], None] = lambda generation, rank, step: None
        self.on_joined: Callable[[Process, Host], None] = lambda process, host: None
        self.on_lost: Callable[[Process], None] = lambda process: None
        self.on_commit: Callable[[int, str, int], None] = lambda generation, node, step: None
        self._pid = 1000

    def spawn(self, run: RunGoal, local_rank: int, host: Host) -> Process:
        """A new process; its first own instruction comes a little later."""
        self._pid += 1
        rank = run.base_rank + local_rank
        process = Process(self._pid, host.node, host.place, int(run.generation), rank, local_rank)
        self.processes[process.pid] = (process, host)
        self._in.setdefault(process.place, {})[process.pid] = process
        training = self.training(run)
        self.timeline.after(self.chance.uniform(0.02, 0.2), lambda: training.join(process, host))
        return process

    def training(self, run: RunGoal) -> Training:
        """Workers meet by generation and by the store's endpoint: two generations of one number would not meet."""
        key = (int(run.generation), run.master_addr, run.master_port)
        return self.trainings.setdefault(key, Training(run, self.habits, self))

    def committed(self, generation: int, node: str, step: int) -> None:
        self.on_commit(generation, node, step)

    def signal(self, process: Process, host: Host, signal: int) -> None:
        """Deliver a signal; death takes its time."""
        if not process.alive or process.dying:
            return
        process.asked_to_end = True
        if signal == SIGKILL:
            wait_s = self.chance.uniform(0.0002, 0.08)
        elif signal == SIGTERM and not process.hangs:
            wait_s = self.chance.uniform(0.001, self.habits.term_s)
            self.timeline.after(wait_s, lambda: self.end(process, host, signal=signal))
            return
        else:
            return
        process.dying = True
        self.dies_at_last(process, host, wait_s)

    def dies_at_last(self, process: Process, host: Host, wait_s: float = 0.0) -> None:
        """One that was killed ends when it can."""
        if process.dying:
            wait_s = max(wait_s, process.undying_until_s - self.timeline.now_s)
            self.timeline.after(wait_s, lambda: self.end(process, host, signal=SIGKILL, killed=True))

    def end(
        self, process: Process, host: Host, *, code: int | None = None, signal: int | None = None, killed: bool = False
    ) -> None:
        """The process is gone."""
        if not process.alive or (process.dying and not killed):
            return
        if not killed and process.undying_until_s > self.timeline.now_s:
            return
        process.alive, process.exit_code = False, code
        process.signal = None if signal is None else int(signal)
        if not killed and code != 0 and not process.asked_to_end:
            self.own_ends.append((self.timeline.now_s, process))
        del self.processes[process.pid], self._in[process.place][process.pid]
        for training in self.trainings.values():
            if training.generation == process.generation and training.members.get(process.rank, (None,))[0] is process:
                if code != 0:
                    training.lost(process)
                elif not training.finished and not process.told_to_stop:
                    training.broken = True
        host.worker_ended(process)

    def alive_in(self, place: str) -> list[Process]:
        return list(self._in.get(place, {}).values())

    def readings(self, host: Host, generation: int, ended: list[Process], instant, hang_limit_s: float):
        """What the pages of a generation's workers of a launcher say, in its time."""
        here = self._in.get(host.place, {}).values()
        found = [p for p in here if p.generation == generation and self.processes[p.pid][1] is host]
        uses_sdk, moves = self.habits.uses_sdk, round(self.timeline.now_s * 1000)
        found += [e for e in ended if e.generation == generation]
        return tuple([_page_of(p, instant, hang_limit_s if uses_sdk else None, moves) for p in found])


def _page_of(p: Process, instant, hang_limit_s: float | None, moves: int) -> PageReading:
    """What one page says; `hang_limit_s` None: the script says nothing of its work."""
    uses_sdk = hang_limit_s is not None
    last_beat_at = None if p.last_beat_s is None else instant(p.last_beat_s)
    return PageReading(
        p.local_rank,
        last_beat_at,
        p.step if uses_sdk else None,
        None if last_beat_at is None or hang_limit_s is None else Instant(last_beat_at + hang_limit_s),
        "checkpoint" if p.saving and uses_sdk else "",
        _shown(p, instant),
        p.stopped and p.alive,
        p.step if uses_sdk else None,
        p.asked_step is not None,
        p.asked_step,
        p.waits_to_stop,
        p.told_to_stop,
        0 if p.hangs else moves,
    )


def _shown(process: Process, instant) -> tuple[Milestone, ...]:
    fresh = process.milestones[len(process.shown) :]
    if fresh:
        told = (Milestone(Rank(process.rank), kind, instant(at), step) for kind, at, step in fresh)
        process.shown = (*process.shown, *told)
    return process.shown
