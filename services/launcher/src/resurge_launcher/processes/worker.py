"""One worker process: started through the shim in a session of its own, watched by pidfd, reaped exactly once.

Start from the main thread only: the signal of parent death belongs to the thread that started the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resurge_launcher.processes import kernel

SHIM = Path(__file__).with_name("shim.py")


@dataclass(frozen=True, slots=True)
class Command:
    """What to start, and where its output goes."""

    argv: Sequence[str]
    env: Mapping[str, str]
    stdout: int
    """File descriptor that becomes the child's stdout; stays open here."""
    stderr: int
    cwd: str | None = None


class WorkerProcess:
    """A started worker. `on_exit` runs in the event loop, once, when it has been reaped."""

    def __init__(self, pid: int, pidfd: int, popen: subprocess.Popen[bytes] | None) -> None:
        # kept until the end: a Popen that is dropped early would be reaped behind our back
        self._popen = popen
        self._pidfd = pidfd
        self.pid = pid
        self.status: kernel.ExitStatus | None = None

    @classmethod
    def start(cls, command: Command) -> WorkerProcess:
        """Start it; raises OSError when the system will not."""
        argv = [sys.executable, "-I", "-S", str(SHIM), str(os.getpid()), "--", *command.argv]
        popen = subprocess.Popen(
            argv,
            env=dict(command.env),
            stdin=subprocess.DEVNULL,
            stdout=command.stdout,
            stderr=command.stderr,
            cwd=command.cwd,
            start_new_session=True,
        )
        return cls(popen.pid, os.pidfd_open(popen.pid), popen)

    @classmethod
    def adopt(cls, pid: int, pidfd: int) -> WorkerProcess:
        """A child of this process that something else has started; the pidfd goes over to it."""
        return cls(pid, pidfd, None)

    def watch(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[WorkerProcess], None]) -> None:
        """Call back when it has ended and is reaped."""
        loop.add_reader(self._pidfd, self._ended, loop, on_exit)

    def _ended(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[WorkerProcess], None]) -> None:
        status = kernel.reap(self._pidfd)
        if status is None:
            return
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.status = status
        if self._popen is not None:
            # tells Popen that there is nothing left to wait for
            self._popen.returncode = status.exit_code if status.exit_code is not None else -(status.signal or 0)
        on_exit(self)

    def signal_group(self, number: int) -> None:
        """Signal the whole process group, as far as this user may. Its number is ours until the worker is reaped."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
