"""What the kernel says about processes, and the few calls that Python does not wrap. Looks; changes nothing else.

Everything under /proc may vanish while it is read: what is gone is answered as gone, never raised.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PF_EXITING = 0x4
"""In the flags of a thread that runs no code of its own any more, from before its memory is freed."""
STAT_BYTES = 4096
HARMLESS = frozenset({signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH})
"""Nobody ends, or stands still, by these."""
_PROC = Path("/proc")


def become_subreaper() -> None:
    """Orphans among this process's descendants become its children. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended: exactly one of the two is set."""

    exit_code: int | None = None
    signal: int | None = None


def reap(pidfd: int) -> ExitStatus | None:
    """Reap the child behind a pidfd; None while it lives. Raises ChildProcessError for what is not our child."""
    found = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    return None if found is None else _status(found)


def reap_pid(pid: int) -> ExitStatus | None:
    """As `reap`, by pid; for children that were adopted as orphans. None also where it is not ours any more."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    return None if found is None else _status(found)


def _status(found: os.waitid_result) -> ExitStatus:
    if found.si_code == os.CLD_EXITED:
        return ExitStatus(exit_code=found.si_status)
    return ExitStatus(signal=found.si_status)


def end_of(pid: int) -> ExitStatus | None:
    """How a process ends that the kernel is still taking apart; None while it lives, and when it is gone.

    The status of one whose end this user may not see reads as 0, and so does that of a main thread that ended alone.
    """
    fields = _stat_fields(pid)
    if fields is None or not int(fields[6]) & PF_EXITING:
        return None
    code = os.waitstatus_to_exitcode(int(fields[49]))
    return ExitStatus(exit_code=code) if code >= 0 else ExitStatus(signal=-code)


def open_pidfd(pid: int) -> int | None:
    """A handle that means this process and no later one of the same number; None when it is gone."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def pid_of(pidfd: int) -> int:
    """The pid of the process behind a pidfd; not positive once it is reaped."""
    text = (_PROC / "self" / "fdinfo" / str(pidfd)).read_text()
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pid:")), 0)


def send(pidfd: int, number: int) -> None:
    """Signal the process behind a pidfd; one that is gone, or has become another user's, is no error.

    Whoever waits for its end sees that it lives on: a teardown that cannot end it is stuck.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, number)


def children_of(pid: int) -> tuple[int, ...]:
    """Direct children, zombies included."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(_PROC / str(pid) / "task"):
            with contextlib.suppress(OSError):
                text = (_PROC / str(pid) / "task" / task / "children").read_bytes()
                found += (int(word) for word in text.split())
    return tuple(found)


def descendants_of(pid: int) -> tuple[int, ...]:
    """Children, their children, and so on."""
    found: list[int] = []
    waiting = list(children_of(pid))
    while waiting:
        child = waiting.pop()
        if child not in found:
            found.append(child)
            waiting += children_of(child)
    return tuple(found)


def all_pids() -> Iterator[int]:
    """Every process that this one may see."""
    return (int(name) for name in os.listdir(_PROC) if name.isdecimal())


def environ_of(pid: int) -> bytes:
    """The environment a process was started with, as NUL-ended pairs; empty for zombies and for other users' ones."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Who a process is right now; `started` with the pid names it for good."""

    state: str
    parent: int
    started: int

    @property
    def is_over(self) -> bool:
        """Whether it runs no code any more."""
        return self.state in ("Z", "X")

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger holds it."""
        return self.state in ("T", "t")

    @property
    def is_stopped_by_signal(self) -> bool:
        """Whether it waits for SIGCONT: what a debugger holds does not."""
        return self.state == "T"

    @property
    def is_running(self) -> bool:
        """Whether its main thread runs, or would if a processor were free."""
        return self.state == "R"

    @property
    def waits_for_device(self) -> bool:
        """Whether it is in uninterruptible sleep, as during a flush to a disk."""
        return self.state == "D"


def stat_of(pid: int) -> ProcessStat | None:
    """None when it is gone."""
    fields = _stat_fields(pid)
    return None if fields is None else ProcessStat(fields[0].decode(), int(fields[1]), int(fields[19]))


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal: without one it might end by it."""
    return _is_in_mask(pid, number, b"SigCgt:")


def outlives(pid: int, number: int) -> bool:
    """Whether the process handles, ignores or blocks the signal, or it is one that ends nobody."""
    return number in HARMLESS or _is_in_mask(pid, number, b"SigCgt:", b"SigIgn:", b"SigBlk:")


def _is_in_mask(pid: int, number: int, *names: bytes) -> bool:
    try:
        text = (_PROC / str(pid) / "status").read_bytes()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in text.splitlines() if line.startswith(names)]
    return any(mask >> (number - 1) & 1 for mask in masks)


def written_bytes_of(pid: int) -> int:
    """How much it has handed to the kernel to be written; 0 where that may not be read."""
    try:
        text = (_PROC / str(pid) / "io").read_bytes()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(b"wchar:")), 0)


def _stat_fields(pid: int) -> list[bytes] | None:
    """The fields of its stat file from the third on; the second, its name, may hold anything."""
    try:
        # by hand, for a death waits for it: one read gives the whole of it
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(descriptor, STAT_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return text[text.rindex(b")") + 2 :].split()


def process_name(pid: int) -> str:
    """A name for a living process that no later one of the same number can have; empty when it is gone."""
    stat = stat_of(pid)
    return f"{pid}:{stat.started}" if stat is not None and not stat.is_over else ""


def pid_namespace() -> int:
    """A number for the namespace in which this process's pids mean something; 0 where the kernel does not tell."""
    try:
        return (_PROC / "self" / "ns" / "pid").stat().st_ino
    except OSError:
        return 0


def parent_of(pid: int) -> int:
    """Parent's pid; 0 when it is gone."""
    stat = stat_of(pid)
    return stat.parent if stat is not None else 0


def ancestors_of(pid: int) -> tuple[int, ...]:
    """Parent, grandparent, and so on."""
    found: list[int] = []
    while (pid := parent_of(pid)) > 1 and pid not in found:
        found.append(pid)
    return tuple(found)


def oom_kills() -> int:
    """How often the kernel has killed for want of memory, on this machine and in this cgroup."""
    total = 0
    for path in (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events")):
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    total += int(value)
    return total
