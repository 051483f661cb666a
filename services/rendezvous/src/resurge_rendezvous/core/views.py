"""What observers see of a job. Pure functions from state to values; the shell turns them into protos."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_libs.core.ids import Cycle, FencingToken, Generation, Incarnation, IncidentId, NodeId
from resurge_libs.core.reasons import Because
from resurge_rendezvous.core.job import TerminalDecision
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
    all_acknowledged: bool
    """The job has ended and every launcher knows it, or its lease is over."""
