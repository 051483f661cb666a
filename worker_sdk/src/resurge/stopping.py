"""Whether this worker is to stop now: the answer that all ranks of a job get at the same step.

Decides from three facts: the step that the worker has committed, the border at which its launcher holds it, and the
border at which it is told to stop. Borders are steps; a launcher holds all its ranks at one before anybody is told, so
that no rank passes it while another stops there. Effects: the page's cells; waits at a held border only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from resurge.page import STOP_AT_ONCE, Cell

STOP_WAIT_S = 60.0
"""At a held border: longer than a launcher takes to decide alone. One that stands still has no say any more."""
STOP_LOOK_S = 0.002
_NS_PER_S = 1_000_000_000

# Plain numbers, as in worker_session.py: this is asked once per step.
_SHOULD_STOP, _HELD = int(Cell.SHOULD_STOP), int(Cell.STOP_HELD)
_COMMITTED_STEP = int(Cell.COMMITTED_STEP)
_ASKED_COUNT, _ASKED_STEP = int(Cell.STOP_ASKED_COUNT), int(Cell.STOP_ASKED_STEP)
_WAITS, _TOLD_NS = int(Cell.STOP_WAITS), int(Cell.STOP_TOLD_NS)


class StopQuestion:
    """Asks the page; once it was told to stop it says so for ever."""

    def __init__(self) -> None:
        self._count = 0
        self._told = False

    def ask(self, cells: Any, waiting: Callable[[], AbstractContextManager[None]]) -> bool:
        """Whether to stop at the step committed last. What `waiting` gives is entered to wait at a held border."""
        if self._told:
            return True
        step = cells[_COMMITTED_STEP]
        cells[_ASKED_STEP] = step  # before the borders are read: the launcher writes them and then reads this
        self._count += 1
        cells[_ASKED_COUNT] = self._count
        if not cells[_SHOULD_STOP] and not cells[_HELD]:
            return False
        self._told = self._answered(cells, step, waiting)
        if self._told:
            cells[_TOLD_NS] = time.monotonic_ns()
        return self._told

    def _answered(self, cells: Any, step: int, waiting: Callable[[], AbstractContextManager[None]]) -> bool:
        answer = _answer(cells, step)
        if answer is not None:
            return answer
        cells[_WAITS] = 1
        until_ns = time.monotonic_ns() + int(STOP_WAIT_S * _NS_PER_S)
        with waiting():
            while (answer := _answer(cells, step)) is None and time.monotonic_ns() < until_ns:
                time.sleep(STOP_LOOK_S)
        cells[_WAITS] = 0
        return answer is not False  # a launcher that says nothing for so long had begun to end the job


def _answer(cells: Any, step: int) -> bool | None:
    """True to stop, False to go on, None to wait at a held border. Steps and borders are stored plus one."""
    should_stop = cells[_SHOULD_STOP]
    if should_stop:
        return bool(should_stop == STOP_AT_ONCE or step >= should_stop)
    held = cells[_HELD]
    return None if held and step >= held else False
