"""The memory of this node's GPUs as the launcher sees it: asked for, answered within a limit, whatever the driver does.

A child asks the driver (resurge_libs.gpu_probe); it is started where there is time. One that does not answer in time is
killed, for a driver that hangs takes its caller along. Everything happens in the event loop; nothing here waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from resurge_launcher.core.reclaim import GpuHolder, GpuReading, Reclaim, ReclaimStatus, sentence
from resurge_libs.gpu_probe.answer import BadAnswer, GpuMemory, decode
from resurge_libs.obs import log

LOOK_LIMIT_S = 5.0
"""For one answer. The first look opens the library, which takes a second on a large machine."""
ANSWER_BYTES = 65_536
LAST_WAIT_S = 0.1

Then = Callable[[tuple[GpuReading, ...], str], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The look that waits for its answer."""

    number: int
    then: Then
    timer: asyncio.TimerHandle


class GpuMemoryReader:
    """Asks again and again; `prepare` it where there is time. One look at a time."""

    def __init__(
        self, python: str, visible: str | None, environ: Mapping[str, str], limit_s: float = LOOK_LIMIT_S
    ) -> None:
        which = [] if visible is None else [visible]
        self._command = [python, "-I", "-m", "resurge_libs.gpu_probe", "memory", *which]
        self._environ, self._limit_s = environ, limit_s
        self._loop = asyncio.get_running_loop()
        self._child: subprocess.Popen[bytes] | None = None
        self._dying: list[subprocess.Popen[bytes]] = []
        self._asked: _Asked | None = None
        self._number = 0
        self._heard = b""

    @property
    def pids(self) -> set[int]:
        """Its processes: they are no workers."""
        return {child.pid for child in (*self._dying, *((self._child,) if self._child is not None else ()))}

    def prepare(self) -> None:
        """Have a child ready, unless an earlier one cannot die: it hangs, and so would the next."""
        self._dying = [child for child in self._dying if child.poll() is None]
        if self._child is not None and self._child.poll() is not None:
            self._end_child()  # somebody else ended it
        if self._child is not None or self._dying:
            return
        try:
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(self._environ),
                start_new_session=True,
            )
        except OSError as error:
            log.event("gpu_probe_failed", sentence=f"it cannot be started: {error.strerror or error}")
            return
        assert child.stdin is not None and child.stdout is not None
        os.set_blocking(child.stdin.fileno(), False)
        os.set_blocking(child.stdout.fileno(), False)
        self._child, self._heard = child, b""
        self._loop.add_reader(child.stdout, self._answered)

    def look(self, then: Then) -> None:
        """Ask; `then` gets the GPUs, or why there are none, at the limit at the latest. A look before it is dropped."""
        if self._asked is not None:
            self._asked.timer.cancel()
            self._asked = None
        self.prepare()
        if self._child is None:
            why = "the driver hangs still" if self._dying else "the probe cannot be started"
            self._loop.call_soon(then, (), why)
            return
        self._number += 1
        timer = self._loop.call_later(
            self._limit_s, self._drop, f"the driver did not answer within {self._limit_s:g} s"
        )
        self._asked = _Asked(self._number, then, timer)
        assert self._child.stdin is not None
        try:
            os.write(self._child.stdin.fileno(), b"%d\n" % self._number)
        except OSError:  # it ended; nobody noticed yet
            self._drop("the probe ended")

    def close(self) -> None:
        """End the child; a look that waits is not answered any more."""
        if self._asked is not None:
            self._asked.timer.cancel()
            self._asked = None
        self._end_child()
        for child in self._dying:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(LAST_WAIT_S)

    def _answered(self) -> None:
        assert self._child is not None and self._child.stdout is not None
        try:
            data = os.read(self._child.stdout.fileno(), ANSWER_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._drop("the probe ended")
            return
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._told(line.decode("utf-8", errors="replace"))

    def _told(self, line: str) -> None:
        try:
            answer = decode(line)
        except BadAnswer as bad:
            self._drop(str(bad))
            return
        asked = self._asked
        if asked is None or asked.number != answer.look:
            return
        asked.timer.cancel()
        self._asked = None
        asked.then(tuple(_reading(gpu) for gpu in answer.gpus), answer.problem)

    def _drop(self, why: str) -> None:
        """Answer the one that waits, and end the child."""
        asked, self._asked = self._asked, None
        self._end_child()
        if asked is not None:
            asked.timer.cancel()
            asked.then((), why)

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None and child.stdout is not None
        self._loop.remove_reader(child.stdout)
        with contextlib.suppress(OSError):
            child.stdin.close()
        child.stdout.close()
        child.kill()
        if child.poll() is None:
            self._dying.append(child)


def _reading(gpu: GpuMemory) -> GpuReading:
    holders = tuple(GpuHolder(one.pid, one.used_mb, one.name, one.state) for one in gpu.holders)
    return GpuReading(gpu.uuid, gpu.index, gpu.used_mb, gpu.total_mb, gpu.reserved_mb, gpu.problem, holders)


def tell(reclaim: Reclaim) -> None:
    """Write how the wait ended: one line for each GPU, and an error where it was in vain."""
    ended_at = reclaim.ended_at if reclaim.ended_at is not None else reclaim.began_at
    for gpu in reclaim.gpus:
        log.event("gpu_memory", gpu=gpu.now.uuid, status=gpu.status, sentence=sentence(gpu))
    took_s = round(ended_at - reclaim.began_at, 3)
    match reclaim.status:
        case ReclaimStatus.RECLAIMED | ReclaimStatus.PENDING:
            log.event("gpu_memory_reclaimed", generation=reclaim.generation, after_s=took_s)
        case ReclaimStatus.TIMEOUT:
            stuck = [gpu.now.uuid for gpu in reclaim.gpus if gpu.status is ReclaimStatus.TIMEOUT]
            why = f"{reclaim.problem or 'memory is still held: ' + ', '.join(stuck)}; the restart goes on all the same"
            log.event("gpu_memory_error", generation=reclaim.generation, after_s=took_s, sentence=why)
        case ReclaimStatus.UNKNOWN:
            why = f"it cannot be known: {reclaim.problem}; the restart goes on"
            log.event("gpu_memory_unknown", generation=reclaim.generation, after_s=took_s, sentence=why)
