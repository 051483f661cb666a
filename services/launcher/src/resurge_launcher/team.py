"""The processes of one generation on this node: started together, watched, signalled; their files and pages.

Decides nothing: what happens to a worker is told by `on_exit`, what its page says by `read`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any

from resurge.page import stacks_path
from resurge_launcher.core.goals import RunGoal
from resurge_launcher.core.looks import Inspect
from resurge_launcher.core.model import PageReading
from resurge_launcher.core.struck import struck_before
from resurge_launcher.environment import NodeFacts, WorkerFiles, worker_environment
from resurge_launcher.logs.shipping import LogShipping
from resurge_launcher.output import Funnel, Stream
from resurge_launcher.pages import PageBook
from resurge_launcher.processes import inspection, kernel
from resurge_launcher.processes.probes import Probe
from resurge_launcher.processes.py_spy import PySpy
from resurge_launcher.processes.worker import Command, Dying, WorkerProcess
from resurge_launcher.settings import RunSettings, Std
from resurge_launcher.start_files import NO_FILES, LogFiles
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.text import whole_text
from resurge_libs.obs import cycle_files

ERROR_LIMIT_BYTES = 64 * 1024
ERROR_LINES = 20
LINE_LIMIT_CHARACTERS = 2_000
"""Of one line of an error file; JSON that was cut has no line ends."""
Forker = Callable[[Sequence[Command]], list[WorkerProcess] | None]
"""Forks all workers of these commands, or answers None: then exec does it."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is called in the loop when something happens to the worker of a local rank."""

    on_exit: Callable[[int, WorkerProcess], None]
    on_dying: Callable[[int, WorkerProcess, Dying], None]
    """Perhaps, and before `on_exit`: it is at its end, and not reaped yet."""


@dataclass(frozen=True, slots=True)
class Shop:
    """What every team of this launcher works with."""

    settings: RunSettings
    facts: NodeFacts
    page_home: Path
    funnel: Funnel
    own_dir: Path
    """For error files, where no log directory can be written."""
    logs: LogShipping | None = None
    """Where what workers print goes instead, on its way to one file for all ranks."""
    spy: PySpy = field(default_factory=PySpy)


