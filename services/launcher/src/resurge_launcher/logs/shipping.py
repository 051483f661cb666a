"""The launcher's part in the logs: gives workers their spool files, keeps the sender and the log server running.

Decides nothing about workers. A spool that cannot be written costs the file of the cycle, never a start: output then
takes the way that it takes without a prefix.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from resurge_launcher.core.goals import RunGoal
from resurge_launcher.logs import spool
from resurge_launcher.logs.desk import SpoolDesk
from resurge_launcher.logs.lifeline import ORPHAN_LIMIT_S
from resurge_launcher.logs.own_copy import OwnCopy
from resurge_launcher.logs.places import SPOOL_LIMIT_S, SpoolPlaces
from resurge_launcher.logs.servers import LogServers
from resurge_launcher.logs.spool import LOCK_NAME, SpoolNote
from resurge_launcher.logs.trouble import NAME as TROUBLE_NAME
from resurge_launcher.logs.trouble import TroubleWatch
from resurge_launcher.settings import LogPlan, LogWay, RunSettings
from resurge_libs.obs import log

SENDER = "resurge_launcher.logs.shipper"
AGAIN_S, AGAIN_MAX_S = 0.5, 10.0
LIVED_S = 5.0
"""A sender that ends sooner is started again later each time: starting it costs half a second of a processor."""
TAIL_BYTES = 16 * 1024
TAIL_LIMIT_S = 1.0
KILL_LIMIT_S = 1.0
SENDER_LOG = "sender.log"
"""In the spool: what the sender says. Never on the launcher's own streams, which it outlives."""
SENDER_LOG_BYTES_MAX = 1024 * 1024


