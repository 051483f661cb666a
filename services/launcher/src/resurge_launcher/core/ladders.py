"""The two ladders of ending workers, as data. A ladder is a schedule of signals, climbed until all are gone."""

from __future__ import annotations

from dataclasses import dataclass
from signal import SIGKILL, SIGTERM, Signals


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder: so many seconds after its begin, this signal."""

    at_s: float
    signal: Signals


@dataclass(frozen=True, slots=True)
class Ladder:
    """A schedule of signals for workers, climbed until all are gone; what they leave behind then gets `strays`."""

    rungs: tuple[Rung, ...]
    strays: Signals
    aborts: bool = False
    """With the first rung workers are ordered to abort what they wait in: what they wait for is over."""


AT_ONCE = Ladder((Rung(0.0, SIGKILL),), strays=SIGKILL)
"""For those that cannot hear TERM and have nothing to save: hung workers, leftovers of an older launcher."""


def fault_ladder(fault_grace_s: float) -> Ladder:
    """After a fault: a checkpoint that is being written gets `fault_grace_s`, nobody gets more."""
    return Ladder((Rung(0.0, SIGTERM), Rung(fault_grace_s, SIGKILL)), strays=SIGKILL, aborts=True)


def drain_ladder(signal: int, term_timeout_s: float) -> Ladder:
    """When the scheduler ends the job: its own signal is passed on, then workers have the scheduler's grace."""
    return Ladder((Rung(0.0, Signals(signal)), Rung(term_timeout_s, SIGKILL)), strays=SIGTERM)


def finish_ladder(fault_grace_s: float) -> Ladder:
    """When the job succeeded: daemons that workers left behind are asked first."""
    return Ladder((Rung(0.0, SIGTERM), Rung(fault_grace_s, SIGKILL)), strays=SIGTERM)
