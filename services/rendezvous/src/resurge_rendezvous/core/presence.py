"""The volatile half of the state: leases, streams, beats, milestones, timers. Never journaled.

It is relearned after a restart, because launchers send their whole observed state on every stream. Values only, all
persistent: one beat changes one part of the seat table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from resurge_libs.core.ids import Generation, Incarnation, IncidentId, NodeId
from resurge_libs.core.instant import Instant, Wall, earliest
from resurge_libs.core.lease import Lease
from resurge_libs.core.ledger import Booking
from resurge_libs.core.reasons import Because
from resurge_libs.core.values import quick, replace
from resurge_rendezvous.core.causes import FaultRecord
from resurge_rendezvous.core.job import Assignment, Formation, Job, RecoverySpan
from resurge_rendezvous.core.muster_values import JobMuster
from resurge_rendezvous.core.offers import StepCounts
from resurge_rendezvous.core.questions import NOTHING_ASKED, Questions
from resurge_rendezvous.core.replacement_values import Refusal
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.values import AbortNotice, Draining, Goal, MilestoneKind, NodePhase, Observed

NOTHING_OBSERVED = Observed(NodePhase.UNKNOWN)


@quick
@dataclass(frozen=True, slots=True)
class ClockReading:
    """How far a node's clock is from the service's: service time = launcher time + offset, within ± error."""

    offset_s: float
    error_s: float


@dataclass(frozen=True, slots=True)
class Seat:
    """One attached node, or one whose lease is not over yet."""

    node: NodeId
    incarnation: Incarnation
    lease: Lease | None
    """None: it lost its lease and gets it back when it holds nothing of a fenced generation."""
    granted_s: float = 0.0
    """How long the lease was that its last beat earned; 0 before the first."""
    leaving: Because | None = None
    """It was told to leave, and does not come back with this incarnation."""
    notice: Because | None = None
    """It was told to leave, and stays until its workers have saved and stopped."""
    doomed: Because | None = None
    """Why its lease is not renewed any more; it is lost when the lease last granted is over."""
    stream: str | None = None
    """None while its stream is broken, or not there yet after a restart of the service."""
    closed_by_peer_at: Instant | None = None
    """When its kernel closed the stream; None while it is open or merely silent."""
    silent_since: Wall | None = None
    """When its stream broke, for the first signal of a loss."""
    unseen_s: float = 0.0
    """For how long before that it may have been broken unseen."""
    said_at: Wall | None = None
    """When it sent its newest beat, as early as its clock allows; None while that is not known."""
    last_heard: Wall | None = None
    observed: Observed = NOTHING_OBSERVED
    revision: int = 0
    down_revision: int = 0
    """Revision of the first goal after the last Run; READY that has seen it is clear. 0 while Run is the goal."""
    sent: Goal | None = None
    """The goal last sent on the present stream."""
    clock: ClockReading | None = None
    log_root: str = ""
    """Where its workers' output goes; for records only."""
    log_prefix: str = ""
    """Of the files of the cycles, where it goes there instead; for records only."""
    predecessor_until: Instant | None = None
    """Until then workers of an earlier launcher of this node may live on another host; None: there are none."""

    @property
    def is_going(self) -> bool:
        """Whether this launcher was told to leave, whatever it still does."""
        return self.leaving is not None or self.notice is not None


@dataclass(frozen=True, slots=True)
class LiveAbort:
    """The notice of a guard that fired, until it is old."""

    notice: AbortNotice
    until: Instant
    generation: Generation


@dataclass(frozen=True, slots=True)
class Timers:
    """Every instant that the machine waits for; None where it waits for nothing."""

    sweep_at: Instant | None = None
    """No lease and no resume window ends before this: beats only move them away."""
    verdict_at: Instant | None = None
    refund_at: Instant | None = None
    """A restart is given back unless something fails before."""
    marker_at: Instant | None = None
    """The verdict is asked for without the cycle's progress if that is not known by then."""
    not_before: Instant | None = None
    """A round does not close earlier: backoff, or unknown nodes that may still come back."""
    last_call_at: Instant | None = None
    quorum_at: Instant | None = None
    all_lost_at: Instant | None = None
    teardown_at: Instant | None = None
    """Nodes that have not confirmed their teardown by then are given up."""
    fence_at: Instant | None = None
    """Faults are held while some nodes are finished; then they fence."""
    skew_at: Instant | None = None
    start_phase_at: Instant | None = None
    settle_at: Instant | None = None
    exclusion_at: Instant | None = None
    agree_at: Instant | None = None
    """Nodes that have not said by then where their ranks could stop are not waited for."""
    drain_at: Instant | None = None
    """The grace of a drain is over."""
    abort_at: Instant | None = None
    """The news that a guard fired is old."""
    muster_at: Instant | None = None
    """Ranks that restart in place have not all come by then."""

    def earliest(self) -> Instant | None:
        """When a tick is wanted next."""
        return earliest(*_instants_of(self))

    def shifted(self, for_s: float) -> Timers:
        """All of them later, as after a pause of the service."""
        return replace(
            self,
            **{
                item.name: Instant(value + for_s)
                for item in fields(self)
                if (value := getattr(self, item.name)) is not None
            },
        )


_instants_of: Callable[[Timers], tuple[Instant | None, ...]] = attrgetter(*(item.name for item in fields(Timers)))


@dataclass(frozen=True, slots=True)
class RankStart:
    """How far one rank's start is, in the service's time."""

    node: NodeId
    at: tuple[tuple[MilestoneKind, Wall], ...] = ()
    restored_step: int | None = None

    def when(self, kind: MilestoneKind) -> Wall | None:
        """When the rank reached a milestone."""
        return next((at for known, at in self.at if known is kind), None)


