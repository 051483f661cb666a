"""The words of the launcher: its states, what can happen to it, what it can be told to do, what it can do.

Decides nothing (see step.py) and has no effects (see ../agent.py). All times are instants of this machine's
monotonic clock, which the workers' pages use too; the shell turns them into wall-clock time on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resurge_launcher.core.abort_state import NO_ABORTS, Aborts, Condemned
from resurge_launcher.core.draining import NOT_STOPPING, Goodbye, Notice, Stop
from resurge_launcher.core.findings import Captures, Inspection
from resurge_launcher.core.goals import NO_ATTEMPT, NO_GENERATION, NO_INCIDENT, Goal, RunGoal
from resurge_launcher.core.ladders import Ladder
from resurge_launcher.core.muster_state import Muster
from resurge_launcher.core.readings import NOT_WATCHED
from resurge_launcher.core.readings import Milestone as Milestone
from resurge_launcher.core.readings import MilestoneKind as MilestoneKind
from resurge_launcher.core.readings import PageReading as PageReading
from resurge_launcher.core.readings import Watch as Watch
from resurge_launcher.core.reclaim import Reclaim, ReclaimRules
from resurge_launcher.core.sent_signals import KeptSignal
from resurge_libs.core.ids import Attempt, Generation, IncidentId, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.lease import Lease
from resurge_libs.core.progress import CycleProgress, ProgressSource
from resurge_libs.core.reasons import Because
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.core.values import quick, replace


class OnLostControl(StrEnum):
    """What becomes of workers that progress while the control plane is out of reach."""

    KEEP = "keep"
    STOP = "stop"


class OnExcluded(StrEnum):
    """What an excluded launcher does until the job ends."""

    PARK = "park"
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings the machine decides by."""

    limits: TimeLimits
    local_world_size: int
    term_timeout_s: float = 30.0
    on_lost_control: OnLostControl = OnLostControl.KEEP
    on_excluded: OnExcluded = OnExcluded.PARK
    pass_on_signals: frozenset[int] = frozenset()
    """Signals that are forwarded to the workers without ending anything (Slurm's SIGUSR1)."""
    drain_signals: frozenset[int] = frozenset()
    """Signals that give notice: ranks that ask whether to stop are told so at a common step."""
    preempted_exit_code: int = 0  # 0: 128 + the signal
    reclaim: ReclaimRules | None = None  # None: no GPU here, or the wait is switched off
    page_interval_s: float = 0.5
    """How often pages are read when no deadline asks for it sooner."""
    progress: ProgressSource = ProgressSource.NONE
    reads_marker: bool = False
    """A checkpoint marker was named, to be counted or to be shown."""
    replaces: bool = False
    """A fork server is kept: a rank that is lost while it restarts in place may get a fresh process."""
    captures: Captures | None = None
    """When stacks are taken of workers that hang; None: they are ended without a look at them."""


NOTHING_READ = CycleProgress()
"""Of a generation whose progress nobody has looked at."""

