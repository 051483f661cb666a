"""The cells of the matrix, what each may take, and what became of one. Values only."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

STRIKES = ("SIGSTOP", "SIGKILL")
OPERATIONS = ("all_reduce", "broadcast_root", "broadcast_leaf", "barrier", "send", "recv")
MOMENTS = ("before", "middle")
PAYLOADS = {"4KiB": 4 * 1024, "256MB": 256 * 1000 * 1000}
SHORT = (
    "SIGSTOP/all_reduce/before/4KiB",
    "SIGSTOP/broadcast_root/middle/4KiB",
    "SIGKILL/recv/before/4KiB",
    "SIGKILL/barrier/middle/4KiB",
)
"""For every run of the suite."""
LIMITS_S = {"4KiB": 1.0, "256MB": 6.0}
"""Of the survivors' guards: an operation that nobody strikes stays far below it, on a busy machine too."""
UNWIND_S = 2.5
"""From a guard's deadline, or a death, to the end of the last process: errors, error files, the grace before KILL."""


@dataclass(frozen=True)
class Cell:
    """Who does what to whom, and when."""

    strike: str
    operation: str
    moment: str
    payload: str

    @classmethod
    def named(cls, name: str) -> Cell:
        """Of `strike/operation/moment/payload`."""
        return cls(*name.split("/"))

    @property
    def name(self) -> str:
        """How it is asked for and told."""
        return f"{self.strike}/{self.operation}/{self.moment}/{self.payload}"

    @property
    def limit_s(self) -> float:
        """Of the guards."""
        return LIMITS_S[self.payload]

    @property
    def bound_s(self) -> float:
        """From the strike to the end of all ranks: a death is known by itself, a freeze when a guard fires."""
        return UNWIND_S + (self.limit_s if self.strike == "SIGSTOP" else 0.0)


def every_cell() -> tuple[Cell, ...]:
    """All of them."""
    return tuple(Cell(*parts) for parts in itertools.product(STRIKES, OPERATIONS, MOMENTS, PAYLOADS))


@dataclass(frozen=True)
class Outcome:
    """One run of a cell."""

    cell: Cell
    took_s: float | None
    """From the strike to the end of the last rank; None where that never came, or nobody was struck."""
    named: int | None
    """The rank that the record blames."""
    why: str = ""

    @property
    def ended_in_time(self) -> bool:
        """Whether everything was over within the cell's bound."""
        return self.took_s is not None and self.took_s <= self.cell.bound_s

    def spare_s(self) -> float:
        """What was left of the cell's bound; infinite where nothing ended."""
        return math.inf if self.took_s is None else self.cell.bound_s - self.took_s

    @property
    def named_right(self) -> bool:
        """Whether the struck rank is blamed."""
        return self.named == VICTIM


VICTIM = 2
WORLD = 3
