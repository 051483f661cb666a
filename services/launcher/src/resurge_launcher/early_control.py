"""A control plane that is started before it is known whether it is wanted: it makes its imports, and waits for a word.

The imports of a launcher and those of its control plane take about as long, and a launch that made them one after the
other would start its workers that much later. Nothing is claimed, bound or written before the word; without it the
process ends unseen. Only what that needs is imported here: it comes before anything else of a launcher.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys

from resurge_launcher.control_plan import ControlPlan

PROGRAM = "resurge_host.head_start"
BEGIN = b"begin"
END_LIMIT_S = 1.0
"""For one that was killed; where the kernel does not let go of it, as while a disk does not answer, it is left."""


class EarlyControl:
    """One process that waits, until it is told to begin or ended."""

    def __init__(self, plan: ControlPlan, popen: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.plan = plan
        self.pid = popen.pid
        self._waiting: subprocess.Popen[bytes] | None = popen
        self._channel = channel

    def begin(self, output: int) -> subprocess.Popen[bytes] | None:
        """Have it serve, and write what it says there; it is the caller's from then on.

        None where it is gone, and another must be started: then `kill` is still to be called.
        """
        try:
            socket.send_fds(self._channel, [BEGIN], [output])
        except OSError:
            return None
        popen, self._waiting = self._waiting, None
        self._channel.close()
        return popen

    def kill(self) -> None:
        """Kill it unless it has begun, and wait for nothing. May be called again."""
        if self._waiting is not None:
            self._channel.close()
            self._waiting.kill()

    def is_gone(self) -> bool:
        """Whether it is none of ours any more: it has begun, or has ended and is reaped by now."""
        if self._waiting is not None and self._waiting.poll() is not None:
            self._waiting = None
        return self._waiting is None

    def end(self) -> None:
        """Kill it unless it has begun, and wait for its end, for a bounded time. May be called again.

        Not for an event loop.
        """
        self.kill()
        if self._waiting is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._waiting.wait(END_LIMIT_S)
                self._waiting = None


def start(plan: ControlPlan) -> EarlyControl:
    """Start one. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs:
            popen = subprocess.Popen(
                [sys.executable, "-P", "-m", PROGRAM, str(theirs.fileno()), *plan.words],
                env=dict(plan.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
    except OSError:
        ours.close()
        raise
    return EarlyControl(plan, popen, ours)


def is_worth_it(with_fork_server: bool) -> bool:
    """Whether there are processors for it: beside a fork server, whose imports take longest, two are too few."""
    return not with_fork_server or len(os.sched_getaffinity(0)) > 2