class Team:
    """One generation's workers. Start from the main thread."""

    def __init__(self, shop: Shop, run: RunGoal, files: LogFiles = NO_FILES) -> None:
        self._shop = shop
        self.run = run
        self._root = files.root
        self._fresh_roots: dict[int, Path | None] = {}
        """Of ranks whose worker was started anew: a disk may have come or gone meanwhile."""
        self._unused = dict(files.descriptors)
        """Log files that no stream has taken yet."""
        self.book = PageBook(shop.page_home, run.generation)
        self._workers: dict[int, WorkerProcess] = {}
        self._probes: dict[int, Probe] = {}

    @property
    def living_pids(self) -> set[int]:
        """Workers that are not reaped yet."""
        return {worker.pid for worker in self._workers.values() if worker.status is None}

    @property
    def local_ranks(self) -> frozenset[int]:
        """Those whose workers were started."""
        return frozenset(self._workers)

    @property
    def living_ranks(self) -> frozenset[int]:
        """Local ranks whose workers are not reaped yet."""
        return frozenset(local_rank for local_rank, worker in self._workers.items() if worker.status is None)

    def directory_of(self, rank: int) -> Path | None:
        """Where a rank's files of this cycle are; cycles count from 0 in each attempt. None where none are written."""
        root = self._fresh_roots.get(rank, self._root)
        return None if root is None else root / str(rank)

    def _error_file(self, rank: int) -> Path:
        directory = self.directory_of(rank)
        return self._shop.own_dir / f"error-{rank}.json" if directory is None else directory / "error.json"

    def start(self, loop: asyncio.AbstractEventLoop, told: Told, fork: Forker | None) -> None:
        """Start all workers: forked together where that is possible, else exec'd one by one. Raises OSError.

        Those that were started before an error are in `pids`.
        """
        with self._commands(range(self._shop.facts.local_world_size)) as commands:
            forked = fork(commands) if fork is not None else None
            for local_rank, command in enumerate(commands):
                worker = self._executed(local_rank, command) if forked is None else forked[local_rank]
                self._keep(loop, told, local_rank, worker)

    def replace(
        self, loop: asyncio.AbstractEventLoop, told: Told, fork: Forker, local_ranks: Sequence[int], files: LogFiles
    ) -> bool:
        """Fork these workers anew, all or none, in the places of those that are reaped; whether that was done.

        Raises OSError.
        """
        assert all(self._workers[local_rank].status is not None for local_rank in local_ranks), "one of them lives"
        self._unused = dict(files.descriptors)
        self._fresh_roots |= {self.run.base_rank + local_rank: files.root for local_rank in local_ranks}
        with self._commands(local_ranks) as commands:
            forked = fork(commands)
            for local_rank, worker in zip(local_ranks, forked or (), strict=False):
                self._keep(loop, told, local_rank, worker)
        return forked is not None

    def _keep(self, loop: asyncio.AbstractEventLoop, told: Told, local_rank: int, worker: WorkerProcess) -> None:
        self._workers[local_rank] = worker
        worker.watch(loop, partial(told.on_exit, local_rank))
        worker.watch_death(loop, self.book.path_of(local_rank), partial(told.on_dying, local_rank))
        with contextlib.suppress(OSError, NotImplementedError):  # then a hang is told of in fewer words
            self._probes[local_rank] = Probe(self.book.path_of(local_rank))

    @contextlib.contextmanager
    def _commands(self, local_ranks: Sequence[int]) -> Iterator[list[Command]]:
        """What starts these workers; their descriptors, and files that nobody took, are closed at the end."""
        commands: list[Command] = []
        try:
            for local_rank in local_ranks:
                commands.append(self._command(local_rank))
            yield commands
        finally:
            for command in commands:
                os.close(command.stdout)
                os.close(command.stderr)
            if self._shop.logs is not None:
                self._shop.logs.started()
            while self._unused:
                os.close(self._unused.popitem()[1])

    def _executed(self, local_rank: int, command: Command) -> WorkerProcess:
        """One worker by exec. The rank that opens the store begins before the others: whoever comes to the store before
        it is there looks again half a second later, and everybody waits for that."""
        run = self.run
        opens_store = run.base_rank + local_rank == 0 and run.world_size > 1 and not run.store_is_served
        return WorkerProcess.start(command, begins_first=opens_store)

    @property
    def pids(self) -> tuple[tuple[int, int], ...]:
        """(local rank, pid) of every worker that was started."""
        return tuple((local_rank, worker.pid) for local_rank, worker in self._workers.items())

    def _command(self, local_rank: int) -> Command:
        """What starts one worker; its output descriptors are to be closed after the start."""
        rank = self.run.base_rank + local_rank
        error_file = self._error_file(rank)
        if self.directory_of(rank) is None:
            error_file.unlink(missing_ok=True)
        settings = self._shop.settings
        files = WorkerFiles(self.book.create(Rank(rank), local_rank), str(error_file), *self._records())
        env = worker_environment(self.run, self._shop.facts, local_rank, files, settings.environ)
        writers = [self._opened(rank, local_rank, is_stderr) for is_stderr in (False, True)]
        return Command(settings.entry.command(settings.python), env, writers[0], writers[1])

    def _opened(self, rank: int, local_rank: int, is_stderr: bool) -> int:
        spooled = self._shop.logs.open(self.run, rank) if self._shop.logs is not None else None
        if spooled is not None:
            return spooled
        descriptor = self._unused.pop((rank, is_stderr), None)
        return self._shop.funnel.open(self._stream(rank, local_rank, is_stderr), descriptor)

    def _records(self) -> tuple[str, str]:
        """The record of this cycle and the link to the newest; empty where none was asked for."""
        root, run = self._shop.settings.cycle_info_dir, self.run
        if root is None:
            return "", ""
        job = self._shop.facts.job_id
        own = cycle_files.record_path(root, job, run.attempt, run.cycle)
        return str(own), str(cycle_files.current_path(root, job, run.attempt))

    def ask(self) -> None:
        """Ask the interpreters whether they run; wakes a thread of each worker."""
        now = Instant(time.monotonic())
        for probe in self._probes.values():
            probe.ask(now)

    def readings(self) -> tuple[PageReading, ...]:
        """What the pages say, and what the kernel says of the processes."""
        return tuple(self._with_kernels_word(reading) for reading in self.book.read())

    def _with_kernels_word(self, reading: PageReading) -> PageReading:
        worker = self._workers.get(reading.local_rank)
        stat = kernel.stat_of(worker.pid) if worker is not None and worker.status is None else None
        if worker is None or stat is None:
            return reading
        if not reading.open_phase:
            return replace(reading, stopped=stat.is_stopped)
        moves = reading.moves + kernel.written_bytes_of(worker.pid)
        return replace(reading, stopped=stat.is_stopped, moves=moves, waits_for_disk=stat.waits_for_device)

    def inspect(self, asked: Inspect) -> Coroutine[Any, Any, inspection.Look]:
        """Look how those that live stand: begun with this call, to be awaited."""
        subjects = [
            inspection.Subject(
                local_rank=local_rank,
                pid=worker.pid,
                pidfd=worker.pidfd,
                stacks_path=Path(stacks_path(self.book.path_of(local_rank))),
                stacks_signal=self.book.stacks_signal_of(local_rank),
                probe=self._probes.get(local_rank),
            )
            for local_rank, worker in self._workers.items()
            if worker.status is None
        ]
        spy = self._shop.spy
        return inspection.inspect(subjects, asked.with_stacks, asked.limit_s, spy, asked.is_brief)

    def signal(self, number: int) -> None:
        """Signal the process groups of all that live."""
        for worker in self._workers.values():
            worker.signal_group(number)

    def pass_on(self, number: int, local_ranks: frozenset[int]) -> frozenset[int]:
        """Signal the process groups of those among these workers that do not end by it; who they were."""
        found = {rank: self._workers[rank] for rank in local_ranks & self.living_ranks}
        ready = {rank: worker for rank, worker in found.items() if kernel.outlives(worker.pid, number)}
        for worker in ready.values():
            worker.signal_group(number)
        return frozenset(ready)

    def end(self, local_ranks: Sequence[int]) -> None:
        """KILL the process groups of some workers."""
        for local_rank, worker in self._workers.items():
            if local_rank in local_ranks:
                worker.signal_group(SIGKILL)

    def struck_before(self, failed: Dying) -> tuple[tuple[int, WorkerProcess, Dying], ...]:
        """Those, not reaped yet, that are told of before this one: the kernel is asked, and the core has the rule."""
        living = [(rank, worker) for rank, worker in self._workers.items() if worker.status is None]
        ends = {rank: end for rank, worker in living if (end := kernel.end_of(worker.pid)) is not None}
        signals = {rank: end.signal for rank, end in ends.items()}
        first = struck_before(failed.status.exit_code, failed.at, signals)
        return tuple((rank, self._workers[rank], Dying(ends[rank], at)) for rank, at in first)

    def error_of(self, local_rank: int) -> str:
        """What the worker wrote into its error file, in few lines; empty where it wrote none."""
        return read_error(self._error_file(self.run.base_rank + local_rank))

    def close(self) -> None:
        """Remove the pages; nobody maps them any more."""
        self._probes.clear()
        for worker in self._workers.values():
            worker.unwatch_death()
        self.book.close()

    def _stream(self, rank: int, local_rank: int, is_stderr: bool) -> Stream:
        settings = self._shop.settings
        bit = Std.ERR if is_stderr else Std.OUT
        redirected = bool(settings.redirects.of(local_rank) & bit) and not settings.tee.of(local_rank) & bit
        shown = settings.local_ranks_filter is None or local_rank in settings.local_ranks_filter
        directory = self.directory_of(rank)
        file = None if directory is None else directory / ("stderr.log" if is_stderr else "stdout.log")
        # without a file the terminal is the only place left
        shown = (shown and not redirected) or file is None
        return Stream(self.run.generation, rank, is_stderr, file, to_terminal=shown)


def read_error(path: Path) -> str:
    """The message of an error file as torch's `record` and the worker SDK write it, cut to few lines."""
    try:
        with path.open("rb") as file:
            text = file.read(ERROR_LIMIT_BYTES).decode(errors="replace")
    except OSError:
        return ""
    try:
        found = json.loads(text)
        message = found["message"] if isinstance(found, dict) and "message" in found else found
        if isinstance(message, dict):
            extra = message.get("extraInfo")
            trace = extra.get("py_callstack", "") if isinstance(extra, Mapping) else ""
            message = trace or message.get("message", "")
        text = str(message)
    except (ValueError, RecursionError):  # what is no JSON, or nested without end, is shown as it is
        pass
    return "\n".join(line[:LINE_LIMIT_CHARACTERS] for line in whole_text(text).strip().splitlines()[-ERROR_LINES:])
