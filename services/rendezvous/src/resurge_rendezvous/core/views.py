"""What observers see of a job. Pure functions from state to values; the shell turns them into protos."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from resurge_libs.core.budget import CauseBudget
from resurge_libs.core.ids import Cycle, FencingToken, Generation, Incarnation, IncidentId, NodeId
from resurge_libs.core.ledger import Ledger
from resurge_libs.core.progress import ProgressCount
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core.budgets import cause_budgets_of
from resurge_rendezvous.core.exclusions import every_exclusion, offence_counts, offences_of
from resurge_rendezvous.core.job import (
    Assignment,
    Ended,
    Fenced,
    Gathering,
    Proving,
    RecommendationTally,
    RecoveryRecord,
    Running,
    TerminalDecision,
    Unopened,
)
from resurge_rendezvous.core.losses import LEFT_AFTER_END
from resurge_rendezvous.core.nodes import MachineExclusion, NodeEntry
from resurge_rendezvous.core.presence import NOTHING_OBSERVED, RdzvState, Seat
from resurge_rendezvous.core.recoveries import open_record
from resurge_rendezvous.core.replacement_values import ReplacedRank
from resurge_rendezvous.core.rules import order_key
from resurge_rendezvous.core.timekeeping import ledger_of
from resurge_rendezvous.core.values import JobSpec, NodePhase


class JobPhase(StrEnum):
    """Where the job stands."""

    GATHERING = "GATHERING"
    RUNNING = "RUNNING"
    RECOVERING = "RECOVERING"
    FINISHING = "FINISHING"
    ENDED = "ENDED"


class NodeStanding(StrEnum):
    """What a node is to the job."""

    ACTIVE = "ACTIVE"
    SPARE = "SPARE"
    EXCLUDED = "EXCLUDED"
    LOST = "LOST"
    SILENT = "SILENT"
    LEFT = "LEFT"


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as the job knows it."""

    node: NodeId
    incarnation: Incarnation
    host: str
    standing: NodeStanding
    phase: NodePhase
    generation: Generation
    group_rank: int | None
    base_rank: int | None
    local_world_size: int
    domain: str
    because: Because
    exclusion: MachineExclusion | None = None
    """The one that holds for its machine."""
    would_exclude: Because | None = None
    offences: int = 0
    """Faults held against its machine."""
    machine_id: str = ""


@dataclass(frozen=True, slots=True)
class JobView:
    """The job as it stands."""

    spec: JobSpec | None
    token: FencingToken | None
    cycle: Cycle
    phase: JobPhase
    because: Because
    restarts_spent: int
    incident: IncidentId | None
    nodes: tuple[NodeView, ...]
    decision: TerminalDecision | None
    recommendations: tuple[RecommendationTally, ...]
    all_acknowledged: bool
    """The job has ended and every launcher knows it, or its lease is over."""
    ledger: Ledger
    recoveries_closed: int = 0
    progress: ProgressCount = field(default_factory=ProgressCount)
    exclusions: tuple[MachineExclusion, ...] = ()
    """Every machine that is out."""
    restarts_refunded: int = 0
    cause_budgets: tuple[CauseBudget, ...] = ()
    replaced: tuple[ReplacedRank, ...] = ()
    """In whose places fresh processes were granted."""


def job_view(state: RdzvState) -> JobView:
    """The whole job for observers."""
    job, seen = state.durable, state.volatile
    phase, because = _phase(state)
    incident = job.open_incident
    formation = job.running_formation or job.last_formation
    offences = offence_counts(job)
    return JobView(
        spec=job.spec,
        token=job.token if job.spec is not None else None,
        cycle=formation.cycle if formation is not None else Cycle(0),
        phase=phase,
        because=because,
        restarts_spent=job.restarts_spent,
        incident=incident.incident if incident is not None else None,
        nodes=tuple(node_view(state, entry, offences.get(entry.node, 0)) for entry in sorted(job.nodes, key=order_key)),
        decision=job.stage.decision if isinstance(job.stage, Ended) else None,
        recommendations=job.recommendations,
        all_acknowledged=isinstance(job.stage, Ended) and len(seen.unacknowledged) == 0,
        ledger=ledger_of(state),
        recoveries_closed=job.recoveries_closed,
        progress=job.progress,
        exclusions=every_exclusion(job),
        restarts_refunded=job.refunded,
        cause_budgets=cause_budgets_of(job, job.spec) if job.spec is not None else (),
        replaced=job.replaced,
    )


