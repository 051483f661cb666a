"""Finding the nodes whose promise is over. The table is looked through only when the earliest promise may have ended.

Beats move promises away, never nearer, so a sweep that was due early finds nothing and names the next instant.
"""

from __future__ import annotations

from resurge_libs.core.instant import Instant, earliest
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.presence import Seat


def overdue(d: Draft) -> list[Seat]:
    """The seats whose lease or resume window is over."""
    return [seat for seat in d.seen.seats.values() if (due := d.lease_end(seat)) is not None and due <= d.now]


def succeeded(d: Draft) -> list[Seat]:
    """The seats whose earlier launcher, on another host, cannot have living workers any more."""
    seats = d.seen.seats.values()
    return [seat for seat in seats if seat.predecessor_until is not None and seat.predecessor_until <= d.now]


def next_sweep(d: Draft) -> Instant | None:
    """When the next promise may end."""
    return earliest(*(earliest(d.lease_end(seat), seat.predecessor_until) for seat in d.seen.seats.values()))
