"""Faults for real processes, by pid only, and questions about them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from resurge_libs.testing.wait import wait_until


def kill(pid: int) -> None:
    """SIGKILL: the process cannot answer."""
    os.kill(pid, signal.SIGKILL)


def terminate(pid: int) -> None:
    """SIGTERM."""
    os.kill(pid, signal.SIGTERM)


def segfault(pid: int) -> None:
    """SIGSEGV, as a broken native library ends."""
    os.kill(pid, signal.SIGSEGV)


def stop(pid: int) -> None:
    """SIGSTOP, and wait until the process stands still."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) in ("T", "t", "Z", ""), what=f"process {pid} stopped")


def cont(pid: int) -> None:
    """SIGCONT."""
    os.kill(pid, signal.SIGCONT)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process stands still inside the block and goes on after it."""
    stop(pid)
    try:
        yield
    finally:
        if is_alive(pid):
            cont(pid)


def state_of(pid: int) -> str:
    """The kernel's one-letter state (R, S, D, T, Z); empty if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    return state_of(pid) not in ("", "Z", "X")


def children_of(pid: int) -> tuple[int, ...]:
    """The direct children of a process."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and _parent_of(int(name)) == pid:
            found.append(int(name))
    return tuple(sorted(found))


def descendants_of(pid: int) -> tuple[int, ...]:
    """All children, their children, and so on."""
    found: list[int] = []
    for child in children_of(pid):
        found += [child, *descendants_of(child)]
    return tuple(found)


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
