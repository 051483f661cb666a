"""Who uses a state directory now: the process that claims it, and whether it serves somebody else."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.probe import answers
from resurge_libs.rpc.endpoint import BadEndpoint, Endpoint, parse_endpoint
from resurge_libs.rpc.records import CLAIM_NAME, CONTROL_NAME, read_job

ENDED_LIMIT_S = 10.0
"""The control plane of a job that is over ends by itself, and is waited for so long."""


def claimant(state_dir: Path) -> int:
    """The process that claims the directory; 0: none, -1: one that has not said its number."""
    try:
        descriptor = os.open(state_dir / CLAIM_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdecimal() else -1
    finally:
        os.close(descriptor)
    return 0


class AnothersUse:
    """Looks whether a state directory is served at an address other than ours, where nobody answers."""

    def __init__(self, state_dir: Path, listen: Endpoint, now_s: Callable[[], float] = time.monotonic) -> None:
        self._state_dir, self._listen, self._now_s = state_dir, listen, now_s
        self._ended_since_s: float | None = None

    def look(self) -> str:
        """What is to be said of it; empty where there is nothing, or it may be over soon. Blocks as `answers` does."""
        pid = claimant(self._state_dir)
        elsewhere = self._served_at(pid) if pid > 0 else None
        if elsewhere is None or answers(self._listen) or claimant(self._state_dir) != pid:
            self._ended_since_s = None
            return ""
        job = self._job()
        if job is not None and job.phase == rendezvous_pb2.JOB_PHASE_ENDED and not self._is_overdue():
            return ""
        of_job = f", the control plane of job {job.spec.job_id!r} at {elsewhere}" if job is not None else ""
        return (
            f"--state-dir: {self._state_dir} is in use by process {pid}{of_job}; give another --state-dir, end that "
            f"process, or, for one more node of that job, name its control plane with --rdzv-endpoint"
        )

    def _is_overdue(self) -> bool:
        if self._ended_since_s is None:
            self._ended_since_s = self._now_s()
        return self._now_s() - self._ended_since_s >= ENDED_LIMIT_S

    def _served_at(self, pid: int) -> Endpoint | None:
        """The address that this process announced, where it cannot be ours."""
        try:
            told = json.loads((self._state_dir / CONTROL_NAME).read_text(encoding="utf-8"))
            found = parse_endpoint(str(told["endpoint"]))
            if told["pid"] != pid:
                return None
        except (OSError, ValueError, KeyError, TypeError, BadEndpoint):  # not announced yet, or not ours to understand
            return None
        # one host has many names, so that of two ports only the number tells them apart
        is_same = found.path == self._listen.path if found.is_unix else found.port == self._listen.port
        return None if is_same else found

    def _job(self) -> rendezvous_pb2.Job | None:
        try:
            job = read_job(self._state_dir)
        except OSError:
            return None
        return job if job is not None and job.spec.job_id else None
