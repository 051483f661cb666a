"""The durable half of the state: everything of a job that survives the service. Changed only by folding facts.

Values only. There is no instant in here: wall-clock seconds serve records, people and the ages of failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from resurge_libs.core.end_cause import EndCause
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import (
    Attempt,
    Cycle,
    FencingToken,
    Generation,
    Incarnation,
    IncidentId,
    NodeId,
    Rank,
    RequestId,
)
from resurge_libs.core.instant import Wall
from resurge_libs.core.ledger import Ledger
from resurge_libs.core.progress import ProgressCount
from resurge_libs.core.reasons import Because
from resurge_libs.core.recommendation import Recommendation
from resurge_libs.core.verdict import IncidentView, NoRestart, Verdict
from resurge_rendezvous.core.causes import FaultRecord, first_cause
from resurge_rendezvous.core.charges import Charge
from resurge_rendezvous.core.drain_state import Drain
from resurge_rendezvous.core.nodes import MachineExclusion, NodeEntry, NodeTable, OffenceBook
from resurge_rendezvous.core.replacement_values import ReplacedRank
from resurge_rendezvous.core.values import JobSpec, MilestoneKind


@dataclass(frozen=True, slots=True)
class Assignment:
    """One node's place in a generation."""

    node: NodeId
    incarnation: Incarnation
    group_rank: int
    base_rank: int
    local_world_size: int


@dataclass(frozen=True, slots=True)
class Formation:
    """A closed round: who runs, under which number."""

    generation: Generation
    attempt: Attempt
    cycle: Cycle
    assignments: tuple[Assignment, ...]
    world_size: int
    master_addr: str
    master_port: int
    closed_wall: Wall
    restarts_spent: int = 0
    incident: IncidentId | None = None
    """The recovery that this generation belongs to; None for a first start."""
    store_is_served: bool = False


# --- incidents ---


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """When one round of an incident did what, for its spans."""

    round: int
    generation: Generation
    """The generation it fenced."""
    fault_wall: Wall
    opened_wall: Wall
    verdict_wall: Wall | None = None
    down_wall: Wall | None = None
    closed_wall: Wall | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """All faults of one story, and how far its recovery is."""

    incident: IncidentId
    round: int
    generation_from: Generation
    attempt: Attempt
    cycle: Cycle
    faults: tuple[FaultRecord, ...]
    rounds: tuple[RoundTimes, ...]
    view: IncidentView
    """What policy was given for the present round."""
    verdict: Verdict | None = None
    """The one verdict of the present round."""
    split_ruled_out: Because | None = None
    """Why the fenced generation may be replaced though some of its nodes are out of reach."""

    @property
    def first_cause(self) -> FaultRecord:
        """What began it; all other faults are victims' or later troubles."""
        return first_cause(self.faults)

    @property
    def first_signal(self) -> Wall:
        """When anything of it was first seen, whoever began it."""
        return min(fault.at for fault in self.faults)

    @property
    def now_round(self) -> RoundTimes:
        """The times of the present round."""
        return self.rounds[-1]


class RecoveryOutcome(StrEnum):
    """How a recovery ended."""

    OPEN = "OPEN"
    RECOVERED = "RECOVERED"
    STARTED_ONLY = "STARTED_ONLY"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class RecoverySpan:
    """One span of a recovery in the service's time; `node` None for the service's own.

    A span id is derived from (incident, name, node, rank); rounds after the first add `#round` to the name given to
    the derivation, so that a retry's spans are spans of their own.
    """

    name: str
    start: Wall
    end: Wall
    node: NodeId | None = None
    rank: Rank | None = None
    round: int = 0
    clock_error_s: float | None = None
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RecoveryRecord:
    """The durable record of one incident."""

    incident: IncidentId
    outcome: RecoveryOutcome
    because: Because
    start: Wall
    end: Wall
    attempt: Attempt
    cycle: Cycle
    generation_from: Generation
    generation_to: Generation
    """0 when none took over."""
    rounds: int
    faults: tuple[FaultRecord, ...]
    """First cause first."""
    view: IncidentView
    verdict: Verdict | None
    spans: tuple[RecoverySpan, ...]
    restored_step: int | None = None


# --- the job ---


@dataclass(frozen=True, slots=True)
class TerminalDecision:
    """The end of an attempt."""

    exit_code: int
    because: Because
    at: Wall
    token: FencingToken
    cause: EndCause = EndCause.UNKNOWN


