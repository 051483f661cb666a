"""Where the unfinished nodes of a generation that is drained could stop, counted by step: a node's news changes its own
share only, so that ten thousand that answer cost ten thousand looks. Values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from resurge_libs.core.ids import Generation
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.values import Draining


def border_of(said: Draining) -> int:
    """The latest step that a node names."""
    return max(said.offer or 0, said.held or 0)


@dataclass(frozen=True, slots=True)
class StepCounts:
    """How many of the nodes that have offered name which step; steps that nobody names are left out."""

    generation: Generation
    borders: Mapping[int, int] = field(default_factory=dict)
    """By the latest step that a node names. Ranks step together: there are few."""
    held: Mapping[int, int] = field(default_factory=dict)
    """By the step at which a node holds its ranks."""

    @property
    def highest(self) -> int:
        """The latest step that any of them names; 0 where none does."""
        return max(self.borders, default=0)

    def holding(self, step: int) -> int:
        """How many hold their ranks at this step."""
        return self.held.get(step, 0)

    def changed(self, was: Draining | None, now: Draining | None) -> StepCounts:
        """The counts once a node says this instead of that; None: no offer."""
        borders, held = dict(self.borders), dict(self.held)
        for said, by in ((was, -1), (now, 1)):
            if said is not None:
                _add(borders, border_of(said), by)
                if said.held is not None:
                    _add(held, said.held, by)
        return StepCounts(self.generation, borders, held)


def counted(generation: Generation, offers: ShardMap[Draining]) -> StepCounts:
    """The counts of all offers."""
    borders: dict[int, int] = {}
    held: dict[int, int] = {}
    for said in offers.values():
        _add(borders, border_of(said), 1)
        if said.held is not None:
            _add(held, said.held, 1)
    return StepCounts(generation, borders, held)


def _add(counts: dict[int, int], step: int, by: int) -> None:
    count = counts.get(step, 0) + by
    if count:
        counts[step] = count
    else:
        counts.pop(step, None)
