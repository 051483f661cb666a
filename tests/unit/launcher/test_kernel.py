"""What the kernel tells of processes, and signals to those of other users, as a worker's `sudo` leaves them."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from resurge_launcher.processes import kernel
from resurge_launcher.processes.worker import WorkerProcess


def _forbidden(*_args: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_process_of_another_user_is_left_alone_and_harms_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(signal, "pidfd_send_signal", _forbidden)
    kernel.send(0, signal.SIGKILL)


def test_a_group_of_another_user_is_left_alone_and_harms_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "killpg", _forbidden)
    WorkerProcess.adopt(os.getpid(), -1).signal_group(signal.SIGKILL)


def test_the_pid_behind_a_handle_is_told_until_the_process_is_reaped():
    with subprocess.Popen(["sleep", "60"]) as child:
        pidfd = os.pidfd_open(child.pid)
        try:
            assert kernel.pid_of(pidfd) == child.pid
            child.kill()
            child.wait(10)
            assert kernel.pid_of(pidfd) <= 0
        finally:
            os.close(pidfd)
