"""The launcher's words in rendezvous' words and back: what the two wires do, without the bytes between them."""

from __future__ import annotations

from dataclasses import fields
from typing import assert_never

from resurge_launcher.core import goals as lm
from resurge_launcher.core import happenings as h
from resurge_launcher.core import muster_state as lms
from resurge_launcher.core.abort_state import AbortNotice
from resurge_launcher.core.replacement_state import Replacement, Replacing
from resurge_libs.core.ids import Generation, IncidentId
from resurge_libs.core.refusals import (
    AlreadyAttached,
    BadRequest,
    Superseded,
    Unauthenticated,
    VersionMismatch,
    WrongJob,
)
from resurge_rendezvous.core import model as rm
from resurge_rendezvous.core import muster_values as rms
from resurge_rendezvous.core import replacement_values as rrv
from tests.sim.timeline import Clock


def observed(seen: h.Observed, clock: Clock) -> rm.Observed:
    """What a launcher observed, with its instants as its wall-clock times."""
    wall = clock.wall_of
    offer = seen.store_offer
    return rm.Observed(
        phase=rm.NodePhase(seen.phase.value),
        generation=seen.generation,
        revision_seen=seen.revision_seen,
        exits=tuple(
            rm.ExitRecord(
                e.rank,
                e.local_rank,
                e.pid,
                wall(e.at),
                e.exit_code,
                e.signal,
                e.last_step,
                e.error,
                e.ended_by_launcher or e.forgiven,
            )
            for e in seen.exits
        ),
        faults=tuple(rm.ObservedFault(f.because, wall(f.at), f.rank) for f in seen.faults),
        milestones=tuple(
            rm.Milestone(m.rank, rm.MilestoneKind(m.kind.name), wall(m.at), m.step) for m in seen.milestones
        ),
        spans=tuple(rm.ObservedSpan(s.name, wall(s.start), wall(s.end), s.rank, s.attributes) for s in seen.spans),
        incident=seen.incident_id or None,
        store_offer=None if offer is None else rm.StoreOffer(offer.address, offer.port, offer.is_served),
        exit_acknowledged=seen.exit_acknowledged,
        leaving_signal=seen.leaving_signal,
        workers=tuple(rm.WorkerProcess(w.rank, w.local_rank, w.pid) for w in seen.workers),
        progress=seen.progress,
        draining=rm.Draining(
            seen.draining.notice_signal,
            seen.draining.grace_s,
            seen.draining.asks,
            seen.draining.offer,
            seen.draining.held,
            seen.draining.told,
        ),
        aborts=tuple(rm.AbortNotice(a.rank, a.number, a.phase, a.left_s) for a in seen.aborts),
        muster=None if seen.muster is None else _report(seen.muster),
        replacements=tuple(_replacement(one, clock) for one in seen.replacements),
    )


def _replacement(one: Replacement, clock: Clock) -> rrv.ObservedReplacement:
    return rrv.ObservedReplacement(
        one.number,
        one.rank,
        one.iteration,
        one.because,
        clock.wall_of(one.lost_at),
        rrv.ReplacementStage(one.stage.value),
        one.lost_pid,
        one.pid,
        None if one.settled_at is None else clock.wall_of(one.settled_at),
        one.sentence,
    )


def _report(seen: lms.MusterReport) -> rms.MusterReport:
    acted = rms.MusterOrder(
        seen.acted.number,
        rms.MusterKind(seen.acted.kind),
        seen.acted.iteration,
        seen.acted.members,
        is_anew=seen.acted.is_anew,
    )
    values = {item.name: getattr(seen, item.name) for item in fields(seen)}
    return rms.MusterReport(**{**values, "acted": acted})


def desired(told: rm.Desired) -> h.DesiredReceived:
    """What rendezvous desires, as the launcher hears it."""
    return h.DesiredReceived(told.revision, _goal(told.goal), told.current_generation)


def _order(order: rms.MusterOrder) -> lms.MusterOrder:
    return lms.MusterOrder(
        order.number, order.kind.value, order.iteration, order.members, order.sentence, order.is_anew
    )


def _goal(goal: rm.Goal) -> lm.Goal:
    match goal:
        case rm.Run():
            return lm.RunGoal(
                generation=goal.generation,
                attempt=goal.attempt,
                cycle=goal.cycle,
                group_rank=goal.group_rank,
                group_world_size=goal.group_world_size,
                base_rank=goal.base_rank,
                world_size=goal.world_size,
                master_addr=goal.master_addr,
                master_port=goal.master_port,
                max_restarts=goal.max_restarts,
                restarts_spent=goal.restarts_spent,
                incident_id=goal.incident or IncidentId(""),
                store_is_served=goal.store_is_served,
                stop=None if goal.stop is None else lm.StopOrder(lm.StopPhase(goal.stop.phase.value), goal.stop.step),
                aborts=tuple(AbortNotice(a.rank, a.number, a.phase, a.left_s) for a in goal.aborts),
                muster=None if goal.muster is None else _order(goal.muster),
                in_place_refusal=goal.in_place_refusal,
                replacing=Replacing(goal.replacing.granted, goal.replacing.refused_upto, goal.replacing.sentence),
            )
        case rm.Down():
            return lm.DownGoal(
                goal.generation, goal.because, goal.incident or IncidentId(""), reads_marker=goal.reads_marker
            )
        case rm.Park():
            return lm.ParkGoal(goal.because)
        case rm.Exit():
            generation = goal.generation or Generation(0)
            return lm.ExitGoal(goal.code, goal.because, goal.all_acknowledged, goal.attempt, generation, goal.cause)
        case _:
            assert_never(goal)


def refusal(answer: object) -> h.Refusal | None:
    """What a definite answer means to a launcher; None where trying again may help."""
    match answer:
        case Superseded():
            return h.Refusal.SUPERSEDED
        case AlreadyAttached():
            return h.Refusal.ALREADY_ATTACHED
        case BadRequest() | Unauthenticated() | VersionMismatch() | WrongJob():
            return h.Refusal.NOT_WELCOME
        case _:
            return None
