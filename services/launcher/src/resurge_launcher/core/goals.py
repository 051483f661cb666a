"""What is wanted of this node: by rendezvous, or by the launcher itself. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_launcher.core.abort_state import AbortNotice
from resurge_launcher.core.muster_state import MusterOrder
from resurge_launcher.core.replacement_state import Replacing
from resurge_libs.core.end_cause import EndCause
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId
from resurge_libs.core.reasons import Because

NO_GENERATION = Generation(0)
NO_ATTEMPT = Attempt(0)
NO_INCIDENT = IncidentId("")


class StopPhase(StrEnum):
    """How far the ranks' agreement on a step to stop at has come."""

    ASK = "ASK"
    HOLD = "HOLD"
    DECIDED = "DECIDED"


@dataclass(frozen=True, slots=True)
class StopOrder:
    """The workers are to save and end at one step with all others of the job."""

    phase: StopPhase
    step: int = 0
    """With DECIDED, 0: at once."""


@dataclass(frozen=True, slots=True)
class RunGoal:
    """Workers of this generation run here."""

    generation: Generation
    attempt: Attempt
    cycle: Cycle
    group_rank: int
    group_world_size: int
    base_rank: int
    world_size: int
    master_addr: str
    master_port: int
    max_restarts: int = 0
    restarts_spent: int = 0
    incident_id: IncidentId = NO_INCIDENT
    traceparent: str = ""
    delay_s: float = 0.0
    store_is_served: bool = False
    stop: StopOrder | None = None
    aborts: tuple[AbortNotice, ...] = ()
    muster: MusterOrder | None = None
    """None: rendezvous does not gather ranks that restart in place."""
    in_place_refusal: str = ""
    """Why it does not, in this generation."""
    replacing: Replacing | None = None
    """None: rendezvous grants no fresh processes in the places of lost ranks."""


@dataclass(frozen=True, slots=True)
class DownGoal:
    """Nothing of this generation or an older one is alive here."""

    generation: Generation
    because: Because
    incident_id: IncidentId = NO_INCIDENT
    traceparent: str = ""
    reads_marker: bool = False


@dataclass(frozen=True, slots=True)
class ParkGoal:
    """No workers; stay attached."""

    because: Because


@dataclass(frozen=True, slots=True)
class ExitGoal:
    """Acknowledge, end the workers, exit with the code."""

    code: int
    because: Because
    all_acknowledged: bool = False
    attempt: Attempt = NO_ATTEMPT
    generation: Generation = NO_GENERATION
    cause: EndCause = EndCause.UNKNOWN


@dataclass(frozen=True, slots=True)
class EndGoal:
    """The launcher's own decision to end: no terminal decision of rendezvous stands behind it."""

    code: int
    because: Because


Goal = RunGoal | DownGoal | ParkGoal | ExitGoal | EndGoal
