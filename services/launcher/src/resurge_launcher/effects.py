"""Carries out the launcher's actions, one handler for each. Decides nothing; what comes of them are events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from signal import SIGKILL
from typing import Any, Protocol, assert_never

from resurge_launcher import gpu_memory
from resurge_launcher.core import happenings as h
from resurge_launcher.core.goals import RunGoal
from resurge_launcher.core.muster_state import MusterEvict, MusterTell
from resurge_launcher.core.replacement_state import ReplaceWorkers
from resurge_launcher.core.worker_news import OrderAbort
from resurge_launcher.faults import FaultTeller
from resurge_launcher.fresh_workers import FreshWorkers
from resurge_launcher.gpu_memory import GpuMemoryReader
from resurge_launcher.hang_evidence import HangEvidence
from resurge_launcher.marker import MarkerReader
from resurge_launcher.pages import PageBook
from resurge_launcher.passing import Passing
from resurge_launcher.processes import kernel
from resurge_launcher.processes.inspection import Look
from resurge_launcher.processes.strays import Strays
from resurge_launcher.processes.worker import Command, Dying, WorkerProcess
from resurge_launcher.start_files import LogFiles, StartFiles
from resurge_launcher.store_offer import StorePort
from resurge_launcher.team import Shop, Team, Told
from resurge_launcher.warm.client import NotWarm, WarmStart
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant
from resurge_libs.core.progress import MarkerReading
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.obs import log

STORE_PREPARATION_S = 2.0
"""So long after a start the next generation's store is made."""
LAST_WORDS_S = 2.0
"""For the tasks that look at workers and tell of faults, when the launcher ends; the longest takes half of it."""

Mark = h.WriteLease | h.Fence | h.WriteStop | OrderAbort
"""What is written to workers' pages."""


class Upward(Protocol):
    """Where observed states go."""

    def observed(self, observed: h.Observed, beats: bool = False) -> None:
        """The newest state; with a beat at once, if wanted."""
        ...


@dataclass(frozen=True, slots=True)
class Hands:
    """The parts that effects use."""

    shop: Shop
    files: StartFiles
    strays: Strays
    store: StorePort
    teller: FaultTeller
    upward: Upward
    post: Callable[[h.Event], None]
    now: Callable[[], Instant]
    leave: Callable[[h.ExitWith], None]
    order: Callable[[OrderAbort | MusterTell], None]
    warm: WarmStart | None = None
    marker: MarkerReader | None = None
    gpus: GpuMemoryReader | None = None


