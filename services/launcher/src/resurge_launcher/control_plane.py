"""Keeps this host's control plane alive: started in a session of its own, so that it outlives the launcher.

Of several launchers on the host the one that holds `supervisor.lock` in the state directory watches over it; the
others only connect, and one of them takes over when the holder ends. A control plane that died is started again on the
same state directory. One that claims this state directory and that a signal has stopped for good is killed and
replaced, whoever started it: it answers nobody, and holds the address and the journal. One that answers and is of
another state directory is left alone, and never replaced. Where the state directory is served at another address, for
another job or node, this launcher has no use for it, and says so at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from resurge_launcher.claims import AnothersUse, claimant
from resurge_launcher.control_plan import ControlPlan
from resurge_launcher.control_words import DAMAGED, journal_damage, last_words
from resurge_launcher.early_control import EarlyControl
from resurge_launcher.logs.desk import SpoolDesk
from resurge_launcher.probe import answers
from resurge_launcher.processes import kernel
from resurge_libs.core.verdict import EXIT_USAGE
from resurge_libs.hosting.own_log import make_room
from resurge_libs.obs import log
from resurge_libs.obs.background import Outage

SUPERVISOR_LOCK = "supervisor.lock"
STDERR = 2
LOCK_POLL_S = 0.25
ANSWER_POLL_S = 0.01
BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 1.0
END_LIMIT_S = 5.0
EARLY_LIMIT_S = 1.0
"""For the end of one that was begun early and killed."""
REAP_POLL_S = 0.02
OPEN_LIMIT_S = 2.0
"""For a log on a disk that its user named."""
STOPPED_LOOK_S = 1.5
STOPPED_LOOKS = 4
"""So many looks in a row find it stopped before it is replaced: looks and not seconds, as this launcher may have been
stopped as well. One that a debugger holds is somebody's work and left to it."""
FAILURES_LIMIT = 4
"""Starts in a row without an answer, before there ever was one, after which it is of no use."""