def _phase(state: RdzvState) -> tuple[JobPhase, Because]:
    job, seen = state.durable, state.volatile
    match job.stage:
        case Unopened():
            return JobPhase.GATHERING, Because(Reason.BELOW_MIN_NODES, "no launcher has come yet")
        case Gathering(because):
            return JobPhase.GATHERING, seen.waits_for or because
        case Running() | Proving() if job.drain is not None:
            step = job.drain.stop_step
            where = "" if step is None else f"; ranks stop at step {step}" if step else "; ranks stop at once"
            return JobPhase.RUNNING, Because(Reason.DRAINING, f"{job.drain.because.sentence}{where}")
        case Running(formation):
            if len(seen.unfinished) < len(formation.assignments):
                left = len(seen.unfinished)
                return JobPhase.FINISHING, Because(Reason.FINISHED, f"{left} nodes have not finished yet")
            return JobPhase.RUNNING, Because(Reason.STARTED, f"generation {formation.generation} runs")
        case Fenced(_, incident):
            return JobPhase.RECOVERING, seen.waits_for or incident.first_cause.because
        case Proving(formation):
            sentence = f"generation {formation.generation} runs; not every rank has committed a step"
            return JobPhase.RECOVERING, Because(Reason.MILESTONE, sentence)
        case Ended(decision):
            return JobPhase.ENDED, decision.because
        case _:
            assert_never(job.stage)


def node_view(state: RdzvState, entry: NodeEntry, offences: int | None = None) -> NodeView:
    """One node for observers; `offences` where they have been counted already."""
    job, seen = state.durable, state.volatile
    seat = seen.seats.get(entry.node)
    place = seen.members.get(entry.node) if job.running_formation is not None else None
    if place is not None and place.incarnation != entry.incarnation:
        place = None
    standing, because = _after_the_end(state, entry, seat) or _standing(entry, seat, place)
    observed = seat.observed if seat is not None else NOTHING_OBSERVED
    return NodeView(
        node=entry.node,
        incarnation=entry.incarnation,
        host=entry.host,
        standing=standing,
        phase=observed.phase,
        generation=_last_run(state, entry) if standing is NodeStanding.LEFT else observed.generation,
        group_rank=place.group_rank if place is not None else None,
        base_rank=place.base_rank if place is not None else None,
        local_world_size=entry.local_world_size,
        domain=entry.domain,
        because=because,
        exclusion=MachineExclusion(entry.identity, entry.exclusion) if entry.exclusion is not None else None,
        would_exclude=entry.would_exclude,
        offences=len(offences_of(job, entry.identity)) if offences is None else offences,
        machine_id=entry.machine_id,
    )


def _last_run(state: RdzvState, entry: NodeEntry) -> Generation:
    """The last generation, of a node that was in it; 0 of another one."""
    place, formation = state.volatile.members.get(entry.node), state.durable.last_formation
    was_member = place is not None and place.incarnation == entry.incarnation
    return formation.generation if was_member and formation is not None else Generation(0)


def _after_the_end(state: RdzvState, entry: NodeEntry, seat: Seat | None) -> tuple[NodeStanding, Because] | None:
    """A node whose launcher is gone since its attempt has ended; None for every other one."""
    if entry.lost is not None:
        return (NodeStanding.LEFT, entry.lost) if entry.lost.code is LEFT_AFTER_END else None
    if not isinstance(state.durable.stage, Ended) or entry.exclusion is not None:
        return None
    if seat is None or seat.stream is not None:
        return None
    if entry.node in state.volatile.unacknowledged:
        return NodeStanding.SILENT, Because(Reason.STREAM_LOST, "it has not said that it knows of the job's end")
    return NodeStanding.LEFT, Because(LEFT_AFTER_END, "the job has ended, and its launcher has left")


def _standing(entry: NodeEntry, seat: Seat | None, place: Assignment | None) -> tuple[NodeStanding, Because]:
    if entry.lost is not None:
        return NodeStanding.LOST, entry.lost
    if entry.exclusion is not None and place is None:
        return NodeStanding.EXCLUDED, entry.exclusion.because
    if seat is None or seat.stream is None:
        return NodeStanding.SILENT, Because(Reason.STREAM_LOST, "its stream is broken, its lease not over")
    if place is not None:
        return NodeStanding.ACTIVE, entry.would_exclude or Because(Reason.STARTED, f"group rank {place.group_rank}")
    return NodeStanding.SPARE, Because(Reason.NODE_PARKED, "attached and unused")


def recovery_view(state: RdzvState, incident: IncidentId) -> RecoveryRecord | None:
    """The record of an incident, also of the open one as far as it is; None for an unknown one."""
    known = next((record for record in reversed(state.durable.records) if record.incident == incident), None)
    if known is not None:
        return known
    open_incident = state.durable.open_incident
    if open_incident is None or open_incident.incident != incident:
        return None
    return open_record(state)


def recoveries_view(state: RdzvState) -> tuple[RecoveryRecord, ...]:
    """Every recovery record that is remembered, oldest first, the open one last."""
    still_open = (open_record(state),) if state.durable.open_incident is not None else ()
    return (*state.durable.records, *still_open)