@dataclass(frozen=True, slots=True)
class Unopened:
    """No launcher has come yet."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """No generation holds and no incident is open: a first round is gathered."""

    because: Because


@dataclass(frozen=True, slots=True)
class Running:
    """A generation runs."""

    formation: Formation


@dataclass(frozen=True, slots=True)
class Fenced:
    """An incident is open: `formation` is being torn down, its successor waits for the verdict and for nodes."""

    formation: Formation
    incident: Incident


@dataclass(frozen=True, slots=True)
class Proving:
    """The successor runs; the recovery is open until every rank has committed a step."""

    formation: Formation
    incident: Incident


@dataclass(frozen=True, slots=True)
class Ended:
    """A terminal decision holds for the attempt."""

    decision: TerminalDecision


Stage = Unopened | Gathering | Running | Fenced | Proving | Ended


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """One value of the fenced store and the generation that wrote it."""

    value: bytes
    generation: Generation


@dataclass(frozen=True, slots=True)
class PutDone:
    """The value is durable."""


@dataclass(frozen=True, slots=True)
class Added:
    """The counter after an addition."""

    value: int


@dataclass(frozen=True, slots=True)
class Swapped:
    """Whether a compare-and-set wrote, and what holds now. Where it wrote, a remembered one does without the value: the
    repeat brings it along."""

    written: bool
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """Whether there was something to delete."""

    existed: bool


@dataclass(frozen=True, slots=True)
class OrderTaken:
    """An operator's order was taken, and which: the name of its event, empty where an earlier release took it."""

    order: str = ""
    warning: str = ""
    """What the order risks, in words; it holds all the same."""


Answer = PutDone | Added | Swapped | Deleted | OrderTaken


@dataclass(frozen=True, slots=True)
class Answered:
    """A request id and its answer, so that a repeat gets the same."""

    request: RequestId
    answer: PutDone | Added | Swapped | Deleted | OrderTaken


@dataclass(frozen=True, slots=True)
class RecommendationTally:
    """How often attribution recommended one thing, and its last word."""

    count: int
    last: Recommendation
    last_at: Wall


@dataclass(frozen=True, slots=True)
class Job:
    """All durable state of one job."""

    spec: JobSpec | None = None
    attempt: Attempt = Attempt(0)
    generation: Generation = Generation(0)
    """The highest number ever given to a round, or adopted; rises for the whole life of the job id."""
    fenced: Generation = Generation(0)
    """This generation and all before it are refused."""
    next_cycle: Cycle = Cycle(0)
    stage: Unopened | Gathering | Running | Fenced | Proving | Ended = Unopened()
    last_formation: Formation | None = None
    """The newest closed round, for stable ranks and for the nodes that may still hold workers."""
    nodes: NodeTable = field(default_factory=NodeTable)
    charges: tuple[Charge, ...] = ()
    """Restarts spent in this attempt; the newest of them."""
    failure_walls: tuple[float, ...] = ()
    """When incidents and their further rounds were opened since every rank last committed a step; oldest first."""
    no_restart: NoRestart | None = None
    """A late STOP, latched: it holds at the next fault."""
    progress: ProgressCount = field(default_factory=ProgressCount)
    """Cycles of this attempt without progress."""
    drain: Drain | None = None
    """Until the workers it is about are gone."""
    known_milestones: frozenset[MilestoneKind] = frozenset()
    """Milestones that some worker of this job has been seen to report."""
    exclusions: tuple[MachineExclusion, ...] = ()
    """Machines that are out, also those that no node of the job is on now."""
    exclusion_walls: tuple[float, ...] = ()
    """When verdicts excluded machines, oldest first; for the circuit breaker."""
    offences: OffenceBook = field(default_factory=OffenceBook)
    """Over all attempts."""
    records: tuple[RecoveryRecord, ...] = ()
    recommendations: tuple[RecommendationTally, ...] = ()
    """What attribution recommended in this attempt, one entry for each kind."""
    store: Mapping[str, StoreEntry] = field(default_factory=dict)
    answers: tuple[Answered, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    """Where the wall time went."""
    charges_forgotten: int = 0
    """Restarts spent in this attempt before those."""
    records_forgotten: int = 0
    """Records that were here before those that are."""
    causes_forgotten: tuple[tuple[FaultCause, int], ...] = ()
    refunded: int = 0
    """Charges of this attempt that were given back: they are in none of the above."""
    refunded_wall: float = 0.0
    replaced: tuple[ReplacedRank, ...] = ()

    @property
    def restarts_spent(self) -> int:
        """Restarts charged in this attempt."""
        return self.charges_forgotten + len(self.charges) + self.refunded

    def spent_on(self, cause: FaultCause) -> int:
        """Restarts of this attempt that were charged to a cause and not given back."""
        return sum(charge.cause is cause for charge in self.charges) + dict(self.causes_forgotten).get(cause, 0)

    @property
    def recoveries_closed(self) -> int:
        """Recoveries that ended, one way or the other, in the whole life of the job id."""
        return self.records_forgotten + len(self.records)

    @property
    def open_incident(self) -> Incident | None:
        """The incident whose recovery is not over."""
        return self.stage.incident if isinstance(self.stage, (Fenced, Proving)) else None

    @property
    def running_formation(self) -> Formation | None:
        """The generation that holds, if one does."""
        return self.stage.formation if isinstance(self.stage, (Running, Proving)) else None

    @property
    def token(self) -> FencingToken:
        """The lowest token that is not refused: the running generation's, or its successor's while none runs."""
        assert self.spec is not None, "no job is open"
        return FencingToken(self.spec.job_id, self.attempt, Generation(max(self.generation, self.fenced + 1)))

    def with_node(self, entry: NodeEntry) -> Job:
        """The job with one node's entry set."""
        return replace(self, nodes=self.nodes.put(entry))
