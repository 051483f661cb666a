"""Everything the journal of a job may hold. `evolve` (in fold.py) is their only reader. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import Attempt, Generation, IncidentId, NodeId, RequestId
from resurge_libs.core.instant import Wall
from resurge_libs.core.ledger import Booking
from resurge_libs.core.progress import ProgressCheck
from resurge_libs.core.reasons import Because
from resurge_libs.core.recommendation import Recommendation
from resurge_libs.core.verdict import IncidentView, NoRestart, Verdict
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.drain_state import Drain
from resurge_rendezvous.core.identity import Identity
from resurge_rendezvous.core.job import (
    Added,
    Deleted,
    Formation,
    OrderTaken,
    PutDone,
    RecoveryRecord,
    RecoverySpan,
    StoreEntry,
    Swapped,
    TerminalDecision,
)
from resurge_rendezvous.core.nodes import Exclusion, NodeEntry, Offence
from resurge_rendezvous.core.replacement_values import ReplacedRank
from resurge_rendezvous.core.values import JobSpec, MilestoneKind


@dataclass(frozen=True, slots=True)
class JobOpened:
    """The first launcher said what the job is."""

    spec: JobSpec
    attempt: Attempt
    because: Because


@dataclass(frozen=True, slots=True)
class AttemptRaised:
    """A new launch of the job: cycles and the budget begin anew, generations do not."""

    attempt: Attempt
    spec: JobSpec
    because: Because


@dataclass(frozen=True, slots=True)
class JournalBehindAdopted:
    """A launcher knew a higher number than this journal: everything up to the adopted one is fenced."""

    generation: Generation
    attempt: Attempt
    because: Because


@dataclass(frozen=True, slots=True)
class NodeAdmitted:
    """A node is known, with this launcher."""

    entry: NodeEntry


@dataclass(frozen=True, slots=True)
class NodesAdmitted:
    """Nodes are known, each with its launcher: those that came at about the same time."""

    entries: tuple[NodeEntry, ...]


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node's lease is over, or its launcher is dead, or it was given up."""

    node: NodeId
    because: Because


@dataclass(frozen=True, slots=True)
class NodeReturned:
    """A lost node is back and holds nothing of a fenced generation."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class IncidentOpened:
    """A fault fenced the running generation."""

    incident: IncidentId
    fault: FaultRecord
    opened_wall: Wall
    view: IncidentView


@dataclass(frozen=True, slots=True)
class FaultJoined:
    """Another fault of the open incident, in the round that is open already."""

    incident: IncidentId
    fault: FaultRecord


@dataclass(frozen=True, slots=True)
class RoundReopened:
    """A fault before the first committed step: the incident goes on with a further round."""

    incident: IncidentId
    round: int
    fault: FaultRecord
    opened_wall: Wall
    view: IncidentView


@dataclass(frozen=True, slots=True)
class VerdictLatched:
    """The one verdict of this incident and round."""

    incident: IncidentId
    round: int
    verdict: Verdict
    verdict_wall: Wall


@dataclass(frozen=True, slots=True)
class NoRestartLatched:
    """A STOP came too late for its incident; it holds at the next fault."""

    no_restart: NoRestart


@dataclass(frozen=True, slots=True)
class ProgressBaselineRead:
    """The checkpoint marker before the workers of this attempt ever ran, as far as anyone could read it."""

    value: int
    generation: Generation


@dataclass(frozen=True, slots=True)
class ProgressChecked:
    """The progress of the cycle that this round ended; the verdict is asked for with it."""

    incident: IncidentId
    round: int
    check: ProgressCheck


@dataclass(frozen=True, slots=True)
class CulpritChanged:
    """What became known before this round's verdict names another culprit: what policy is asked from here on."""

    incident: IncidentId
    round: int
    view: IncidentView


@dataclass(frozen=True, slots=True)
class SplitRuledOut:
    """The fenced generation may be replaced though not all of its nodes confirmed their teardown; why."""

    generation: Generation
    because: Because


@dataclass(frozen=True, slots=True)
class RestartCharged:
    """One restart is spent."""

    incident: IncidentId
    round: int
    cause: FaultCause = FaultCause.OTHER


@dataclass(frozen=True, slots=True)
class RankReplaced:
    """A fresh process is granted in the place of a rank that was lost while ranks restart in place: a restart spent."""

    replaced: ReplacedRank


