"""Passing on that a guard of one rank has fired: every member of the generation releases its ranks from that phase.

Nothing durable, nobody is blamed, nothing is ended: whoever is released raises or goes on by itself. One notice for a
phase at a time, for as long as it is worth acting upon: peers have the same limit, and their guards fire together.
"""

from __future__ import annotations

from collections.abc import Iterable

from resurge_libs.core.instant import after, earliest
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.job import Formation
from resurge_rendezvous.core.presence import LiveAbort, Seat
from resurge_rendezvous.core.values import AbortNotice

MOST = 16
"""Phases at one time."""


def pass_on(d: Draft, seat: Seat, before: Iterable[AbortNotice], formation: Formation) -> None:
    """Tell all members what a node has said anew about guards of this generation."""
    known = {notice.key for notice in before}
    new = [notice for notice in seat.observed.aborts if notice.key not in known and notice.left_s > 0]
    if not new or seat.observed.generation != formation.generation:
        return
    live = tuple(one for one in d.seen.aborts if d.now < one.until and one.generation == formation.generation)
    for notice in new:
        if len(live) < MOST and all(one.notice.phase != notice.phase for one in live):
            live = (*live, LiveAbort(notice, after(d.now, notice.left_s), formation.generation))
            d.because = Because(Reason.OBSERVED, f"the guard of rank {notice.rank} fired in {notice.phase!r}")
            d.touch_all()
    d.see(aborts=live)
    d.set_timers(abort_at=earliest(*(one.until for one in live)))


def aborts_over(d: Draft) -> None:
    """Old news is dropped; nobody is told of that."""
    live = tuple(one for one in d.seen.aborts if d.now < one.until)
    d.see(aborts=live)
    d.set_timers(abort_at=earliest(*(one.until for one in live)))
