"""Which lost ranks a fresh process is to take the place of, and how far each is. Pure; the rules: replacing.py."""

from __future__ import annotations

from resurge_launcher.core.model import Alive, Crew, ExitRecord
from resurge_launcher.core.muster_state import Muster
from resurge_launcher.core.replacement_state import Replacement, ReplacementStage
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Instant, after, earliest
from resurge_libs.core.reasons import Because
from resurge_libs.core.values import replace

SETTLED_MAX = 64
"""Of those that came, or were given up, so many are told of, the newest: each is told again with whatever changes."""


def awaited(muster: Muster | None) -> tuple[Replacement, ...]:
    """Those that the next iteration waits for."""
    if muster is None or muster.is_over or not muster.replacements:
        return ()
    return tuple(one for one in muster.replacements if one.is_awaited)


def ranks_awaited(muster: Muster) -> set[Rank]:
    """Their ranks."""
    return {one.rank for one in awaited(muster)}


def coming(muster: Muster | None, rank: Rank) -> Replacement | None:
    """The fresh process of a rank that lives and has not come yet."""
    return next((one for one in awaited(muster) if one.rank == rank and one.stage is ReplacementStage.COMING), None)


def are_possible(crew: Crew, muster: Muster) -> bool:
    """Whether a rank that is lost now may get a fresh process: the ranks' SDK, this launcher and rendezvous can."""
    return crew.run.replacing is not None and muster.replace_s > 0 and not muster.is_over


def wanted(crew: Crew, record: ExitRecord, because: Because, now: Instant) -> Crew:
    """The crew that wants a fresh process for a rank that was lost."""
    muster = crew.muster
    if muster is None or not are_possible(crew, muster):
        return crew
    last = after(now, muster.limit_s) if muster.is_running else muster.until
    until = earliest(after(now, muster.replace_s), last)
    assert until is not None, "one of them is given"
    number = max((one.number for one in muster.replacements), default=0) + 1
    iteration = muster.iteration + muster.is_running
    one = Replacement(number, record.rank, record.local_rank, iteration, because, record.at, record.pid, until)
    return replace(crew, muster=replace(muster, replacements=(*_bounded(muster.replacements), one)))


def _bounded(known: tuple[Replacement, ...]) -> tuple[Replacement, ...]:
    settled = [one.number for one in known if not one.is_awaited][-SETTLED_MAX:]
    return tuple(one for one in known if one.is_awaited or one.number in settled)


def kept(muster: Muster, one: Replacement) -> Muster:
    """The muster with what is known of one of them."""
    known = tuple(one if other.number == one.number else other for other in muster.replacements)
    return replace(muster, replacements=known)


def came(muster: Muster, one: Replacement, now: Instant) -> Muster:
    """The muster of which the fresh process is one rank like all others."""
    joined = kept(muster, replace(one, stage=ReplacementStage.JOINED, settled_at=now))
    lost = tuple(rank for rank in muster.lost if rank != one.rank)
    return replace(joined, lost=lost, joined=joined.joined | {one.rank}, is_anew=True)


def lives(crew: Crew, one: Replacement) -> bool:
    """Whether there is a fresh process."""
    return any(w.rank == one.rank and isinstance(w.state, Alive) for w in crew.workers)


def due_at(muster: Muster | None) -> Instant | None:
    """When the first of them is waited for no longer."""
    return earliest(*(one.until for one in awaited(muster)))
