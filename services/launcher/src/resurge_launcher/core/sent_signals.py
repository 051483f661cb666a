"""Signals on their way to workers: those that end them, and those that are only passed on. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant


@dataclass(frozen=True, slots=True)
class SignalWorkers:
    """Send a signal that ends to the process groups of the generation's living workers; one that is still to be
    started is not wanted any more, and the answer to it is SpawnFailed."""

    generation: Generation
    signal: int


@dataclass(frozen=True, slots=True)
class PassOn:
    """Send a signal that ends nothing to the generation's workers, to each as soon as it would not end it."""

    generation: Generation
    signal: int


@dataclass(frozen=True, slots=True)
class KeptSignal:
    """One to be passed on that came while no worker ran."""

    signal: int
    at: Instant
