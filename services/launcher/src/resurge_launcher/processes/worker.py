"""One worker process: started through the shim in a session of its own, watched by pidfd, reaped exactly once.

Start from the main thread only: the signal of parent death belongs to the thread that started the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resurge_launcher.processes import kernel
from resurge_launcher.processes.death_watch import DeathWatch
from resurge_libs.core.instant import Instant
from resurge_libs.obs import log

SHIM = Path(__file__).with_name("shim.py")
BEGIN_LIMIT_S = 0.25
"""The launcher stands still meanwhile."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start, and where its output goes."""

    argv: Sequence[str]
    env: Mapping[str, str]
    stdout: int
    """File descriptor that becomes the child's stdout; stays open here."""
    stderr: int
    cwd: str | None = None


def _await_end_of(pipe: int) -> None:
    """Wait, for a bounded time, until nobody has the other end of a pipe any more, and close this one."""
    poll = select.poll()
    poll.register(pipe, 0)
    poll.poll(BEGIN_LIMIT_S * 1000)
    os.close(pipe)


@functools.cache
def _tell_off(why: str) -> None:
    """Once for each reason: it will be the same for every worker."""
    log.event("death_watch_off", sentence=why)


@dataclass(frozen=True, slots=True)
class Dying:
    """How a worker ends that the kernel has begun to take apart, and since when that is known."""

    status: kernel.ExitStatus
    at: Instant


class WorkerProcess:
    """A started worker. `on_exit` runs in the event loop, once, when it has been reaped."""

    def __init__(self, pid: int, pidfd: int, popen: subprocess.Popen[bytes] | None) -> None:
        # kept until the end: a Popen that is dropped early would be reaped behind our back
        self._popen = popen
        self._pidfd = pidfd
        self._death_watch: DeathWatch | None = None
        self.pid = pid
        self.status: kernel.ExitStatus | None = None

    @classmethod
    def start(cls, command: Command, begins_first: bool = False) -> WorkerProcess:
        """Start it; raises OSError when the system will not.

        With `begins_first` it has become its program before this returns, or `BEGIN_LIMIT_S` is over.
        """
        begun, not_yet = os.pipe2(os.O_CLOEXEC) if begins_first else (-1, -1)
        told = (not_yet,) if begins_first else ()
        argv = [sys.executable, "-I", "-S", str(SHIM), str(os.getpid()), *map(str, told), "--", *command.argv]
        try:
            popen = subprocess.Popen(
                argv,
                env=dict(command.env),
                stdin=subprocess.DEVNULL,
                stdout=command.stdout,
                stderr=command.stderr,
                cwd=command.cwd,
                start_new_session=True,
                pass_fds=told,
            )
        finally:
            for descriptor in told:
                os.close(descriptor)
            if begins_first:
                _await_end_of(begun)
        return cls(popen.pid, os.pidfd_open(popen.pid), popen)

    @classmethod
    def adopt(cls, pid: int, pidfd: int) -> WorkerProcess:
        """A child of this process that something else has started; the pidfd goes over to it."""
        return cls(pid, pidfd, None)

    def watch(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[WorkerProcess], None]) -> None:
        """Call back when it has ended and is reaped."""
        loop.add_reader(self._pidfd, self._ended, loop, on_exit)

    def watch_death(
        self, loop: asyncio.AbstractEventLoop, page: str, on_dying: Callable[[WorkerProcess, Dying], None]
    ) -> None:
        """Call back as soon as it ends, before its memory is freed, where it holds its page's lock.

        Never after `on_exit`. Where it is not called the pidfd says all there is to say, only later.
        """

        def woken(at: Instant) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the launcher is at its end
                loop.call_soon_threadsafe(self._look, at, on_dying)

        try:
            self._death_watch = DeathWatch(page, woken)
        except (OSError, NotImplementedError, RuntimeError) as error:
            _tell_off(f"{type(error).__name__}: {error}")

    def _look(self, at: Instant, on_dying: Callable[[WorkerProcess, Dying], None]) -> None:
        # not reaped, so the number is its own; alive after all means that it has replaced its program
        status = kernel.end_of(self.pid) if self.status is None and self._death_watch is not None else None
        if status is not None:
            on_dying(self, Dying(status, at))

    def unwatch_death(self) -> None:
        """Nobody wants to know any more."""
        if self._death_watch is not None:
            self._death_watch.close()
            self._death_watch = None

    def _ended(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[WorkerProcess], None]) -> None:
        status = kernel.reap(self._pidfd)
        if status is None:
            return
        self.unwatch_death()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.status = status
        if self._popen is not None:
            # tells Popen that there is nothing left to wait for
            self._popen.returncode = status.exit_code if status.exit_code is not None else -(status.signal or 0)
        on_exit(self)

    @property
    def pidfd(self) -> int:
        """Its handle; not to be used once it is reaped."""
        return self._pidfd

    def signal_group(self, number: int) -> None:
        """Signal the whole process group, as far as this user may. Its number is ours until the worker is reaped."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
