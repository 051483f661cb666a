"""Starts the process of a fork server, before anything else of a launcher: only what that needs is imported here.

Knows nothing of orders and workers; `client` keeps what is started here.
"""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ENTRY = Path(__file__).with_name("entry.py")
SOURCE_ROOT = Path(__file__).parents[2]
DEATH_LOCK = "death_lock.py"
"""The one file of the worker SDK that the server loads, by its path: the package is the program's to import."""
END_LIMIT_S = 1.0
"""From KILL to its end, at most; the launcher stands still meanwhile."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which server is kept."""

    python: str
    kind: str
    """orders.SCRIPT or orders.MODULE."""
    program: str
    args: tuple[str, ...]
    preload: tuple[str, ...]
    environ: Mapping[str, str]

    def argv(self, fd: int) -> list[str]:
        """The server's command line; the program stands at its end, where people look for it."""
        words = [self.python, "-u", str(ENTRY), str(SOURCE_ROOT), _death_lock(), str(fd), str(os.getpid())]
        return [*words, self.kind, ",".join(self.preload), self.program, *self.args]


@dataclass(slots=True)
class ForkServer:
    """One server process."""

    popen: subprocess.Popen[bytes]
    pidfd: int
    control: socket.socket
    said: int
    began_at: float
    is_ready: bool = False

    def let_go(self) -> None:
        """Close the channels; what it has said is lost then."""
        self.control.close()
        os.close(self.said)

    def end(self, limit_s: float = END_LIMIT_S) -> int | None:
        """End and reap it; its exit code, None where the kernel has not ended it by then: a file system may hold it."""
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)  # it is not reaped yet, so there is something to signal
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        has_ended = poll.poll(limit_s * 1000)
        os.close(self.pidfd)
        return self.popen.wait() if has_ended else None


def start(plan: Plan) -> ForkServer:
    """Start a server. Call from the main thread, which its life hangs on. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    said_read, said_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(said_write, True)
    try:
        popen = subprocess.Popen(
            plan.argv(theirs.fileno()),
            env=dict(plan.environ),
            stdin=subprocess.DEVNULL,
            stdout=said_write,
            stderr=said_write,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    except OSError:
        ours.close()
        os.close(said_read)
        raise
    finally:
        theirs.close()
        os.close(said_write)
    return ForkServer(popen, os.pidfd_open(popen.pid), ours, said_read, time.monotonic())


def _death_lock() -> str:
    """Where the file is; empty, and workers do without, where the SDK is not one of files."""
    sdk = importlib.util.find_spec("resurge")
    folders = sdk.submodule_search_locations if sdk is not None else None
    return next((str(path) for folder in folders or () if (path := Path(folder) / DEATH_LOCK).is_file()), "")
