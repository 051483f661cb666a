"""One step in the making: collects facts, actions and volatile changes while the rules look at one event.

A draft lives inside one call of `step` and is owned by it; what leaves are frozen values. Durable changes happen only
by `record`, which folds the fact at once, so that rules further down see what those above decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from resurge_libs.core.instant import Instant, earliest
from resurge_libs.core.machine import Step
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_rendezvous.core.actions import Action, PublishJob, SendDesired
from resurge_rendezvous.core.facts import Fact
from resurge_rendezvous.core.fold import evolve
from resurge_rendezvous.core.goals import goal_of
from resurge_rendezvous.core.job import Job
from resurge_rendezvous.core.limits import CoreSettings
from resurge_rendezvous.core.nodes import NodeEntry
from resurge_rendezvous.core.presence import OpenPresence, RdzvState, Seat
from resurge_rendezvous.core.values import Desired, JobSpec, NodePhase, Run, Stamp

NOTHING_CHANGED = Because(Reason.NOTHING_CHANGED)


class Draft:
    """The state as it is becoming, and what is to be told to whom."""

    def __init__(
        self, state: RdzvState, stamp: Stamp, now: Instant, settings: CoreSettings, in_bulk: bool = False
    ) -> None:
        self.job: Job = state.durable
        self.seen = OpenPresence.of(state.volatile, in_bulk)
        self._in_bulk = in_bulk
        self._was = state.volatile
        self.stamp, self.now, self.settings = stamp, now, settings
        self.limits = settings.limits_for(self.job.spec)
        self.facts: list[Fact] = []
        """Of the event at hand."""
        self.restated: dict[str, None] = {}
        """Nodes whose seat changed since a drain was last settled."""
        self.told_to_go = False
        """Somebody was told to leave by the event at hand."""
        self._earlier: list[Fact] = []
        self.actions: list[Action] = []
        self.because = NOTHING_CHANGED
        self._touched: dict[str, None] = {}
        self._all_touched = False
        self._changed = False
        self._is_other = False

    def turn_to(self, stamp: Stamp) -> None:
        """The next of several events: what the one before wanted told is told first."""
        self._tell_touched()
        self._earlier += self.facts
        self.facts, self.told_to_go = [], False
        self.stamp, self.because = stamp, NOTHING_CHANGED
        self.limits = self.settings.limits_for(self.job.spec)

    # durable

    def record(self, fact: Fact) -> None:
        """Journal a fact and fold it."""
        self.job = evolve(self.job, fact)
        self.facts.append(fact)

    def entry(self, node: str) -> NodeEntry:
        """The entry of an admitted node."""
        entry = self.job.nodes.get(node)
        assert entry is not None, f"{node} has a seat but was never admitted"
        return entry

    @property
    def spec(self) -> JobSpec:
        """What the job is, once it is open."""
        assert self.job.spec is not None, "no job is open"
        return self.job.spec

    # volatile

    def see(self, **changes: Any) -> None:
        """Change fields of the volatile half."""
        self.seen.set(**changes)
        self._is_other = True

    def set_timers(self, **changes: Instant | None) -> None:
        """Set or clear timers by name."""
        self.see(timers=replace(self.seen.timers, **changes))

    def put_seat(self, seat: Seat) -> None:
        """Set one node's seat; a lease that may end earlier than all others brings the sweep forward."""
        self.see(seats=self.seen.seats.put(seat.node, seat))
        self.restated[seat.node] = None
        due = earliest(self.lease_end(seat), seat.predecessor_until)
        if due is not None and (self.seen.timers.sweep_at is None or due < self.seen.timers.sweep_at):
            self.set_timers(sweep_at=due)

    def drop_seat(self, node: str) -> None:
        """A node has no seat any more."""
        self.see(seats=self.seen.seats.drop(node))
        self.restated[node] = None

    def put_seats(self, seats: Sequence[tuple[str, Seat]]) -> None:
        """Set the seats of many nodes that have said nothing new."""
        if not seats:
            return
        self.see(seats=self.seen.seats.put_all(seats))
        due = earliest(*(earliest(self.lease_end(seat), seat.predecessor_until) for _, seat in seats))
        if due is not None and (self.seen.timers.sweep_at is None or due < self.seen.timers.sweep_at):
            self.set_timers(sweep_at=due)

    def lease_end(self, seat: Seat) -> Instant | None:
        """When a seat is lost unless something is heard: its lease, or sooner where its kernel closed the stream."""
        if seat.lease is None:
            return None
        if seat.closed_by_peer_at is not None:
            limits, in_incident = self.limits, self.job.open_incident is not None
            wait_s = limits.resume_window_s if in_incident else limits.stream_loss_limit_s
            return earliest(seat.lease.until, Instant(seat.closed_by_peer_at + wait_s))
        return seat.lease.until

    def mark_ready(self, node: str) -> None:
        """Judge anew whether a node could take part in a round."""
        seat = self.seen.seats.get(node)
        is_ready = (
            seat is not None
            and seat.lease is not None
            and seat.stream is not None
            and seat.observed.phase is NodePhase.READY
            and seat.observed.store_offer is not None
            and not seat.is_going
            and seat.doomed is None
            and node not in self.seen.busy
            and self.entry(node).exclusion is None
            and self.entry(node).drained is None
        )
        if is_ready != (node in self.seen.ready):
            ready = self.seen.ready.put(node, None) if is_ready else self.seen.ready.drop(node)
            self.see(ready=ready)
            self._changed = True

    # telling

    def do(self, action: Action) -> None:
        """Order an effect."""
        self.actions.append(action)

    def touch(self, node: str) -> None:
        """This node's goal may have changed."""
        self._touched[node] = None

    def touch_all(self) -> None:
        """Everybody's goal may have changed."""
        self._all_touched = True

    def changed(self) -> None:
        """Observers see a difference, though nothing durable changed."""
        self._changed = True

    def finish(self) -> Step[RdzvState]:
        """The step: goals that changed are sent, observers are told, and the frozen state leaves."""
        self._tell_touched()
        facts = (*self._earlier, *self.facts)
        if facts or self._changed:
            self.do(PublishJob())
        volatile = self.seen.closed(self._in_bulk) if self._is_other else self._was
        return Step(RdzvState(self.job, volatile), tuple(self.actions), self.because, facts)

    def _tell_touched(self) -> None:
        if self._all_touched:
            self._send_goals(self.seen.seats.values())
        elif self._touched:
            self._send_goals(seat for node in self._touched if (seat := self.seen.seats.get(node)) is not None)
        self._touched, self._all_touched = {}, False

    def _send_goals(self, seats: Iterable[Seat]) -> None:
        told = [(seat.node, now) for seat in seats if (now := self._told(seat)) is not None]
        if told:
            self.see(seats=self.seen.seats.put_all(told))

    def _told(self, seat: Seat) -> Seat | None:
        """The seat once its goal was sent; None where there is nothing new to send, or no way."""
        if seat.stream is None:
            return None
        goal = goal_of(self.job, self.seen, seat)
        if goal == seat.sent:
            return None
        revision = seat.revision + 1
        down_revision = 0 if isinstance(goal, Run) else (seat.down_revision or revision)
        self.do(SendDesired(seat.node, seat.stream, Desired(revision, goal, self.job.generation)))
        return replace(seat, revision=revision, sent=goal, down_revision=down_revision)