class ControlPlane:
    """Supervises one control plane from the event loop. Popen must be called in the main thread: `start` does."""

    def __init__(
        self,
        plan: ControlPlan,
        on_answer: Callable[[], None],
        on_useless: Callable[[str], None],
        early: EarlyControl | None = None,
    ) -> None:
        """With `early` the first one that is started is this one, which has its imports done or is at them."""
        self._plan = plan
        self._early = _Early(early)
        self._on_answer = on_answer
        self._on_useless = on_useless
        self._task: asyncio.Task[None] | None = None
        self._lock_descriptor: int | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._pidfd: int | None = None
        self._answered = False
        self._log_since: int | None = None
        """Where what our own child says begins in its log; None once that was looked at."""
        remedy = "Give the state directory room, and make what stands there a file that you may write."
        self._desk = SpoolDesk()
        self._log_outage = Outage("the control plane's log", plan.log_path, remedy)

    @property
    def pids(self) -> set[int]:
        """The control plane's process where it is this launcher's child."""
        return self._early.pids | ({self._child.pid} if self._child is not None else set())

    def start(self) -> asyncio.Task[None]:
        """Begin to supervise."""
        self._plan.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self._task

    async def stop(self, end_it: bool, limit_s: float = END_LIMIT_S) -> bool:
        """Supervise no longer; with `end_it` it is told to end as well, and waited for so long; whether it ended."""
        has_ended = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._early.end()
        await self._early.reaped(EARLY_LIMIT_S)
        if end_it and self._pidfd is not None:
            kernel.send(self._pidfd, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(_ended(self._pidfd), limit_s)
                has_ended = True
        self._forget()
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None
        return has_ended

    async def _run(self) -> None:
        if not await self._take_supervision():
            return
        backoff_s, failures, ever_answered = BACKOFF_FIRST_S, 0, self._answered
        while True:
            self._answered = False
            found = self._found()
            if found is not None:
                self._early.end()
            pidfd = self._pidfd = found if found is not None else self._started(await self._output())
            looks = [self._tell_answer(), self._replace_when_stopped(pidfd)]
            tasks = [asyncio.get_running_loop().create_task(look) for look in looks]
            try:
                await _ended(pidfd)
            finally:
                for task in tasks:
                    task.cancel()
            code = self._reaped_code()
            self._forget()
            log.event("control_plane_ended", exit_code=code)
            if code == 0:
                return
            if code == EXIT_USAGE and not ever_answered and await self._another_answers():
                # of two that were started for one address the other has it; its journal is the job's from now on
                self._leave_to_other()
                return
            if self._answered:
                backoff_s, failures, ever_answered = BACKOFF_FIRST_S, 0, True
            else:
                backoff_s, failures = min(backoff_s * 2, BACKOFF_MAX_S), failures + 1
            # one that worked before is tried for ever: training goes on meanwhile
            if not ever_answered and (code == EXIT_USAGE or failures >= FAILURES_LIMIT):
                self._on_useless(self._last_words())
                return
            await asyncio.sleep(backoff_s)

    async def _take_supervision(self) -> bool:
        """Wait for the lock; False where another control plane answers, or another one uses this state directory."""
        anothers = AnothersUse(self._plan.state_dir, self._plan.listen)
        while True:
            if self._plan.gives_way and (sentence := await asyncio.to_thread(anothers.look)):
                self._early.end()
                self._on_useless(sentence)
                return False
            if not self._is_claimed() and await asyncio.to_thread(answers, self._plan.listen):
                self._leave_to_other()
                return False
            descriptor = os.open(self._plan.state_dir / SUPERVISOR_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                self._early.end()
                if not self._answered and await asyncio.to_thread(answers, self._plan.listen):
                    self._answered = True
                    self._on_answer()
                await asyncio.sleep(LOCK_POLL_S)
                continue
            self._lock_descriptor = descriptor
            return True

    async def _another_answers(self) -> bool:
        """One of another state directory; never for a part of one launcher's own, as a log server is."""
        return self._plan.gives_way and await asyncio.to_thread(answers, self._plan.listen)

    def _leave_to_other(self) -> None:
        listen, state_dir = self._plan.listen, self._plan.state_dir
        sentence = f"{listen} is served by a control plane that was started elsewhere: nothing is kept in {state_dir}"
        log.event("state_dir_unused", sentence=sentence)
        self._early.end()
        self._on_answer()

    def _is_claimed(self) -> bool:
        """Whether a host program holds the state directory now."""
        return claimant(self._plan.state_dir) != 0

    def _found(self) -> int | None:
        """The pidfd of the process that holds the state directory."""
        pid = claimant(self._plan.state_dir)
        return kernel.open_pidfd(pid) if pid > 0 else None

    def _started(self, output: BinaryIO) -> int:
        """The pidfd of one that was started, and writes its log there."""
        with output:
            self._log_since = os.fstat(output.fileno()).st_size
            self._child = self._early.begin(output.fileno())
            if self._child is None:
                self._child = subprocess.Popen(
                    self._plan.argv,
                    env=dict(self._plan.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        log.event("control_plane_started", pid=self._child.pid, endpoint=self._plan.listen.target)
        return os.pidfd_open(self._child.pid)

    async def _output(self) -> BinaryIO:
        """Where it writes its log: to this launcher's stderr where the file cannot be opened."""
        path = self._plan.log_path
        output: BinaryIO
        try:
            if self._plan.has_own_log:
                make_room(path)
                output = path.open("ab")
            else:
                output = await self._desk.ask(lambda: _opened(path), OPEN_LIMIT_S, _close)
        except OSError as error:
            self._log_outage.failed(error)
            return os.fdopen(os.dup(STDERR), "ab")
        self._log_outage.written()
        return output

    async def _tell_answer(self) -> None:
        while not await asyncio.to_thread(answers, self._plan.listen):  # noqa: ASYNC110  # another process decides
            await asyncio.sleep(ANSWER_POLL_S)
        self._answered = True
        self._on_answer()
        self._tell_damage()

    def _tell_damage(self) -> None:
        """Say here as well what the one that was started had to give up; once for each start."""
        since, self._log_since = self._log_since, None
        if since is None or not self._plan.has_own_log:
            return
        if sentence := journal_damage(self._plan.log_path, since):
            log.event(DAMAGED, sentence=sentence, log=str(self._plan.log_path))

    async def _replace_when_stopped(self, pidfd: int) -> None:
        pid = looks = 0
        while looks < STOPPED_LOOKS:
            await asyncio.sleep(STOPPED_LOOK_S)
            with contextlib.suppress(OSError):  # no file can be opened now: the next look may find it
                pid = kernel.pid_of(pidfd)
            stat = kernel.stat_of(pid) if pid > 0 else None
            looks = looks + 1 if stat is not None and stat.is_stopped_by_signal else 0
        stopped_s = STOPPED_LOOK_S * (STOPPED_LOOKS - 1)
        sentence = f"process {pid} has been stopped by a signal for {stopped_s:g} s: it is killed, and started again"
        log.event("control_plane_stopped", pid=pid, sentence=sentence)
        kernel.send(pidfd, signal.SIGKILL)

    def _reaped_code(self) -> int | None:
        """Exit code; None after a signal, or where it is not our child."""
        if self._child is None or self._pidfd is None:
            return None
        status = kernel.reap(self._pidfd)
        if status is None:
            return None
        self._child.returncode = status.exit_code if status.exit_code is not None else -(status.signal or 0)
        return status.exit_code

    def _forget(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
        if self._child is not None and self._child.returncode is None:
            # it goes on without us: Popen must not warn of it
            self._child.returncode = 0
        self._pidfd, self._child = None, None

    def _last_words(self) -> str:
        """The last line that the control plane wrote."""
        if not self._plan.has_own_log:
            return f"it could not be started; why is in {self._plan.log_path}"
        return last_words(self._plan.log_path) or "the control plane could not be started"


class _Early:
    """The one that was begun before the launcher, if one was: until it serves, or is reaped. Nothing here blocks."""

    def __init__(self, control: EarlyControl | None) -> None:
        self._waiting = self._unreaped = control
        self._reaping: asyncio.Task[None] | None = None

    @property
    def pids(self) -> set[int]:
        """Its process, while it waits or has not been reaped: it is no stray."""
        return {self._unreaped.pid} if self._unreaped is not None else set()

    def begin(self, output: int) -> subprocess.Popen[bytes] | None:
        """Have it serve, and write what it says there; None where there is none, or it is gone."""
        control, self._waiting = self._waiting, None
        popen = control.begin(output) if control is not None else None
        if popen is not None:
            self._unreaped = None
        elif control is not None:
            self._end(control)
        return popen

    def end(self) -> None:
        """Another one serves, or none is wanted any more. It is reaped as soon as it ends."""
        control, self._waiting = self._waiting, None
        if control is not None:
            self._end(control)

    def _end(self, control: EarlyControl) -> None:
        control.kill()
        self._reaping = asyncio.get_running_loop().create_task(self._reap(control))

    async def _reap(self, control: EarlyControl) -> None:
        while not control.is_gone():  # noqa: ASYNC110  # the kernel decides
            await asyncio.sleep(REAP_POLL_S)
        self._unreaped = None

    async def reaped(self, limit_s: float) -> None:
        """Wait for the end of one that was ended, for so long; then it is left."""
        if self._reaping is not None:
            await asyncio.wait({self._reaping}, timeout=limit_s)
            self._reaping.cancel()


def _opened(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("ab")


def _close(output: BinaryIO) -> None:
    output.close()


async def _ended(pidfd: int) -> None:
    """Wait until the process behind the pidfd has ended; it need not be a child."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(pidfd, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(pidfd)
