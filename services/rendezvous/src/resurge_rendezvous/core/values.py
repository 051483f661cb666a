"""The words of the rendezvous core: what launchers say of themselves and what is told to them.

Plain frozen values; they decide nothing and have no effects. Times named `*_wall` or `at` are wall-clock seconds and
serve records and people only; no decision waits on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from resurge_libs.core.budget import RestartRules
from resurge_libs.core.end_cause import EndCause
from resurge_libs.core.ids import Attempt, Cycle, Generation, Incarnation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.progress import CycleProgress, ProgressRules
from resurge_libs.core.reasons import Because
from resurge_libs.core.recommendation import StopAction
from resurge_libs.core.values import quick
from resurge_rendezvous.core.muster_values import NOTHING_ORDERED, MusterOrder, MusterReport
from resurge_rendezvous.core.replacement_values import NOTHING_REPLACED, ObservedReplacement, Replacing

PROTOCOL_VERSION = 1


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What the job is; the first launcher opens the job with it and later ones must bring the same."""

    job_id: JobId
    attempt: Attempt = Attempt(0)
    """0 when the scheduler does not say."""
    min_nodes: int = 1
    max_nodes: int = 1
    max_restarts: int = 0
    segment: int = 0
    """Nodes of one topology domain that must stand together; 0 and 1 mean no constraint."""
    command_digest: str = ""
    strict_fence: bool = False
    lease_ttl_s: float = 0.0
    """0 means the service's own."""
    fault_grace_s: float = 0.0
    """0 means the service's own."""
    no_restart_exit_code: int = 93
    attribution_stop_action: StopAction = StopAction.LOG
    progress: ProgressRules = field(default_factory=ProgressRules)
    max_excluded_share: float = 0.2
    """Of the nodes that are there; verdicts exclude no more machines within the window, but one. 0: none at all."""
    exclusion_window_s: float = 3_600.0
    preempted_exit_code: int = 0
    """Of a job that was told to leave; 0: 128 + the signal."""
    restarts: RestartRules = field(default_factory=RestartRules)


class ControlAction(StrEnum):
    """What a worker asks of its launcher."""

    CONTINUE = "CONTINUE"
    EXCLUDE_THIS_NODE = "EXCLUDE_THIS_NODE"
    SHUTDOWN_WORKLOAD = "SHUTDOWN_WORKLOAD"


@dataclass(frozen=True, slots=True)
class Hello:
    """A launcher's introduction."""

    spec: JobSpec
    node: NodeId
    incarnation: Incarnation
    protocol_version: int = PROTOCOL_VERSION
    boot_id: str = ""
    host: str = ""
    pid: int = 0
    highest_generation: Generation = Generation(0)
    highest_attempt: Attempt = Attempt(0)
    infra_rank: int | None = None
    domain: str = ""
    local_world_size: int = 1
    take_over: bool = False
    address: str = ""
    log_root: str = ""
    log_prefix: str = ""
    in_place_version: int = 1
    """Of the orders to ranks that restart in place over several nodes that it follows; 0 for none."""
    machine_id: str = ""
    is_id_given: bool = False
    """The machine id was given by hand."""


class NodePhase(StrEnum):
    """Where a node stands with the generation it names."""

    UNKNOWN = "UNKNOWN"
    """Nothing observed yet on this stream, or since the service restarted."""
    READY = "READY"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    TEARING_DOWN = "TEARING_DOWN"
    FINISHED = "FINISHED"
    STUCK = "STUCK"
    LEAVING = "LEAVING"


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How one worker ended; `at` by the launcher's clock."""

    rank: Rank
    local_rank: int
    pid: int
    at: Wall
    exit_code: int | None = None
    signal: int | None = None
    last_step: int | None = None
    error: str = ""
    ended_by_launcher: bool = False

    @property
    def is_fault(self) -> bool:
        """Whether it ended badly and on its own."""
        return not self.ended_by_launcher and not (self.exit_code == 0 and self.signal is None)

    @property
    def is_success(self) -> bool:
        """Whether it exited 0 on its own."""
        return self.exit_code == 0 and self.signal is None and not self.ended_by_launcher


@dataclass(frozen=True, slots=True)
class ObservedFault:
    """A fault that is not an exit; `at` is its first signal by the launcher's clock."""

    because: Because
    at: Wall
    rank: Rank | None = None


@quick
@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """The process that a worker is, or was."""

    rank: Rank
    local_rank: int
    pid: int


class MilestoneKind(StrEnum):
    """The steps of a start, in their order."""

    WORKER_STARTED = "WORKER_STARTED"
    PROCESS_GROUP_READY = "PROCESS_GROUP_READY"
    CHECKPOINT_RESTORED = "CHECKPOINT_RESTORED"
    FIRST_STEP = "FIRST_STEP"