@dataclass(frozen=True, slots=True)
class ReplacementSettled:
    """It came, or was given up for the reason that the sentence says."""

    node: NodeId
    generation: Generation
    number: int
    pid: int
    at: Wall
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class RestartRefunded:
    """The job was healthy for so long that its newest restart is given back."""

    at: Wall


@dataclass(frozen=True, slots=True)
class RoundClosed:
    """A generation is formed. `down_wall`: when the last node of the one before was out of the way."""

    formation: Formation
    down_wall: Wall | None = None


@dataclass(frozen=True, slots=True)
class MilestoneKnown:
    """For the first time in this job a worker reported this milestone."""

    kind: MilestoneKind


@dataclass(frozen=True, slots=True)
class NodeFinished:
    """All workers of the generation exited 0 on this node."""

    node: NodeId
    generation: Generation
    stopped: bool = False
    """Some of them because they were told to stop."""


@dataclass(frozen=True, slots=True)
class DrainOrdered:
    """The ranks are to save and stop at one step."""

    drain: Drain


@dataclass(frozen=True, slots=True)
class NodeDrained:
    """An operator wants a node free: its launcher takes part in no later round, and leaves."""

    node: NodeId
    because: Because


@dataclass(frozen=True, slots=True)
class StopAgreed:
    """The step at which all ranks stop; 0: at once, for want of an agreement."""

    generation: Generation
    step: int
    because: Because


@dataclass(frozen=True, slots=True)
class RecoveryClosed:
    """The incident is over; its record."""

    record: RecoveryRecord


@dataclass(frozen=True, slots=True)
class RecoveryAmended:
    """Spans that came after the record was closed."""

    incident: IncidentId
    spans: tuple[RecoverySpan, ...]


@dataclass(frozen=True, slots=True)
class NodeExcluded:
    """A machine is out of later rounds, with every node that is on it."""

    node: NodeId
    """Its name when it was excluded."""
    exclusion: Exclusion
    identity: Identity | None = None
    """The machine; None: the one that the node is on."""


@dataclass(frozen=True, slots=True)
class NodeReadmitted:
    """An exclusion is over."""

    node: NodeId
    because: Because
    identity: Identity | None = None
    """The machine; None: the one the node is on, and every one that was excluded under its name."""


@dataclass(frozen=True, slots=True)
class OffenceNoted:
    """A fault that cost a generation began on this machine."""

    offence: Offence


@dataclass(frozen=True, slots=True)
class WouldExclude:
    """A verdict named the node, but without it MIN could not be reached: it is kept."""

    node: NodeId
    because: Because


@dataclass(frozen=True, slots=True)
class RecommendationRecorded:
    """Attribution recommended something."""

    said: Recommendation
    at: Wall


@dataclass(frozen=True, slots=True)
class Terminated:
    """The attempt is over; the first terminal decision stays."""

    decision: TerminalDecision


@dataclass(frozen=True, slots=True)
class StoreWritten:
    """A key of the store has this entry now; None: it is gone."""

    key: str
    entry: StoreEntry | None


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """A request id got this answer."""

    request: RequestId
    answer: PutDone | Added | Swapped | Deleted | OrderTaken


@dataclass(frozen=True, slots=True)
class TimeBooked:
    """What the job spent its time on since the last of these."""

    bookings: tuple[Booking, ...]


Fact = (
    JobOpened
    | AttemptRaised
    | JournalBehindAdopted
    | NodeAdmitted
    | NodesAdmitted
    | NodeLost
    | NodeReturned
    | IncidentOpened
    | FaultJoined
    | RoundReopened
    | VerdictLatched
    | NoRestartLatched
    | ProgressBaselineRead
    | ProgressChecked
    | CulpritChanged
    | SplitRuledOut
    | RestartCharged
    | RankReplaced
    | ReplacementSettled
    | RestartRefunded
    | RoundClosed
    | MilestoneKnown
    | NodeFinished
    | DrainOrdered
    | NodeDrained
    | StopAgreed
    | RecoveryClosed
    | RecoveryAmended
    | NodeExcluded
    | NodeReadmitted
    | WouldExclude
    | RecommendationRecorded
    | OffenceNoted
    | Terminated
    | StoreWritten
    | RequestAnswered
    | TimeBooked
)
