"""Who gets which rank after some are gone. Pure: every rank computes the same from the same members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


class Order(list[int]):
    """Initial ranks by their new rank, of which the first `active` run the function."""

    def __init__(self, ranks: Iterable[int], active: int | None = None) -> None:
        """With None it is the initial order, of which nobody has chosen yet who runs."""
        super().__init__(ranks)
        self.active = active


Assign = Callable[[Sequence[int], Sequence[int], int], list[int]]
"""From the order of before, the members that live, and how many are to be active (0: all): the order of now.

An order lists initial ranks by their new rank; those beyond the active ones are in reserve.
One that is an `Order` says itself how many are active, unless it says None: then as many run as are to be."""


def shift_ranks(before: Sequence[int], living: Sequence[int], active: int) -> list[int]:
    """Close the gaps; the order stays."""
    del active
    alive = set(living)
    return [rank for rank in before if rank in alive]


def fill_gaps(before: Sequence[int], living: Sequence[int], active: int) -> list[int]:
    """The last ones, those in reserve first, take the places of the dead; all others keep theirs."""
    del active
    alive = set(living)
    order: list[int | None] = [rank if rank in alive else None for rank in before]
    while None in order:
        gap = order.index(None)
        last = order.pop()
        if gap < len(order) and last is not None:
            order[gap] = last
    return [rank for rank in order if rank is not None]
