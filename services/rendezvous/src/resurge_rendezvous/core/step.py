"""The transition function of rendezvous: decides WHO runs. It never asks the time, never waits, never speaks to anyone.

The rules, in prose:

- The first launcher opens the job; every launcher that brings the same specification is let in. MIN nodes run, the
  others are parked; none of them is an error.
- A round closes when MIN nodes are ready. Its generation is a number never used before, and it fences all before it.
- A fault of a member fences the running generation, orders all down and asks policy, in one step. The first journaled
  verdict of a round decides; without policy the default does.
- The next round closes when the verdict is there, the backoff is over, every node of the old generation has confirmed
  its teardown or lost its lease, the lost ones cannot run on unseen, and enough nodes are ready.
- The earliest fault began the story. Of a launcher that is gone only an interval is known where the service had no time
  to look: the end of a rank elsewhere that may be of it, and lies within, does not stand before it (causes.py).
- A verdict judges the culprit that is known when it is taken: where another one becomes known before, the round is put
  anew, and the answer to what was asked before counts for nothing; the wait for it is no longer (asking.py).
- A recovery is over when every rank has committed a step. A fault before that is a further round of the same incident,
  and each closed round is charged to the budget once.
- The job has succeeded when every member has finished. The first terminal decision stays, and everybody is told until
  everybody knows.
- A notice to one node reaches all ranks: they stop at one step that none had passed, and then the job goes on without
  that node where others can take its place, or ends as preempted.
- Beats, streams, phases and milestones are volatile: launchers tell them again. Everything that decides is a fact.

Effects run in effects.py, after the facts are durable.
"""

from __future__ import annotations

from typing import assert_never

from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant
from resurge_libs.core.lease import Lease
from resurge_libs.core.machine import Step
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.core.values import replace
from resurge_libs.core.verdict import VerdictRules
from resurge_rendezvous.core import events as e
from resurge_rendezvous.core.advice import on_recommendation
from resurge_rendezvous.core.crowds import compact, on_many
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.drains import settle_drain
from resurge_rendezvous.core.exclusions import every_exclusion
from resurge_rendezvous.core.facts import Fact
from resurge_rendezvous.core.fold import evolve
from resurge_rendezvous.core.hello import on_hello
from resurge_rendezvous.core.job import Ended, Fenced, Gathering, Job, Proving, Running
from resurge_rendezvous.core.limits import CoreSettings, agreement_limit_s, longest_lease_s, teardown_patience_s
from resurge_rendezvous.core.observing import on_beat, on_beats, on_closed, on_observed
from resurge_rendezvous.core.operators import on_order
from resurge_rendezvous.core.presence import Presence, RdzvState, Seat, Timers
from resurge_rendezvous.core.rounds import advance
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.starts import restored_watch
from resurge_rendezvous.core.store import on_store
from resurge_rendezvous.core.ticking import on_paused, on_tick
from resurge_rendezvous.core.timekeeping import keep_time
from resurge_rendezvous.core.verdicts import on_unavailable, on_verdict
from resurge_rendezvous.core.workload import on_control

RULES_VERSION = 6
"""Rises when the same facts fold to another state, also to one with a field more: 2 bounds remembered answers by bytes
and names orders, 3 bounds remembered records and charges, 4 keeps a table of the machines that are excluded, 5 knows an
excluded machine there under each name and boot id that it came back with, 6 remembers ranks that were replaced."""


class RendezvousMachine:
    """The machine of one job. Holds settings only; all state goes in and comes out."""

    def __init__(self, limits: TimeLimits | None = None, verdict_rules: VerdictRules | None = None) -> None:
        self.settings = CoreSettings(limits or TimeLimits(), verdict_rules or VerdictRules())

    def initial(self) -> RdzvState:
        """Nobody has come yet."""
        return RdzvState(Job(), Presence())

    def step(self, state: RdzvState, event: e.Event | e.StreamsHeard, now: Instant) -> Step[RdzvState]:
        """Decide about one event. Raises a `Refused` that answers a unary request, `Impossible` for a bug of ours."""
        d = Draft(state, event.stamp, now, self.settings, in_bulk=isinstance(event, e.StreamsHeard))
        if isinstance(event, e.StreamsHeard):
            on_many(d, event.heard, _decide)
            step = d.finish()
            return replace(step, facts=compact(step.facts))
        _decide(d, event)
        return d.finish()

    def next_deadline(self, state: RdzvState) -> Instant | None:
        """When a tick is wanted next."""
        return state.volatile.timers.earliest()

    def evolve(self, durable: Job, fact: Fact) -> Job:
        """Fold one fact."""
        return evolve(durable, fact)

    def recovered(self, durable: Job, now: Instant) -> RdzvState:
        """The state after a restart of the service: instants died with it, so every known lease gets a full term and
        the reconnect window; what launchers know they tell again."""
        return RdzvState(durable, _relearned(durable, now, self.settings.limits_for(durable.spec)))


