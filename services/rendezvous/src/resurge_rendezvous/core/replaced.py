"""How the durable state remembers fresh processes in the places of lost ranks: the newest of them. Pure.

Those that the running generation still waits for are kept however many they are: they are answers that a launcher may
not have heard, and one that is forgotten would be asked for, and charged, again.
"""

from __future__ import annotations

from resurge_libs.core.fault_cause import cause_of
from resurge_libs.core.ids import Generation, IncidentId, NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.values import replace
from resurge_rendezvous.core.charges import Charge
from resurge_rendezvous.core.job import Job
from resurge_rendezvous.core.remembered import with_charge
from resurge_rendezvous.core.replacement_values import ReplacedRank

REPLACED_MAX = 128
"""Of those that are remembered for people."""


def known(job: Job, generation: Generation, node: NodeId, number: int) -> ReplacedRank | None:
    """The record of one; None where it was never granted."""
    return next((one for one in job.replaced if one.key == (generation, node, number)), None)


def granted(job: Job, one: ReplacedRank) -> Job:
    """The job with one more, and one restart of the budget spent for it."""
    name = IncidentId(f"in-place-{one.generation}-{one.node}-{one.number}")
    job = with_charge(job, Charge(name, 0, cause_of(one.because.code)))
    return replace(job, replaced=_bounded((*job.replaced, one), one.generation))


def _bounded(known: tuple[ReplacedRank, ...], running: Generation) -> tuple[ReplacedRank, ...]:
    older = len(known) - REPLACED_MAX
    if older <= 0:
        return known
    is_awaited = (one for one in known[:older] if one.generation == running and one.settled_wall is None)
    return (*is_awaited, *known[older:])


def settled(job: Job, key: tuple[Generation, NodeId, int], pid: int, at: Wall, sentence: str) -> Job:
    """The job that knows how one ended: without a sentence it came."""
    replaced = tuple(
        replace(one, pid=pid, settled_wall=at, came=not sentence, sentence=sentence) if one.key == key else one
        for one in job.replaced
    )
    return replace(job, replaced=replaced)