# ------------------------------------------------------------------------------------- one worker, nested machine


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How one worker ended."""

    rank: Rank
    local_rank: int
    pid: int
    at: Instant
    exit_code: int | None = None
    signal: int | None = None
    last_step: int | None = None
    error: str = ""
    ended_by_launcher: bool = False
    forgiven: bool = False
    """The others go on in place without it: no fault."""

    @property
    def succeeded(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Awaited:
    """To be started; no process yet."""


@quick
@dataclass(frozen=True, slots=True)
class Alive:
    """A process of ours."""

    pid: int
    watch: Watch = NOT_WATCHED
    signalled: int | None = None


@dataclass(frozen=True, slots=True)
class Dying:
    """At its end by a fault of its own, which counts already; its process is still there."""

    record: ExitRecord


@dataclass(frozen=True, slots=True)
class Ended:
    """Reaped."""

    record: ExitRecord


WorkerState = Awaited | Alive | Dying | Ended


@quick
@dataclass(frozen=True, slots=True)
class Worker:
    """One training process of one generation."""

    rank: Rank
    local_rank: int
    state: WorkerState = Awaited()


@dataclass(frozen=True, slots=True)
class Fault:
    """A claim about one worker, or about the node (rank None), that is not an exit."""

    because: Because
    at: Instant
    rank: Rank | None = None


@dataclass(frozen=True, slots=True)
class Crew:
    """All workers of one generation on this node, with everything known against them."""

    run: RunGoal
    workers: tuple[Worker, ...]
    faults: tuple[Fault, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    progress: CycleProgress = NOTHING_READ
    stop: Stop = NOT_STOPPING
    aborts: Aborts = NO_ABORTS
    condemned: tuple[Condemned, ...] = ()
    muster: Muster | None = None
    """Of workers that restart in place."""
    inspection: Inspection | None = None
    """The look at its workers that a silence has brought."""
    tidying: frozenset[int] = frozenset()
    """Pids of workers whose script is over; the processes may still be there."""

    @property
    def generation(self) -> Generation:
        """The generation it belongs to."""
        return self.run.generation

    @property
    def exits(self) -> tuple[ExitRecord, ...]:
        """The ends so far, those that are only known to come among them, in the order of local ranks."""
        return tuple([w.state.record for w in self.workers if isinstance(w.state, (Dying, Ended))])

    @property
    def all_ended(self) -> bool:
        """Whether no worker is alive, dying or about to be started."""
        return all(isinstance(w.state, Ended) for w in self.workers)

    def with_worker(self, worker: Worker) -> Crew:
        """The crew with one worker replaced."""
        return replace(self, workers=tuple(worker if w.local_rank == worker.local_rank else w for w in self.workers))


# ----------------------------------------------------------------------------------------------------- teardown


@dataclass(frozen=True, slots=True)
class Teardown:
    """The ending of all workers and descendants of a generation; crew None: leftovers of an older launcher."""

    crew: Crew | None
    generation: Generation
    because: Because
    ladder: Ladder
    began_at: Instant
    climbed: int = 0
    """Rungs done."""
    sweeping: bool = False
    """Strays are being ended and looked for."""
    over: bool = False
    """No worker and no descendant is left."""
    held_until: Instant | None = None
    """An open checkpoint is waited for until then; no rung is climbed before."""


# ------------------------------------------------------------------------------------------------- launcher states


@dataclass(frozen=True, slots=True)
class Ready:
    """Nothing is alive here; `last` keeps the evidence of the crew torn down last."""

    generation: Generation
    last: Crew | None = None


@dataclass(frozen=True, slots=True)
class Delayed:
    """A generation is to be started when its backoff is over."""

    crew: Crew
    ordered_at: Instant
    spawn_at: Instant


@dataclass(frozen=True, slots=True)
class Starting:
    """Workers are being started."""

    crew: Crew
    ordered_at: Instant


@quick
@dataclass(frozen=True, slots=True)
class Running:
    """Workers run; some may have ended with 0."""

    crew: Crew


@dataclass(frozen=True, slots=True)
class Finished:
    """All workers ended with 0."""

    crew: Crew


@dataclass(frozen=True, slots=True)
class TearingDown:
    """Workers are being ended, to be ready again."""

    teardown: Teardown


@dataclass(frozen=True, slots=True)
class Stuck:
    """Something is alive after KILL and the teardown limit."""

    teardown: Teardown


@dataclass(frozen=True, slots=True)
class Leaving:
    """Told to leave by a signal; workers are being ended in the drain ladder."""

    teardown: Teardown
    signal: int
    goodbye: Goodbye | None = None


@dataclass(frozen=True, slots=True)
class Exiting:
    """The exit code is fixed; waits for the teardown and, after a terminal decision, for the acknowledgements."""

    teardown: Teardown
    code: int
    because: Because
    wait_until: Instant
    decided: bool
    """A terminal decision of rendezvous stands behind the code."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The end; what was seen last stays to be told."""

    code: int
    teardown: Teardown
    signal: int | None = None
    """The signal that the launcher left after."""


Phase = Ready | Delayed | Starting | Running | Finished | TearingDown | Stuck | Leaving | Exiting | Exited


@quick
@dataclass(frozen=True, slots=True)
class Control:
    """What the launcher has of the control plane."""

    lost_at: Instant | None
    """Since when there is no stream, counted from the launcher's start before the first; None while there is one."""
    met: bool = False
    """Rendezvous was heard at least once."""
    problem: str = ""
    """What the last attempt to reach it met."""
    lease: Lease | None = None
    held_since: Instant | None = None
    """Since when the lease has held without a gap; None before the first."""

    def holds(self, now: Instant) -> bool:
        """Whether the node has a lease."""
        return self.lease is not None and not self.lease.expired(now)


@dataclass(frozen=True, slots=True)
class Span:
    """One closed phase of a recovery on this node."""

    name: str
    start: Instant
    end: Instant
    rank: Rank | None = None
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """The recovery this node takes part in; spans gathered before the incident has its name wait here."""

    incident_id: IncidentId = NO_INCIDENT
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreOffer:
    """An endpoint held for the c10d store of a coming generation."""

    address: str
    port: int
    is_served: bool = False
    """A store answers there already; else rank 0 opens it."""


@dataclass(frozen=True, slots=True)
class LauncherState:
    """All the launcher knows."""

    phase: Phase
    control: Control
    goal: Goal | None = None
    revision_seen: int = 0
    story: Story = Story()
    offer: StoreOffer | None = None
    highest_generation: Generation = NO_GENERATION
    highest_attempt: Attempt = NO_ATTEMPT
    pages_at: Instant | None = None
    """When pages are to be read next; None while there is nobody to watch."""
    notice: Notice | None = None
    early_notice: Notice | None = None
    """Given while nobody could use it, by a signal that ends nothing."""
    kept_signals: tuple[KeptSignal, ...] = ()
    """To be passed on, for the workers that run here next."""
    reclaim: Reclaim | None = None
    judge_after: Instant | None = None
    """After a pause of the launcher itself silence is not held against workers until then."""
