"""More faults for the hunt (mutants.py): in the guards of the way to rendezvous, of leases, and of the launcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from resurge_launcher.core import crew, pursue, teardown, ways
from resurge_rendezvous.core import hello, sweeps
from resurge_rendezvous.relay.batch import UpBatch

Function = Callable[..., Any]


@dataclass(frozen=True)
class Mutant:
    """One fault: the function it replaces, and by what, given the right one."""

    name: str
    module: Any
    function: str
    make: Callable[[Function], Function]


def nothing(right: Function) -> Function:
    return lambda *args, **named: None


def always(answer: Any) -> Callable[[Function], Function]:
    return lambda right: lambda *args, **named: answer


def _torn_down_again(right: Function) -> Function:
    return lambda state, phase, *rest: right(state, replace(phase, generation=phase.generation - 1), *rest)


def _never_climbs(right: Function) -> Function:
    return lambda before, now: (before, ())


def _only_news(right: Function) -> Function:
    return lambda self, link, words: right(self, link, replace(words, beat=None))


GUARDS: tuple[Mutant, ...] = (
    # the way to rendezvous
    Mutant("a launcher never turns to the next way", ways.Ways, "failed", lambda right: lambda self, problem: self),
    Mutant("a relay passes no beats on", UpBatch, "say", _only_news),
    # leases
    Mutant("leases never end", sweeps, "overdue", always([])),
    Mutant("the predecessor on another host is not waited for", hello, "_predecessor_until", nothing),
    # the launcher's own
    Mutant("a generation torn down here is started again", pursue, "_from_ready", _torn_down_again),
    Mutant("TERM is never followed by KILL", teardown, "climb", _never_climbs),
    Mutant("a worker that hangs is not seen", crew, "hung", nothing),
)