class Effects:
    """Runs actions in the event loop's thread, which is the main thread."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._loop = asyncio.get_running_loop()
        self._team: Team | None = None
        self._ordered: RunGoal | None = None
        """A start that waits for the fork server."""
        self._preparation: asyncio.TimerHandle | None = None
        self._lease_until: Instant | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._evidence = HangEvidence()
        self._fresh = FreshWorkers(hands.shop, hands.files, hands.post, partial(self._fork, beside=True))
        self._passing = Passing(self._team_of)
        hands.strays.leave_to_others(lambda pid: self._team is not None and pid in self._team.living_pids)

    def run(self, action: h.Action) -> None:
        """Carry out one action."""
        match action:
            case h.SendObserved(observed, beats):
                self._hands.upward.observed(observed, beats)
            case h.SpawnWorkers():
                self._spawn(action)
            case h.SignalWorkers() | h.PassOn() | MusterEvict() | ReplaceWorkers():
                self._signal(action)
            case h.SweepStrays(generation, signal):
                self._fresh.call_off(generation)
                self._hands.strays.sweep(signal, partial(self._swept, generation))
            case h.ReserveStore():
                self._reserve()
            case h.ReadPages() | h.Inspect():
                self._look(action)
            case h.ReadGpuMemory() | h.TellReclaim():
                self._gpus(action)
            case h.ReadMarker():
                self._read_marker(action)
            case h.WriteLease() | h.Fence() | h.WriteStop():
                self._mark_pages(action)
            case h.TellFault() | OrderAbort() | MusterTell():
                self._tell(action)
            case h.ExitWith():
                self._hands.leave(action)
            case _:
                assert_never(action)

    def read_pages(self, generation: int) -> None:
        """Read the pages now; also when a worker's frame says that there is news."""
        team = self._team_of(generation)
        if team is not None:
            team.ask()
            self._hands.post(h.PagesRead(team.run.generation, team.readings()))

    async def close(self) -> None:
        """Let the last words be said, and remove what only this launcher needs."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORDS_S)
        if self._preparation is not None:
            self._preparation.cancel()
        self._hands.strays.stop()
        self._hands.store.release()
        if self._hands.marker is not None:
            self._hands.marker.close()
        if self._hands.gpus is not None:
            self._hands.gpus.close()
        if self._team is not None:
            self._team.close()

    def kill_all(self) -> None:
        """The emergency exit, when this program itself is at fault: no worker may outlive it."""
        if self._team is not None:
            self._team.signal(SIGKILL)

    def _team_of(self, generation: int) -> Team | None:
        return self._team if self._team is not None and self._team.run.generation == generation else None

    # ------------------------------------------------------------------------------------------------- handlers

    def _spawn(self, action: h.SpawnWorkers) -> None:
        """Start the workers, after the fork server's first imports where they are still going on."""
        self._ordered = action.run
        prepare = partial(self._hands.files.prepare, action.run, partial(self._spawn_now, action.run))
        logs, first = self._hands.shop.logs, action.run.base_rank
        if logs is not None:
            ranks = range(first, first + self._hands.shop.facts.local_world_size)
            prepare = partial(logs.prepare, action.run, ranks, prepare)
        if self._hands.warm is None:
            prepare()
        else:
            self._hands.warm.when_settled(prepare)

    def _spawn_now(self, run: RunGoal, files: LogFiles) -> None:
        if self._ordered is not run:
            files.close()
            if self._hands.shop.logs is not None:
                self._hands.shop.logs.called_off(run.generation)
            return
        self._ordered = None
        team: Team | None = None
        try:
            if self._team is not None:
                self._team.close()
            team = self._team = Team(self._hands.shop, run, files)
            team.book.write_lease(self._lease_until)
            team.start(self._loop, self._told_of(team), self._fork if self._hands.warm is not None else None)
        except OSError as error:
            pids = team.pids if team is not None else ()
            because = Because(Reason.WORKER_START_FAILED, f"local rank {len(pids)} could not be started: {error}")
            self._hands.post(h.SpawnFailed(run.generation, because, pids))
            return
        self._hands.store.taken()
        self._hands.post(h.SpawnDone(run.generation, team.pids))
        # not now: the workers need the processors
        self._preparation = self._loop.call_later(STORE_PREPARATION_S, self._prepare)

    def _prepare(self) -> None:
        """What the next start will want."""
        self._hands.store.prepare()
        if self._hands.gpus is not None:
            self._hands.gpus.prepare()

    def _fork(self, commands: Sequence[Command], beside: bool = False) -> list[WorkerProcess] | None:
        assert self._hands.warm is not None
        try:
            return self._hands.warm.start(commands, beside)
        except NotWarm as cold:
            log.event("cold_start", reason=cold.because.code, sentence=cold.because.sentence)
            return None

    def _signal(self, action: h.SignalWorkers | h.PassOn | MusterEvict | ReplaceWorkers) -> None:
        team = self._team_of(action.generation)
        match action:
            case ReplaceWorkers():
                self._fresh.replace(action, team, self._told_of)
            case h.PassOn():
                self._passing.pass_on(action)
            case MusterEvict(_, local_ranks):
                if team is not None:
                    team.end(local_ranks)
            case h.SignalWorkers(generation, number):
                self._call_off(generation)
                if team is not None:
                    team.signal(number)
            case _:
                assert_never(action)

    def _call_off(self, generation: Generation) -> None:
        """A start that waits is no longer wanted: its workers are to end."""
        if self._ordered is not None and self._ordered.generation == generation:
            run, self._ordered = self._ordered, None
            because = Because(Reason.WORKER_START_FAILED, "the workers are no longer wanted; none was started")
            self._hands.post(h.SpawnFailed(run.generation, because))

    def _told_of(self, team: Team) -> Told:
        return Told(partial(self._exited, team), partial(self._dying, team))

    def _exited(self, team: Team, local_rank: int, worker: WorkerProcess) -> None:
        assert worker.status is not None, "only a reaped worker has ended"
        self._tell_struck(team, Dying(worker.status, self._hands.now()))
        self._hands.post(self._end(team, local_rank, worker, worker.status))

    def _dying(self, team: Team, local_rank: int, worker: WorkerProcess, dying: Dying) -> None:
        self._tell_struck(team, dying)
        self._tell_dying(team, local_rank, worker, dying)

    def _tell_struck(self, team: Team, failed: Dying) -> None:
        for local_rank, worker, dying in team.struck_before(failed):
            self._tell_dying(team, local_rank, worker, dying)

    def _tell_dying(self, team: Team, local_rank: int, worker: WorkerProcess, dying: Dying) -> None:
        end = self._end(team, local_rank, worker, dying.status)
        self._hands.post(h.WorkerDying(replace(end, at=dying.at)))

    def _end(self, team: Team, local_rank: int, worker: WorkerProcess, status: kernel.ExitStatus) -> h.WorkerExited:
        at = self._hands.now()
        generation = team.run.generation
        if self._hands.shop.logs is not None:
            self._hands.shop.logs.nudge()
        # milestones reached just before the end count; and a peer that the kernel holds stopped may be why it ended.
        # Nobody is asked: it would wake a thread in each of them, and what follows is urgent
        readings = team.readings()
        self._hands.post(h.PagesRead(generation, readings))
        return h.WorkerExited(
            generation,
            local_rank,
            worker.pid,
            at,
            exit_code=status.exit_code,
            signal=status.signal,
            last_step=next((r.step for r in readings if r.local_rank == local_rank), None),
            error=team.error_of(local_rank) if status.exit_code != 0 else "",
        )

    def _swept(self, generation: Generation) -> None:
        if self._hands.shop.logs is not None:
            self._hands.shop.logs.ended(generation)
        self._hands.post(h.StraysGone(generation))

    def _reserve(self) -> None:
        self._hands.store.offer(lambda offer: self._hands.post(h.StoreReserved(offer)))

    def _look(self, action: h.ReadPages | h.Inspect) -> None:
        team = self._team_of(action.generation)
        if isinstance(action, h.ReadPages):
            self.read_pages(action.generation)
        elif team is not None:
            # begun now: what is ordered behind it must change nothing that is seen
            self._keep(self._loop.create_task(self._looked(team, action.generation, team.inspect(action))))

    async def _looked(self, team: Team, generation: Generation, seen: Coroutine[Any, Any, Look]) -> None:
        look = await seen
        self._evidence.keep(team, look.stacks)
        self.read_pages(generation)
        self._hands.post(h.Inspected(generation, look.findings))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _gpus(self, action: h.ReadGpuMemory | h.TellReclaim) -> None:
        if isinstance(action, h.TellReclaim):
            gpu_memory.tell(action.reclaim)
            return
        assert self._hands.gpus is not None, "only a launcher that has GPUs waits for their memory"
        told = partial(h.GpuMemoryRead, action.generation)
        self._hands.gpus.look(lambda readings, problem: self._hands.post(told(readings, problem)))

    def _read_marker(self, action: h.ReadMarker) -> None:
        def tell(reading: MarkerReading) -> None:
            self._hands.post(h.MarkerRead(action.generation, action.at_start, reading))

        assert self._hands.marker is not None, "only a launcher that was told of a marker reads it"
        self._hands.marker.look(tell)

    def _mark_pages(self, action: Mark) -> None:
        if isinstance(action, h.WriteLease):
            self._lease_until = action.until
        if (team := self._team_of(action.generation)) is not None:
            _mark(team.book, action)

    def _tell(self, action: h.TellFault | OrderAbort | MusterTell) -> None:
        if isinstance(action, OrderAbort | MusterTell):
            if isinstance(action, OrderAbort) and not action.phase:
                self._mark_pages(action)
            self._hands.order(action)
            return
        team = self._team_of(action.generation)
        directory = team.directory_of(action.rank) if team is not None and action.rank is not None else None
        stacks = self._evidence.of(action.generation, action.rank)
        self._keep(self._loop.create_task(self._hands.teller.tell(action, directory, stacks)))


def _mark(book: PageBook, action: Mark) -> None:
    match action:
        case OrderAbort():
            book.ends()
        case h.Fence():
            book.fence()
        case h.WriteLease(_, until):
            book.write_lease(until)
        case h.WriteStop(_, held, decided, alone):
            book.write_stop(held, decided)
            log.event("ranks_stop", generation=action.generation, held=held, decided=decided, alone=alone)
        case _:
            assert_never(action)