@dataclass(frozen=True, slots=True)
class StartWatch:
    """The start of the running generation, rank by rank."""

    ranks: ShardMap[RankStart] = field(default_factory=ShardMap)
    """By the rank's number as text; ranks that have reported something."""
    reached: tuple[tuple[MilestoneKind, int], ...] = ()
    """How many ranks reached a milestone, or a later one."""
    running: ShardMap[Wall] = field(default_factory=ShardMap)
    """Nodes that have reported RUNNING (or FINISHED), and when."""


@dataclass(frozen=True, slots=True)
class Presence:
    """All volatile state."""

    seats: ShardMap[Seat] = field(default_factory=ShardMap)
    ready: ShardMap[None] = field(default_factory=ShardMap)
    """Nodes that could take part in a round: attached, clear, with a store offer, not excluded, not leaving."""
    busy: ShardMap[None] = field(default_factory=ShardMap)
    """Nodes that hold a lease and may hold workers of a generation."""
    confirmed: ShardMap[None] = field(default_factory=ShardMap)
    """Members of the newest closed round that confirmed their teardown."""
    unfinished: ShardMap[None] = field(default_factory=ShardMap)
    """Members of the running generation that have not finished."""
    unacknowledged: ShardMap[None] = field(default_factory=ShardMap)
    """Nodes that have not acknowledged the terminal decision and whose lease is not over."""
    members: ShardMap[Assignment] = field(default_factory=ShardMap)
    """The assignments of the newest closed round, by node."""
    known_dead: ShardMap[Instant] = field(default_factory=ShardMap)
    """Lost members whose kernel closed the stream, and until when their lease would have lasted."""
    timers: Timers = Timers()
    policy_asked: bool = False
    questions: Questions = NOTHING_ASKED
    fenced_at: Instant | None = None
    """When the open round's fault fenced; None where that was in an earlier life of the service."""
    last_call_over: bool = False
    stop_hold: int | None = None
    """The step at which all nodes are asked to hold their ranks."""
    held_faults: tuple[FaultRecord, ...] = ()
    """Faults that wait for `fence_at` because some nodes are finished."""
    start: StartWatch = field(default_factory=StartWatch)
    down_wall: Wall | None = None
    """When the last node of the fenced generation was out of the way."""
    spans: ShardMap[tuple[RecoverySpan, ...]] = field(default_factory=ShardMap)
    """What launchers reported of the open recovery, by node, in the service's time."""
    spans_of: IncidentId | None = None
    waits_for: Because | None = None
    """What the next round waits for."""
    bookings: tuple[Booking, ...] = ()
    """Of the ledger, not journaled yet."""
    last_step: int | None = None
    """The highest step that an exit record of the newest generation names."""
    offers: ShardMap[Draining] = field(default_factory=ShardMap)
    """What unfinished nodes that have offered say, while a step to stop at is agreed on."""
    aborts: tuple[LiveAbort, ...] = ()
    """Guards that fired a moment ago."""
    muster: JobMuster | None = None
    """Ranks of several nodes that restart in place."""
    refusals: ShardMap[Refusal] = field(default_factory=ShardMap)
    """Of fresh processes in the places of lost ranks; the newest of each node."""
    unheard: NodeId | None = None
    """A member that has not told of the generation, where a fresh process waits to be granted until it has."""
    out_of_place: ShardMap[None] = field(default_factory=ShardMap)
    """Nodes whose launcher follows no orders to ranks that restart in place."""
    step_counts: StepCounts | None = None
    """Of those offers; None where they are still to be collected from the seats."""


class OpenPresence(Presence):
    """The volatile half while one step makes it: fields are set in place, and tables that much is put into are open.

    It is a copy that is made whole and becomes the frozen value where it stands, as most events change two fields of
    it. Whoever opened it owns it, and lets go of it when it is closed.
    """

    __slots__ = ()

    @staticmethod
    def of(was: Presence, in_bulk: bool) -> OpenPresence:
        """The open copy; `in_bulk`: with open tables."""
        seen = replace(was)
        _set(seen, "__class__", OpenPresence)
        assert isinstance(seen, OpenPresence), "it has the same slots"
        if in_bulk:
            seen.set(start=replace(was.start, ranks=was.start.ranks.opened(), running=was.start.running.opened()))
            seen.set(**{name: value.opened() for name, value in _tables_of(was)})
        return seen

    def set(self, **changes: object) -> None:
        """Set fields."""
        for name, value in changes.items():
            _set(self, name, value)

    def closed(self, in_bulk: bool) -> Presence:
        """The frozen value."""
        if in_bulk:
            self.set(start=replace(self.start, ranks=self.start.ranks.closed(), running=self.start.running.closed()))
            self.set(**{name: value.closed() for name, value in _tables_of(self)})
        _set(self, "__class__", Presence)
        return self


def _tables_of(seen: Presence) -> list[tuple[str, ShardMap[Any]]]:
    values = [(item.name, getattr(seen, item.name)) for item in fields(Presence)]
    return [(name, value) for name, value in values if isinstance(value, ShardMap)]


_set = object.__setattr__


@quick
@dataclass(frozen=True, slots=True)
class RdzvState:
    """The whole state: the durable half is the fold of the journal's facts."""

    durable: Job
    volatile: Presence


def reader_of(formation: Formation, seen: Presence) -> NodeId | None:
    """The member that reads the marker: the one with the lowest ranks that can be heard; None where none can."""
    for place in formation.assignments:
        seat = seen.seats.get(place.node)
        if seat is not None and seat.stream is not None and seat.incarnation == place.incarnation:
            return place.node
    return None
