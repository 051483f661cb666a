"""Which nodes could take part in the next round once their workers are gone. Pure looks at a draft."""

from __future__ import annotations

from resurge_rendezvous.core.draft import Draft


def nodes_available(d: Draft) -> int:
    """How many nodes could take part in the next round once their workers are gone."""
    return sum(could_take_part(d, node) for node in d.seen.seats)


def could_take_part(d: Draft, node: str) -> bool:
    """Whether a node holds a lease, is not leaving, doomed, excluded or drained."""
    seat = d.seen.seats.get(node)
    if seat is None or seat.lease is None or seat.doomed is not None or seat.is_going:
        return False
    entry = d.entry(seat.node)
    return entry.exclusion is None and entry.drained is None
