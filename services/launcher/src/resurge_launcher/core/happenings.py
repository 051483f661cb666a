"""What can happen to the launcher (events) and what it can do (actions), as values. No effects; see ../agent.py."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_launcher.core.abort_state import AbortNotice
from resurge_launcher.core.goals import NO_GENERATION, NO_INCIDENT, Goal, RunGoal
from resurge_launcher.core.looks import Inspect as Inspect
from resurge_launcher.core.looks import Inspected as Inspected
from resurge_launcher.core.model import (
    ExitRecord,
    Fault,
    Milestone,
    PageReading,
    Span,
    StoreOffer,
)
from resurge_launcher.core.muster_state import ForRanks, MusterHeard, MusterReport
from resurge_launcher.core.reclaim import GpuReading, Reclaim
from resurge_launcher.core.replacement_state import FromForkServer, Replacement
from resurge_launcher.core.sent_signals import PassOn as PassOn
from resurge_launcher.core.sent_signals import SignalWorkers as SignalWorkers
from resurge_launcher.core.worker_news import CrashSpared, GuardFired, LoopCrashed, OrderAbort, ScriptOver
from resurge_libs.core.end_cause import EndCause
from resurge_libs.core.ids import Generation, IncidentId, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.progress import CycleProgress, MarkerReading
from resurge_libs.core.reasons import Because
from resurge_libs.core.values import quick

# ------------------------------------------------------------------------------------------------------ events


@dataclass(frozen=True, slots=True)
class DesiredReceived:
    """Rendezvous said what this node should be."""

    revision: int
    goal: Goal
    current_generation: Generation = NO_GENERATION


@dataclass(frozen=True, slots=True)
class StreamUp:
    """Rendezvous answers on a new stream."""


@dataclass(frozen=True, slots=True)
class StreamLost:
    """The stream broke, or could not be opened."""

    sentence: str = ""


class Refusal(StrEnum):
    """Definite answers of rendezvous to this launcher."""

    SUPERSEDED = "superseded"
    ALREADY_ATTACHED = "already_attached"
    NOT_WELCOME = "not_welcome"
    """Wrong job, wrong version, bad request, no token: trying again cannot help."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Rendezvous will not have this launcher."""

    refusal: Refusal
    because: Because


@quick
@dataclass(frozen=True, slots=True)
class BeatAcked:
    """A beat sent at the instant was answered."""

    sent_at: Instant
    lease_ttl_s: float


@dataclass(frozen=True, slots=True)
class SpawnDone:
    """The workers of the generation were started; (local rank, pid) of each."""

    generation: Generation
    pids: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    """A worker could not be started; those in `pids` were."""

    generation: Generation
    because: Because
    pids: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerExited:
    """A worker was reaped."""

    generation: Generation
    local_rank: int
    pid: int
    at: Instant
    exit_code: int | None = None
    signal: int | None = None
    last_step: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class WorkerDying:
    """The kernel takes a worker apart; its end is known as WorkerExited will tell it, but it is not reaped yet."""

    end: WorkerExited


@quick
@dataclass(frozen=True, slots=True)
class PagesRead:
    """The pages of the generation's workers, read now."""

    generation: Generation
    readings: tuple[PageReading, ...]


@dataclass(frozen=True, slots=True)
class MarkerRead:
    """A look at the checkpoint marker is over, or was given up."""

    generation: Generation
    at_start: bool
    reading: MarkerReading


