"""What each node is told: its goal follows from the job's stage and the node's place in it alone. Pure.

Sentences hold no counts that change with other nodes: a goal that changes is sent, and ten thousand nodes join.
"""

from __future__ import annotations

from typing import assert_never

from resurge_libs.core.ids import NodeId
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import EXIT_SUCCESS
from resurge_rendezvous.core.job import (
    Assignment,
    Ended,
    Fenced,
    Formation,
    Gathering,
    Job,
    Proving,
    Running,
    Unopened,
)
from resurge_rendezvous.core.muster_values import NOTHING_ORDERED, MusterOrder
from resurge_rendezvous.core.presence import Presence, Seat, reader_of
from resurge_rendezvous.core.replacement_values import NOTHING_REPLACED, Replacing
from resurge_rendezvous.core.values import AbortNotice, Down, Exit, Goal, NodePhase, Park, Run, Stop, StopPhase

SPARE = Because(Reason.NODE_PARKED, "ready as a spare: all places are taken")
GATHERED = Because(Reason.BELOW_MIN_NODES, "waiting for the round to close")
DRAINING = Because(Reason.DRAINING, "ranks of other nodes save and stop; what follows is decided then")
LEFTOVERS = Because(Reason.TEARDOWN_ORDERED, "workers of a fenced generation must end")

_CLEAR = (NodePhase.READY, NodePhase.UNKNOWN)


def member_of_last(seen: Presence, seat: Seat) -> Assignment | None:
    """The seat's place in the newest closed round, if this very launcher was given one."""
    place = seen.members.get(seat.node)
    return place if place is not None and place.incarnation == seat.incarnation else None


def goal_of(job: Job, seen: Presence, seat: Seat) -> Goal:
    """The goal of one attached node."""
    match job.stage:
        case Unopened():
            return Park(GATHERED)
        case Gathering(because):
            return _cleared(job, seen, seat, because, GATHERED)
        case Running(formation) | Proving(formation):
            place = member_of_last(seen, seat)
            if place is not None:
                return _run_goal(job, seen, formation, place)
            return _cleared(job, seen, seat, LEFTOVERS, SPARE if job.drain is None else DRAINING)
        case Fenced(formation, incident):
            place = member_of_last(seen, seat)
            if place is not None:
                stands_in = place.group_rank > 0 and _reads_marker(job, seen, formation, seat)
                return Down(formation.generation, incident.faults[0].because, incident.incident, stands_in)
            return _cleared(job, seen, seat, LEFTOVERS, SPARE)
        case Ended(decision):
            acknowledged = len(seen.unacknowledged) == 0
            token = decision.token
            code, because, cause = decision.exit_code, decision.because, decision.cause
            return Exit(code, because, acknowledged, token.attempt, token.generation, cause)
        case _:
            assert_never(job.stage)


def _reads_marker(job: Job, seen: Presence, formation: Formation, seat: Seat) -> bool:
    return job.spec is not None and job.spec.progress.is_tracked and reader_of(formation, seen) == seat.node


def _run_goal(job: Job, seen: Presence, formation: Formation, place: Assignment) -> Run:
    """The goal of one member of a generation."""
    assert job.spec is not None
    return Run(
        generation=formation.generation,
        attempt=formation.attempt,
        cycle=formation.cycle,
        group_rank=place.group_rank,
        group_world_size=len(formation.assignments),
        base_rank=place.base_rank,
        world_size=formation.world_size,
        master_addr=formation.master_addr,
        master_port=formation.master_port,
        max_restarts=job.spec.max_restarts,
        restarts_spent=formation.restarts_spent,
        incident=formation.incident,
        store_is_served=formation.store_is_served,
        stop=stop_of(job, seen),
        aborts=aborts_of(seen, formation),
        muster=None if (refusal := in_place_refusal(seen, formation)) else muster_of(seen, formation),
        in_place_refusal=refusal,
        replacing=replacing_of(job, seen, formation, place),
    )


def aborts_of(seen: Presence, formation: Formation) -> tuple[AbortNotice, ...]:
    """What members are told about guards that fired a moment ago."""
    return tuple(one.notice for one in seen.aborts if one.generation == formation.generation)


def in_place_refusal(seen: Presence, formation: Formation) -> str:
    """Why ranks of several nodes do not restart in place; empty where they may."""
    old = out_of_place(seen, formation)
    return "" if old is None else f"the launcher of {old} is of a version that does not know of it"


def out_of_place(seen: Presence, formation: Formation) -> NodeId | None:
    """A node whose launcher keeps ranks of several nodes from it."""
    if len(formation.assignments) == 1:
        return None
    return next((NodeId(node) for node in seen.out_of_place if node in seen.members), None)


def replacing_of(job: Job, seen: Presence, formation: Formation, place: Assignment) -> Replacing:
    """What a member is told about the fresh processes that it asked for."""
    generation, refusal = formation.generation, seen.refusals.get(place.node)
    granted = tuple(one.number for one in job.replaced if (one.generation, one.node) == (generation, place.node))
    if refusal is None or refusal.generation != generation:
        return Replacing(granted) if granted else NOTHING_REPLACED
    return Replacing(granted, refusal.upto, refusal.sentence)


def muster_of(seen: Presence, formation: Formation) -> MusterOrder:
    """What members are told whose ranks restart in place."""
    muster = seen.muster
    return muster.order if muster is not None and muster.generation == formation.generation else NOTHING_ORDERED


def stop_of(job: Job, seen: Presence) -> Stop | None:
    """What members of the running generation are told about stopping."""
    drain = job.drain
    if drain is None:
        return None
    if drain.stop_step is not None:
        return Stop(StopPhase.DECIDED, drain.stop_step)
    return Stop(StopPhase.ASK) if seen.stop_hold is None else Stop(StopPhase.HOLD, seen.stop_hold)


def _cleared(job: Job, seen: Presence, seat: Seat, because: Because, otherwise: Because) -> Down | Park | Exit:
    """Down while something of a fenced generation may live here, else Park; or Exit for a node that was drained."""
    if seat.observed.phase not in _CLEAR or (seat.node in seen.busy and member_of_last(seen, seat) is not None):
        return Down(job.fenced, because)
    entry = job.nodes.get(seat.node)
    if entry is not None and entry.drained is not None:
        return Exit(EXIT_SUCCESS, Because(Reason.RELEASED, entry.drained.sentence), True, job.attempt, job.generation)
    if entry is not None and entry.exclusion is not None:
        return Park(Because(Reason.EXCLUDED, entry.exclusion.because.sentence or "excluded from later rounds"))
    return Park(otherwise)
