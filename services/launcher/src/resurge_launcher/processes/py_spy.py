"""Asks py-spy for a worker's stacks where it is installed, within a limit, whatever disks and the kernel do with it.

A shell looks for the program and becomes it: a PATH on a file system that hangs costs a child its time, never the
launcher. A child that cannot be killed is left to a thread that ends with the launcher, and nobody is asked until it is
gone. Effects: child processes, daemon threads; call it in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Callable

OUTPUT_LIMIT_BYTES = 256 * 1024
NOT_FOUND = 127
"""The shell's word for a program that is nowhere in PATH."""
_COMMAND = ("/bin/sh", "-c", 'exec py-spy dump --nonblocking --pid "$1"', "py-spy")


class PySpy:
    """The children that were asked, of one launcher."""

    def __init__(self) -> None:
        self._children: set[int] = set()
        self._overdue: set[int] = set()
        self._is_missing = False

    @property
    def pids(self) -> set[int]:
        """Its processes: they are no workers."""
        return set(self._children)

    async def dump(self, pid: int, limit_s: float) -> str:
        """The stacks of a process; empty where py-spy is missing, fails, or does not answer in time."""
        if limit_s <= 0 or self._is_missing or self._overdue:
            return ""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        child = _started(pid)
        if child is None:
            return ""
        self._children.add(child.pid)

        def tell(output: bytes) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._ended, child, answer, output)

        threading.Thread(target=_read, args=(child, limit_s, tell), name="py-spy", daemon=True).start()
        try:
            return await asyncio.wait_for(answer, limit_s)
        except TimeoutError:
            if child.pid in self._children:
                self._overdue.add(child.pid)
            return ""

    def _ended(self, child: subprocess.Popen[bytes], answer: asyncio.Future[str], output: bytes) -> None:
        self._children.discard(child.pid)
        self._overdue.discard(child.pid)
        self._is_missing = self._is_missing or child.returncode == NOT_FOUND
        if not answer.done():
            answer.set_result(output[:OUTPUT_LIMIT_BYTES].decode(errors="replace"))


def _started(pid: int) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            [*_COMMAND, str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


def _read(child: subprocess.Popen[bytes], limit_s: float, tell: Callable[[bytes], None]) -> None:
    """On a thread of its own: until the child is gone, which may be never."""
    try:
        output, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        output = b""
    tell(output)