@dataclass(frozen=True, slots=True)
class GpuMemoryRead:
    """What the driver says of the GPUs' memory; `problem` where none could be asked at all."""

    generation: Generation
    readings: tuple[GpuReading, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class StraysGone:
    """A full look found no descendant of the generation, nor anything carrying (job, node)."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class SignalReceived:
    """The launcher itself was signalled."""

    signal: int


@dataclass(frozen=True, slots=True)
class StoreReserved:
    """A port is held for the c10d store of the next generation."""

    offer: StoreOffer


@dataclass(frozen=True, slots=True)
class Paused:
    """The launcher itself did not run for so long."""

    for_s: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline passed."""


Event = (
    DesiredReceived
    | StreamUp
    | StreamLost
    | Refused
    | BeatAcked
    | SpawnDone
    | SpawnFailed
    | WorkerExited
    | WorkerDying
    | PagesRead
    | Inspected
    | MarkerRead
    | GpuMemoryRead
    | StraysGone
    | SignalReceived
    | StoreReserved
    | Paused
    | Tick
    | GuardFired
    | LoopCrashed
    | MusterHeard
    | CrashSpared
    | ScriptOver
    | FromForkServer
)

# ----------------------------------------------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True)
class SpawnWorkers:
    """Start the generation's workers, all of them; answer with SpawnDone or SpawnFailed."""

    run: RunGoal


@dataclass(frozen=True, slots=True)
class SweepStrays:
    """End what workers left behind; answer StraysGone when a full look finds nothing. May be asked again, harder."""

    generation: Generation
    signal: int


@dataclass(frozen=True, slots=True)
class ReserveStore:
    """Hold a new port for the c10d store of the next generation; answer StoreReserved."""


@quick
@dataclass(frozen=True, slots=True)
class ReadPages:
    """Read the pages of the generation's workers; answer PagesRead."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class ReadGpuMemory:
    """Ask the driver for the memory of the GPUs; answer GpuMemoryRead within a limit, whatever the driver does."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class TellReclaim:
    """Tell people how the wait for the GPUs' memory ended."""

    reclaim: Reclaim


@dataclass(frozen=True, slots=True)
class ReadMarker:
    """Look at the checkpoint marker; answer MarkerRead within `marker_read_limit_s`, whatever the file system does."""

    generation: Generation
    at_start: bool


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Write generation and end of lease into the page of every living worker; None: no lease."""

    generation: Generation
    until: Instant | None


@dataclass(frozen=True, slots=True)
class Fence:
    """The generation is over for good: no worker of it may commit anything, whatever its lease says."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class WriteStop:
    """Hold the generation's workers at a step, or tell them to stop at one; 0 for at once, None for no change."""

    generation: Generation
    held: int | None = None
    decided: int | None = None
    alone: bool = False
    """Decided by this launcher for its own ranks: nobody could be asked."""


@dataclass(frozen=True, slots=True)
class TellFault:
    """Show people who failed and what it printed last; `record` is there when it is about an exit."""

    generation: Generation
    because: Because
    rank: Rank | None = None
    record: ExitRecord | None = None


@dataclass(frozen=True, slots=True)
class ExitWith:
    """Leave: say goodbye on the stream, then exit with the code."""

    code: int
    because: Because
    cause: EndCause = EndCause.UNKNOWN


class NodePhase(StrEnum):
    """Where the node stands, in the words of the wire."""

    READY = "READY"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    TEARING_DOWN = "TEARING_DOWN"
    FINISHED = "FINISHED"
    STUCK = "STUCK"
    LEAVING = "LEAVING"


@quick
@dataclass(frozen=True, slots=True)
class Process:
    """A worker and the process that it is, or was."""

    rank: Rank
    local_rank: int
    pid: int


@quick
@dataclass(frozen=True, slots=True)
class Draining:
    """What is seen of the end of the workers by agreement."""

    notice_signal: int | None = None
    grace_s: float = 0.0
    """From that signal to the end of the grace."""
    asks: bool = False
    """Every living worker asks whether to stop."""
    offer: int | None = None
    held: int | None = None
    """None of this node's ranks passes this step."""
    told: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Observed:
    """The node's whole observed state; repeats are harmless."""

    phase: NodePhase
    generation: Generation
    revision_seen: int = 0
    exits: tuple[ExitRecord, ...] = ()
    faults: tuple[Fault, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    spans: tuple[Span, ...] = ()
    incident_id: IncidentId = NO_INCIDENT
    store_offer: StoreOffer | None = None
    exit_acknowledged: bool = False
    leaving_signal: int | None = None
    workers: tuple[Process, ...] = ()
    progress: CycleProgress | None = None
    draining: Draining = Draining()
    aborts: tuple[AbortNotice, ...] = ()
    muster: MusterReport | None = None
    replacements: tuple[Replacement, ...] = ()


@dataclass(frozen=True, slots=True)
class SendObserved:
    """Tell rendezvous; emitted with every change."""

    observed: Observed
    beats: bool = False
    """With a beat, at once: its answer says that all of it arrived."""


Action = (
    SpawnWorkers
    | SignalWorkers
    | PassOn
    | SweepStrays
    | ReserveStore
    | ReadPages
    | Inspect
    | ReadMarker
    | ReadGpuMemory
    | TellReclaim
    | WriteLease
    | Fence
    | WriteStop
    | TellFault
    | ExitWith
    | SendObserved
    | OrderAbort
    | ForRanks
)