class LogShipping:
    """One node's spool, its sender, and on one node the log server."""

    def __init__(self, settings: RunSettings, plan: LogPlan, incarnation: int) -> None:
        self._settings, self._plan, self._incarnation = settings, plan, incarnation
        self._folder = plan.spool_dir
        self._sender: subprocess.Popen[bytes] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._servers = LogServers(settings, plan)
        self._desk = SpoolDesk()
        self._places = SpoolPlaces(self._folder, self._desk)
        self._preparing: set[asyncio.Task[None]] = set()
        self._ended_upto = 0
        """No process of this generation, or of one before it, is left."""
        self._own_copy: OwnCopy | None = None
        self._is_down = False
        self._sender_trouble = ""
        self._held_back = TroubleWatch(self._folder, self._desk)

    @property
    def pids(self) -> set[int]:
        """Children of this launcher that are no workers."""
        sender = {self._sender.pid} if self._sender is not None else set()
        return sender | self._servers.pids

    def start(self) -> None:
        """Take up the spool, and what earlier launchers left in it. Main thread."""
        self._servers.start()
        self._watch = asyncio.get_running_loop().create_task(self._keep_sending())
        self._held_back.start()

    def _take_up(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        spool.reopen(self._folder)
        spool.end_launchers(self._folder, self._incarnation - 1)

    def own_log(self) -> OwnCopy | None:
        """Where the launcher's own log lines go as well; None where that was not asked for. In a running loop."""
        if self._plan.launcher_log is None:
            return None
        note = SpoolNote(self._settings.job_id, self._settings.node_id, 0, 0, 0, 0, 0, self._incarnation, True)
        loop = asyncio.get_running_loop()

        def failed(error: OSError) -> None:
            with contextlib.suppress(RuntimeError):  # the launcher has ended
                loop.call_soon_threadsafe(self._down, error)

        self._own_copy = OwnCopy(self._desk, lambda: spool.open_for_worker(self._folder, note), failed)
        return self._own_copy

    # --- workers ---

    def prepare(self, run: RunGoal, ranks: Iterable[int], then: Callable[[], None]) -> None:
        """Have a place ready for all that these ranks print, once the last words of those before them are in their
        file; then call back, in bounded time whatever the disks do."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._prepare(run, ranks))
        self._preparing.add(task)
        task.add_done_callback(self._preparing.discard)
        task.add_done_callback(lambda task: None if task.cancelled() else then())

    async def _prepare(self, run: RunGoal, ranks: Iterable[int]) -> None:
        self.nudge()
        try:
            await self._places.prepare([self._note_of(run, rank) for rank in ranks])
        except OSError as error:
            self._down(error)
        else:
            self._is_down = False

    def _note_of(self, run: RunGoal, rank: int) -> SpoolNote:
        return SpoolNote(
            self._settings.job_id, self._settings.node_id, run.attempt, run.generation, run.cycle, rank,
            run.world_size, self._incarnation,
        )  # fmt: skip

    def open(self, run: RunGoal, rank: int) -> int | None:
        """A descriptor, of its own each time, for all that this rank prints; None where the spool cannot be written."""
        return self._places.open(run.generation, rank)

    def started(self) -> None:
        """The workers have their places."""
        self._places.close_unused()

    def called_off(self, generation: int) -> None:
        """A start that had its places is not wanted any more: nobody will write there."""
        self._places.close_unused(generation)
        self.ended(generation)

    def not_taken(self, generation: int) -> None:
        """Places among those of a generation that ran were prepared for fresh workers that are not wanted any more.

        They end with the generation: now, where that has ended already and nobody else will say so.
        """
        self._places.close_unused(generation)
        if generation <= self._ended_upto:
            self.ended(generation)

    def nudge(self) -> None:
        """Have the sender look now: somebody said his last words."""
        sender = self._sender
        if sender is not None and sender.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it ended, or has more of them than it takes
                os.write(sender.stdin.fileno(), b"\n")

    def ended(self, generation: int) -> None:
        """No process of this generation, or of one before it, is left on this node."""
        self._ended_upto = max(self._ended_upto, generation)
        self._desk.put(lambda: spool.end_generation(self._folder, generation))
        self._desk.put(self.nudge)

    async def tail(self, generation: int, rank: int, limit_lines: int) -> tuple[str, ...]:
        """The last lines that a rank wrote, as far as they are still here."""
        note = self._places.notes.get((generation, rank))
        if note is None:
            return ()
        try:
            text = await self._desk.ask(lambda: spool.tail(self._folder, note, TAIL_BYTES), TAIL_LIMIT_S)
        except OSError:
            return ()
        return tuple(text.decode(errors="replace").splitlines()[-limit_lines:])

    # --- the end ---

    async def stop(self) -> None:
        """All workers are gone: wait until what they wrote is in its file, for at most the limit in all.

        Sender and log server may finish without us.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._plan.stop_limit_s
        self._places.close_unused()
        try:
            await self._desk.ask(self._end_all, SPOOL_LIMIT_S)
        except OSError as error:
            self._down(error)
        self.nudge()
        if self._watch is not None:
            await asyncio.wait({self._watch}, timeout=max(0.0, give_up_at - loop.time()))
            self._watch.cancel()
        await self._held_back.stop()
        with contextlib.suppress(OSError):
            left = await self._desk.ask(lambda: list(spool.notes(self._folder)), SPOOL_LIMIT_S)
            _say_what_is_left(self._folder, self._settings.job_id, left)
        if self._sender is not None and self._sender.returncode is None:
            self._sender.returncode = 0  # it goes on without us: Popen must not warn of it
        has_ended = await self._servers.stop(max(0.0, give_up_at - loop.time()), waits=not self._is_down)
        with contextlib.suppress(OSError):
            await self._desk.ask(self._tidy_up, SPOOL_LIMIT_S)
        if has_ended:
            self._remove_sockets()

    def _end_all(self) -> None:
        if self._own_copy is not None:
            self._own_copy.close()
        last = max((generation for generation, _ in self._places.notes), default=0)
        spool.end_generation(self._folder, last)
        spool.end_launchers(self._folder, self._incarnation)
        spool.close(self._folder)

    def _tidy_up(self) -> None:
        """An empty spool is of no use to anybody."""
        if not list(spool.notes(self._folder)):
            for name in (spool.CLOSING, LOCK_NAME, SENDER_LOG, TROUBLE_NAME):
                (self._folder / name).unlink(missing_ok=True)
            self._folder.rmdir()

    def _remove_sockets(self) -> None:
        for served in (*self._plan.leaves, *([self._plan.endpoint] if self._plan.endpoint is not None else [])):
            if served.is_unix:
                with contextlib.suppress(OSError):
                    os.unlink(served.path)

    # --- the sender ---

    async def _keep_sending(self) -> None:
        """Start the sender again when it died; one that ends by itself has sent all, or another one does it."""
        again_s, loop = AGAIN_S, asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # the first start of workers says what is wrong
            await self._desk.ask(self._take_up, SPOOL_LIMIT_S)
        while True:
            began = loop.time()
            try:
                output = await self._desk.ask(lambda: _sender_log(self._folder / SENDER_LOG), SPOOL_LIMIT_S, _close)
                self._sender = self._started(output)
                code = await _code_of(self._sender)
            except OSError as error:  # no process, no memory, no descriptor for now
                self._let_sender_go()
                self._told_trouble(f"no sender can be started ({error.strerror}): lines wait in {self._folder}")
                await asyncio.sleep(again_s)
                again_s = min(again_s * 2, AGAIN_MAX_S)
                continue
            self._let_sender_go()
            self._told_trouble("")
            with contextlib.suppress(OSError):
                if code == 0 and await self._desk.ask(self._has_sent_all, SPOOL_LIMIT_S):
                    return
            if loop.time() - began >= LIVED_S:
                again_s = AGAIN_S
            await asyncio.sleep(again_s)
            again_s = min(again_s * 2, AGAIN_MAX_S)

    def _has_sent_all(self) -> bool:
        return spool.is_closing(self._folder) and not list(spool.notes(self._folder))

    def _let_sender_go(self) -> None:
        if self._sender is not None and self._sender.stdin is not None:
            with contextlib.suppress(OSError):
                self._sender.stdin.close()
        self._sender = None

    def _told_trouble(self, sentence: str) -> None:
        if sentence != self._sender_trouble:
            self._sender_trouble = sentence
            log.event("sender_not_started" if sentence else "sender_started_again", sentence=sentence)

    def _started(self, output: BinaryIO) -> subprocess.Popen[bytes]:
        plan, settings = self._plan, self._settings
        words = [sys.executable, "-P", "-m", SENDER, str(self._folder), "--job", settings.job_id]
        words += ["--node", settings.node_id, "--limit-bytes", str(plan.spool_limit_bytes)]
        words += ["--parent", str(os.getpid())]
        if plan.way is LogWay.DIRECT:
            words += ["--prefix", str(plan.prefix)]
        else:
            words += [word for leaf in plan.own_leaves for word in ("--leaf", leaf.target)]
            words += ["--endpoint", plan.endpoint.target] if plan.endpoint is not None else []
        with output:
            sender = subprocess.Popen(
                words,
                env=_sender_environ(settings.environ),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        assert sender.stdin is not None
        with contextlib.suppress(OSError):  # it ended at once: its code will say so
            sender.stdin.write(settings.job_token.encode() + b"\n")
            sender.stdin.flush()
            os.set_blocking(sender.stdin.fileno(), False)  # from now on it carries nudges
        return sender

    def _down(self, error: OSError) -> None:
        if not self._is_down:
            self._is_down = True
            log.event(
                "spool_not_written",
                sentence=f"{self._folder} cannot be written ({error.strerror}): output goes to the terminal and to "
                "per-rank files. Name another directory with --log-spool-dir.",
            )


def _say_what_is_left(folder: Path, job_id: str, left: list[SpoolNote]) -> None:
    if left:
        ranks = ", ".join(str(note.rank) for note in left[:16])
        sentence = (
            f"lines of ranks {ranks} are still in {folder}. The sender tries for {ORPHAN_LIMIT_S:g} s more as long as "
            "nothing gets through; then the next launcher of this node sends them, or by hand: resurge logs flush "
            f"{folder} --log-endpoint HOST:PORT, with a log server of --job-id {job_id}. Why they are held back is in "
            f"{folder / SENDER_LOG}"
        )
        log.event("logs_not_sent", sources=len(left), sentence=sentence)


def _sender_environ(environ: Mapping[str, str]) -> dict[str, str]:
    return {**environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}


def _sender_log(path: Path) -> BinaryIO:
    """Where a sender writes what it has to say; to nowhere where that cannot be opened. Raises OSError for neither."""
    try:
        is_long = path.exists() and path.stat().st_size > SENDER_LOG_BYTES_MAX
        return path.open("wb" if is_long else "ab")
    except OSError:
        return Path(os.devnull).open("ab")


def _close(output: BinaryIO) -> None:
    output.close()


async def _code_of(process: subprocess.Popen[bytes]) -> int:
    """Its exit code. Raises OSError where it cannot be waited for; then it was ended: another one does what it did."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_LIMIT_S)
        raise
    loop.add_reader(pidfd, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
    return process.wait()
