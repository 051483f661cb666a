"""Ranks given by topology: a lost one's place is taken by the nearest that may. Pure: every rank computes the same.

Rules, in prose:
1. Layers are given from the outermost to the innermost (rack, host); a domain is all ranks that have the keys of a
   layer and of those around it in common.
2. A domain with fewer than `min_ranks` living ranks runs nothing; its ranks count in none of the domains around it.
   No domain runs more than `max_ranks`: its others are in reserve.
3. A gap is filled from the innermost domain outwards. In a RESERVE layer the first rank of the domain that is in
   reserve takes the place, and all others keep theirs. In a BACKFILL layer the last rank of the domain that runs does,
   and the gap that it leaves is filled from further out.
4. What no layer fills is closed: those after it move up. What is over the multiple asked for goes into reserve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from resurge.inprocess.assignment import Order

Domain = tuple[Hashable, ...]


class Fill(Enum):
    """Who takes a lost rank's place within a domain."""

    RESERVE = "reserve"
    BACKFILL = "backfill"


@dataclass(frozen=True)
class Layer:
    """One layer of the topology."""

    key: Callable[[int], Hashable]
    """From an initial rank to the domain it is in; the same on every rank, so of nothing but the number."""
    min_ranks: int = 1
    max_ranks: int | None = None
    """None: as many as live."""
    fill: Fill = Fill.RESERVE

    def __post_init__(self) -> None:
        if self.min_ranks < 1:
            raise ValueError(f"min_ranks is {self.min_ranks}; it must be 1 or more")
        if self.max_ranks is not None and self.max_ranks < self.min_ranks:
            raise ValueError(f"max_ranks is {self.max_ranks}; it must be min_ranks ({self.min_ranks}) or more, or None")


@dataclass(frozen=True)
class Tree:
    """An assignment for `Wrapper(assign=...)`."""

    layers: tuple[Layer, ...]
    """From the outermost to the innermost."""
    multiple_of: int = 1
    """So many ranks, or a multiple, run."""

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError("layers is empty; give one at least")
        if self.multiple_of < 1:
            raise ValueError(f"multiple_of is {self.multiple_of}; it must be 1 or more")

    def __call__(self, before: Sequence[int], living: Sequence[int], active: int) -> Order:
        """The order of now; `before` without a number of active ones is the initial order."""
        members = set(living)
        alive = [rank for rank in sorted(before) if rank in members]
        usable = self._usable(alive)
        most = active or len(alive)
        placed = before.active if isinstance(before, Order) else None
        if placed is None:
            slots = self._chosen([rank for rank in before if rank in usable], most)
        else:
            held = list(before[:placed])
            slots = self._filled(held, [rank if rank in usable else None for rank in held], usable)
        running = [rank for rank in slots if rank is not None][:most]
        running = running[: len(running) // self.multiple_of * self.multiple_of]
        spare = sorted(usable.difference(running))
        stranded = [rank for rank in alive if rank not in usable]
        return Order((*running, *spare, *stranded), len(running))

    def domains(self, rank: int) -> tuple[Domain, ...]:
        """The domains of a rank, the outermost first."""
        keys = tuple(layer.key(rank) for layer in self.layers)
        return tuple(keys[: depth + 1] for depth in range(len(keys)))

    def _usable(self, alive: Iterable[int]) -> set[int]:
        """Those whose domains all have enough."""
        usable = set(alive)
        for depth in reversed(range(len(self.layers))):
            count = Counter(self.domains(rank)[depth] for rank in usable)
            least = self.layers[depth].min_ranks
            usable = {rank for rank in usable if count[self.domains(rank)[depth]] >= least}
        return usable

    def _chosen(self, candidates: Iterable[int], most: int) -> list[int | None]:
        """Those that run at first."""
        chosen: list[int | None] = []
        count: Counter[Domain] = Counter()
        for rank in candidates:
            if len(chosen) < most and self._fits(rank, count):
                chosen.append(rank)
                count.update(self.domains(rank))
        return chosen

    def _fits(self, rank: int, count: Counter[Domain]) -> bool:
        """Whether none of its domains runs as many as it may."""
        return all(
            layer.max_ranks is None or count[domain] < layer.max_ranks
            for layer, domain in zip(self.layers, self.domains(rank), strict=True)
        )

    def _filled(self, held: list[int], slots: list[int | None], usable: set[int]) -> list[int | None]:
        """The places with those filled that somebody may take; `held` names who had each."""
        for depth in reversed(range(len(self.layers))):
            for place in range(len(slots)):
                if slots[place] is not None:
                    continue
                domain = self.domains(held[place])[depth]
                if self.layers[depth].fill is Fill.RESERVE:
                    slots[place] = self._reserve(domain, depth, slots, usable)
                elif (last := self._last(domain, depth, slots)) is not None and last > place:
                    slots[place], slots[last] = slots[last], None
        return slots

    def _reserve(self, domain: Domain, depth: int, slots: list[int | None], usable: set[int]) -> int | None:
        idle = (rank for rank in sorted(usable.difference(slots)) if self.domains(rank)[depth] == domain)
        count = Counter(at for other in slots if other is not None for at in self.domains(other))
        return next((rank for rank in idle if self._fits(rank, count)), None)

    def _last(self, domain: Domain, depth: int, slots: list[int | None]) -> int | None:
        """The last place that the domain holds."""
        holders = [at for at, rank in enumerate(slots) if rank is not None and self.domains(rank)[depth] == domain]
        return max(holders, default=None)
