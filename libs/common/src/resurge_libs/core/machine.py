"""What a pure decision looks like. Decides nothing itself; the engine runs the effects.

A durable machine keeps its state in two halves: `.durable`, changed only by folding facts with `evolve`,
and `.volatile` (leases, beats, streams), which is never journaled. A replay folds `evolve` over the
journal's facts and must arrive at the live durable half. Instants never enter facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because
from resurge_libs.core.values import quick

S = TypeVar("S")
D = TypeVar("D")


@quick
@dataclass(frozen=True, slots=True)
class Step(Generic[S]):
    """One decision: the new state, what to do, why, and what the journal must remember."""

    state: S
    actions: tuple[Any, ...]
    reason: Because
    facts: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The action that answers whoever asked the event; leaves only after the step is durable."""

    value: Any


class Machine(Protocol[S]):
    """A pure transition function with its timer; see `Durable` for what the journal needs besides."""

    def step(self, state: S, event: Any, now: Instant) -> Step[S]:
        """Decide about one event. Raising means: the event is refused, the state unchanged, nothing stored."""
        ...

    def next_deadline(self, state: S) -> Instant | None:
        """When a tick is wanted next; None for never."""
        ...

    def evolve(self, durable: Any, fact: Any) -> Any:
        """Fold one fact into the durable half; the only way it changes."""
        ...


def fold(machine: Machine[Any], durable: D, facts: tuple[Any, ...]) -> D:
    """The durable half after the given facts, in order."""
    for fact in facts:
        durable = machine.evolve(durable, fact)
    return durable