@quick
@dataclass(frozen=True, slots=True)
class Milestone:
    """One worker's step of a start; `at` by the node's clock."""

    rank: Rank
    kind: MilestoneKind
    at: Wall
    step: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedSpan:
    """One closed phase of a recovery as its doer saw it, by its clock."""

    name: str
    start: Wall
    end: Wall
    rank: Rank | None = None
    attributes: tuple[tuple[str, str], ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class StoreOffer:
    """An endpoint held for the c10d store of a coming generation."""

    address: str
    port: int
    is_served: bool = False
    """A store answers there already; else rank 0 opens it."""


@quick
@dataclass(frozen=True, slots=True)
class Draining:
    """What a launcher observes of the end of its workers by agreement."""

    notice_signal: int | None = None
    grace_s: float = 0.0
    """From that signal to the end of the launcher's grace."""
    asks: bool = False
    """Every living worker asks whether to stop."""
    offer: int | None = None
    """The earliest step at which its ranks could stop; 0 where they report none."""
    held: int | None = None
    """None of its ranks passes this step."""
    told: bool = False
    """Some worker was told to stop."""


@quick
@dataclass(frozen=True, slots=True)
class AbortNotice:
    """The guard of one rank has fired: what its peers wait for in the same phase will not come."""

    rank: Rank
    number: int
    """Rises with each notice of that rank's process."""
    phase: str
    left_s: float
    """How much longer it was worth acting upon, when it was heard."""

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from all others of its generation."""
        return self.rank, self.number


@dataclass(frozen=True, slots=True)
class Observed:
    """A launcher's whole observed state; repeats are harmless."""

    phase: NodePhase
    generation: Generation = Generation(0)
    revision_seen: int = 0
    exits: tuple[ExitRecord, ...] = ()
    faults: tuple[ObservedFault, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    spans: tuple[ObservedSpan, ...] = ()
    incident: IncidentId | None = None
    """The incident that the spans belong to."""
    store_offer: StoreOffer | None = None
    exit_acknowledged: bool = False
    leaving_signal: int | None = None
    workers: tuple[WorkerProcess, ...] = ()
    progress: CycleProgress | None = None
    """Of the generation named; None when nothing is known of it."""
    draining: Draining = Draining()
    aborts: tuple[AbortNotice, ...] = ()
    muster: MusterReport | None = None
    replacements: tuple[ObservedReplacement, ...] = ()


# --- goals: what a node is told ---


class StopPhase(StrEnum):
    """How far the ranks' agreement on a step to stop at has come."""

    ASK = "ASK"
    HOLD = "HOLD"
    DECIDED = "DECIDED"


@dataclass(frozen=True, slots=True)
class Stop:
    """Workers are to save and end at one common step; 0 with DECIDED: at once."""

    phase: StopPhase
    step: int = 0


@quick
@dataclass(frozen=True, slots=True)
class Run:
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
    max_restarts: int
    restarts_spent: int
    incident: IncidentId | None = None
    """The recovery this start belongs to; None for a first start."""
    store_is_served: bool = False
    stop: Stop | None = None
    aborts: tuple[AbortNotice, ...] = ()
    muster: MusterOrder | None = NOTHING_ORDERED
    """None: ranks of several nodes do not restart in place."""
    in_place_refusal: str = ""
    """Why not."""
    replacing: Replacing = NOTHING_REPLACED


@dataclass(frozen=True, slots=True)
class Down:
    """Nothing of this generation or an older one is alive here."""

    generation: Generation
    because: Because
    incident: IncidentId | None = None
    reads_marker: bool = False
    """This node reads the checkpoint marker, in place of the one with the lowest rank."""


@dataclass(frozen=True, slots=True)
class Park:
    """No workers; stay attached."""

    because: Because


@dataclass(frozen=True, slots=True)
class Exit:
    """Acknowledge, end the workers, exit with the code."""

    code: int
    because: Because
    all_acknowledged: bool
    attempt: Attempt
    generation: Generation
    cause: EndCause = EndCause.UNKNOWN


Goal = Run | Down | Park | Exit


@quick
@dataclass(frozen=True, slots=True)
class Desired:
    """A node's whole desired state."""

    revision: int
    goal: Goal
    current_generation: Generation


@quick
@dataclass(frozen=True, slots=True)
class Stamp:
    """What an event brings of the world: the wall clock, an unused id, and chance in [0, 1)."""

    wall: Wall
    fresh_id: str
    chance: float = 0.0
    late_s: float = 0.0
    """For how long before `wall` this may have been so unseen, as the service had no time to look; 0 where it had."""
