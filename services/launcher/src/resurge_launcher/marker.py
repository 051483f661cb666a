"""The checkpoint marker as the launcher sees it: asked for, answered within a limit, whatever the file system does.

A child of its own reads the file (processes/marker_program.py); it is started ahead of need, for a restart leaves no
time for it. One that does not answer in time is killed; while it cannot die, further looks are answered at once.
Everything happens in the event loop; nothing here waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from resurge_libs.core.progress import MAX_ITERATION, MarkerReading
from resurge_libs.obs import log

PROGRAM = Path(__file__).with_name("processes") / "marker_program.py"
REVIVE_S = 1.0
"""So long after a look was given up the next child is started, if the last one could be ended."""
ANSWER_BYTES = 4_096
LAST_WAIT_S = 0.1

Then = Callable[[MarkerReading], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """One look that waits for its answer."""

    then: Then
    timer: asyncio.TimerHandle


class MarkerReader:
    """Reads one file, many times. `start` it where there is time."""

    def __init__(self, path: Path, limit_s: float, python: str, environ: Mapping[str, str]) -> None:
        self._path, self._limit_s, self._python, self._environ = path, limit_s, python, environ
        self._loop = asyncio.get_running_loop()
        self._child: subprocess.Popen[bytes] | None = None
        self._dying: list[subprocess.Popen[bytes]] = []
        self._asked: dict[int, _Asked] = {}
        self._number = 0
        self._heard = b""
        self._said = ""
        self._revival: asyncio.TimerHandle | None = None

    @property
    def pids(self) -> set[int]:
        """Its processes: they are no workers."""
        children = [*self._dying, *([self._child] if self._child is not None else [])]
        return {child.pid for child in children}

    def start(self) -> None:
        """Have a child ready, unless an earlier one cannot die: it hangs, and so would the next."""
        self._revival = None
        self._dying = [child for child in self._dying if child.poll() is None]
        if self._child is not None or self._dying:
            return
        try:
            child = subprocess.Popen(
                [self._python, "-I", "-S", str(PROGRAM), str(self._path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(self._environ),
                start_new_session=True,
            )
        except OSError as error:
            self._say(f"no process to read it can be started: {error.strerror or error}")
            return
        assert child.stdin is not None and child.stdout is not None
        os.set_blocking(child.stdin.fileno(), False)
        os.set_blocking(child.stdout.fileno(), False)
        self._child, self._heard = child, b""
        self._loop.add_reader(child.stdout, self._answered)

    def look(self, then: Then) -> None:
        """Read the file; `then` gets the reading, or why there is none, at the limit at the latest."""
        self.start()
        if self._child is None:
            why = "hangs still" if self._dying else "could not be looked at"
            self._loop.call_soon(self._give, then, MarkerReading(skipped=f"{self._path} {why}"))
            return
        self._number += 1
        timer = self._loop.call_later(self._limit_s, self._late, self._number)
        self._asked[self._number] = _Asked(then, timer)
        assert self._child.stdin is not None
        try:
            os.write(self._child.stdin.fileno(), b"%d\n" % self._number)
        except OSError:  # it ended; nobody noticed yet
            self._drop("could not be looked at: the process that reads it ended")

    def close(self) -> None:
        """End the child; a look that waits is not answered any more."""
        for asked in self._asked.values():
            asked.timer.cancel()
        self._asked.clear()
        if self._revival is not None:
            self._revival.cancel()
        self._end_child()
        for child in self._dying:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(LAST_WAIT_S)

    # ------------------------------------------------------------------------------------------------- happenings

    def _answered(self) -> None:
        assert self._child is not None and self._child.stdout is not None
        try:
            data = os.read(self._child.stdout.fileno(), ANSWER_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._drop("could not be looked at: the process that reads it ended")
            return
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._told(line.decode("utf-8", errors="replace"))

    def _told(self, line: str) -> None:
        number, _, rest = line.partition("\t")
        value, _, why = rest.partition("\t")
        asked = self._asked.pop(int(number), None) if number.isdecimal() else None
        if asked is None:
            return
        asked.timer.cancel()
        if value.isdecimal() and int(value) <= MAX_ITERATION:
            self._give(asked.then, MarkerReading(int(value)))
        else:
            self._give(asked.then, MarkerReading(skipped=f"{self._path} {why or 'gave no answer'}"))

    def _late(self, number: int) -> None:
        if number in self._asked:
            self._drop(f"was not read within {self._limit_s:g} s: its file system hangs, or this machine is too busy")

    def _drop(self, why: str) -> None:
        """Answer all that wait, and end the child."""
        asked, self._asked = self._asked, {}
        self._end_child()
        for one in asked.values():
            one.timer.cancel()
            self._give(one.then, MarkerReading(skipped=f"{self._path} {why}"))
        if self._revival is None:
            self._revival = self._loop.call_later(REVIVE_S, self.start)

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

    def _give(self, then: Then, reading: MarkerReading) -> None:
        self._say(reading.skipped)
        then(reading)

    def _say(self, skipped: str) -> None:
        """Why nothing was read is said once, until something is read again."""
        if skipped and not self._said:
            log.event("marker_skipped", sentence=f"{skipped}; such a cycle is not counted")
        self._said = skipped