def _decide(d: Draft, event: e.Event) -> None:
    before = d.job
    _handle(d, event)
    if not isinstance(event, (e.BeatReceived, e.BeatsReceived)):
        settle_drain(d)
        advance(d)
        keep_time(d, before, event)


def _handle(d: Draft, event: e.Event) -> None:
    match event:
        case e.HelloReceived():
            on_hello(d, event)
        case e.ObservedReceived():
            on_observed(d, event)
        case e.StreamClosed():
            on_closed(d, event)
        case e.BeatReceived():
            on_beat(d, event)
        case e.BeatsReceived():
            on_beats(d, event)
        case e.VerdictArrived():
            on_verdict(d, event)
        case e.VerdictUnavailable():
            on_unavailable(d, event)
        case e.Tick():
            on_tick(d)
        case e.Paused():
            on_paused(d, event)
        case _:
            _handle_request(d, event)


def _handle_request(d: Draft, event: e.Request) -> None:
    match event:
        case e.ExcludeAsked() | e.ReadmitAsked() | e.ShutdownAsked() | e.DrainAsked():
            on_order(d, event)
        case e.RecommendationMade():
            on_recommendation(d, event)
        case e.ControlAsked():
            on_control(d, event)
        case e.StorePutAsked() | e.StoreAddAsked() | e.StoreCompareAndSetAsked() | e.StoreDeleteAsked():
            on_store(d, event)
        case _:
            assert_never(event)


def _relearned(job: Job, now: Instant, limits: TimeLimits) -> Presence:
    term_s = longest_lease_s(limits, job.spec) + limits.lease_margin_s + limits.reconnect_window_s
    lease = Lease.starting(now, term_s)
    known = [entry for entry in job.nodes if entry.lost is None]
    holders: ShardMap[None] = ShardMap.of((entry.node, None) for entry in known)
    places = job.last_formation.assignments if job.last_formation is not None else ()
    generation = job.last_formation.generation if job.last_formation is not None else Generation(0)
    finished = {entry.node for entry in job.nodes if entry.finished == generation}
    running = isinstance(job.stage, (Running, Proving))
    return Presence(
        seats=ShardMap.of((entry.node, Seat(entry.node, entry.incarnation, lease)) for entry in known),
        busy=ShardMap.of((place.node, None) for place in places if place.node in holders),
        unfinished=ShardMap.of((place.node, None) for place in places if running and place.node not in finished),
        unacknowledged=holders if isinstance(job.stage, Ended) else ShardMap(),
        members=ShardMap.of((place.node, place) for place in places),
        start=restored_watch(),
        spans_of=job.open_incident.incident if job.open_incident is not None else None,
        timers=_timers_again(job, now, limits, Instant(now + term_s) if known else None, bool(finished) and running),
        waits_for=Because(Reason.NODE_RETURNED, "the service restarted; launchers are coming back"),
    )


def _timers_again(job: Job, now: Instant, limits: TimeLimits, sweep_at: Instant | None, some_done: bool) -> Timers:
    has_exclusions = any(one.exclusion.until is not None for one in every_exclusion(job))
    timers = Timers(sweep_at=sweep_at, exclusion_at=now if has_exclusions else None)
    drain = job.drain
    match job.stage:
        case Running() | Proving():
            return Timers(
                sweep_at=sweep_at,
                exclusion_at=timers.exclusion_at,
                start_phase_at=Instant(now + limits.start_limit_s("process_group")),
                refund_at=now if job.spec is not None and job.spec.restarts.refund_after_s > 0 else None,
                skew_at=Instant(now + limits.finish_skew_limit_s) if some_done else None,
                agree_at=Instant(now + agreement_limit_s(limits, drain.grace_s)) if drain is not None else None,
                drain_at=Instant(now + drain.grace_s) if drain is not None else None,
            )
        case Fenced(_, incident):
            delay_s = incident.verdict.delay_s if incident.verdict is not None else 0.0
            # a launcher that has read the marker tells it again
            untold = job.spec is not None and job.spec.progress.is_tracked and incident.view.progress is None
            ask_s = limits.reconnect_window_s + limits.marker_read_limit_s if untold else 0.0
            asked_at = Instant(now + ask_s) if incident.verdict is None else None
            return Timers(
                sweep_at=sweep_at,
                exclusion_at=timers.exclusion_at,
                marker_at=asked_at if untold else None,
                verdict_at=asked_at,
                not_before=Instant(now + delay_s) if delay_s > 0 else None,
                teardown_at=Instant(now + teardown_patience_s(limits)),
            )
        case Gathering(because) if because.code is Reason.JOURNAL_BEHIND and sweep_at is not None:
            return Timers(sweep_at=sweep_at, exclusion_at=timers.exclusion_at, not_before=sweep_at)
        case _:
            return timers
