"""The signals that a launcher does something about, from its start until its process is gone.

Not by the event loop's own handlers: closing the loop gives them back their default action, and a signal that comes
while the interpreter is taken apart would then become the exit code, on whichever thread the kernel finds.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from types import FrameType


class Signals:
    """Hears signals in the main thread and hands them to a loop."""

    def __init__(self, numbers: Iterable[int], heard: Callable[[int], None]) -> None:
        self._numbers = tuple(numbers)
        self._heard = heard

    def hear(self) -> None:
        """Begin. `heard` is called between two instructions of the main thread, so it must only wake a loop."""
        for number in self._numbers:
            signal.signal(number, self._caught)

    def ignore(self) -> None:
        """The exit code is decided: nothing may change it any more."""
        for number in self._numbers:
            signal.signal(number, signal.SIG_IGN)

    def _caught(self, number: int, _frame: FrameType | None) -> None:
        self._heard(number)
