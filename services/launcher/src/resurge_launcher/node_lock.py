"""One launcher per (job, node) on this machine: a lock that the kernel frees when its holder ends.

The lock's file also carries what must rise over launchers of the node: the incarnation and the highest generation seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from resurge_launcher.processes import kernel
from resurge_libs.obs import log

POLL_S = 0.02
FILE_NAME = "launcher.lock"


class NodeTaken(Exception):
    """Another launcher of this node lives on this machine: exit 2, or take over."""

    def __init__(self, path: Path, holder: NodeMemory) -> None:
        super().__init__(
            f"node {holder.node_id!r} is held by launcher pid {holder.pid} (lock {path}); "
            "end that launcher, give this one another --node-id, or take over with --take-over, which "
            "kills it and costs the job a restart"
        )


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What one launcher of a node leaves to the next."""

    node_id: str = ""
    pid: int = 0
    incarnation: int = 0
    highest_generation: int = 0
    highest_attempt: int = 0
    process: str = ""
    """The launcher's process by the name that no later one of its number can have."""
    pid_namespace: int = 0
    """In which the number means that process; 0 where the kernel does not tell."""


class NodeLock:
    """The held lock."""

    def __init__(self, path: Path, descriptor: int, memory: NodeMemory) -> None:
        self._path = path
        self._descriptor = descriptor
        self.memory = memory

    @classmethod
    def take(cls, run_dir: Path, node_id: str, take_over_limit_s: float | None) -> NodeLock:
        """Take it; with a limit, end its holder first. Raises NodeTaken, OSError."""
        path = run_dir / FILE_NAME
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if not _locked(descriptor):
                holder = _read(descriptor)
                if take_over_limit_s is None or not _end(holder, descriptor, take_over_limit_s):
                    raise NodeTaken(path, holder)
            before = _read(descriptor)
            # the wall clock keeps it rising where the file was lost, for example over containers
            incarnation = max(before.incarnation + 1, time.time_ns() // 1000)
            pid = os.getpid()
            memory = replace(
                before,
                node_id=node_id,
                pid=pid,
                incarnation=incarnation,
                process=kernel.process_name(pid),
                pid_namespace=kernel.pid_namespace(),
            )
            lock = cls(path, descriptor, memory)
            lock.remember(memory)
        except BaseException:
            os.close(descriptor)
            raise
        return lock

    def remember(self, memory: NodeMemory) -> None:
        """Write what the next launcher must know."""
        self.memory = memory
        text = json.dumps(asdict(memory)).encode().ljust(512)
        os.pwrite(self._descriptor, text, 0)

    def release(self) -> None:
        """Let the node go. The file stays: removing it would let two launchers hold two files of one name."""
        os.close(self._descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(descriptor: int) -> NodeMemory:
    """What the last launcher wrote; nothing where that is unreadable, which costs no safety: rendezvous knows more."""
    with contextlib.suppress(ValueError, TypeError, OSError, RecursionError):
        found = NodeMemory(**json.loads(os.pread(descriptor, 4096, 0)))
        if all(type(getattr(found, item.name)) is type(item.default) for item in fields(NodeMemory)):
            return found
    return NodeMemory()


def _end(holder: NodeMemory, descriptor: int, limit_s: float) -> bool:
    """Kill the holder; True once the lock is ours. Its workers die with it, and to the job it is a node that comes
    back: TERM would give the job notice that the node is to be left. Only waits where it cannot be named for sure: the
    file may be of another pid namespace, or its number may mean a later process by now."""
    pidfd = _pidfd_of(holder)
    if pidfd is None:
        return _wait(descriptor, limit_s)
    try:
        sentence = (
            f"launcher pid {holder.pid} of node {holder.node_id!r} is killed, and its workers with it: a running job "
            "is started again, which costs it a restart, and fails where --max-restarts leaves none"
        )
        log.event("node_taken_over", pid=holder.pid, sentence=sentence)
        kernel.send(pidfd, signal.SIGKILL)
        return _wait(descriptor, limit_s)
    finally:
        os.close(pidfd)


def _pidfd_of(holder: NodeMemory) -> int | None:
    if holder.pid <= 0 or holder.pid_namespace != kernel.pid_namespace():
        return None
    pidfd = kernel.open_pidfd(holder.pid)
    # looked at after the number was pinned: from here on both mean one process
    if pidfd is not None and kernel.process_name(holder.pid) != holder.process:
        os.close(pidfd)
        return None
    return pidfd


def _wait(descriptor: int, limit_s: float) -> bool:
    give_up_at = time.monotonic() + limit_s
    while not _locked(descriptor):
        if time.monotonic() > give_up_at:
            return False
        time.sleep(POLL_S)
    return True
