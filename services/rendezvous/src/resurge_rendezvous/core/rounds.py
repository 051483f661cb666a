"""Closing a round: when the next generation may be formed, and who is in it.

In order: the verdict is there · the backoff is over · every node of the last generation has confirmed its teardown or
has lost its lease · the lost ones cannot run on unseen (one that confirmed stalls the rest, or all are known dead, or
all were waited for and the strict fence holds) · enough nodes are ready · nodes that were active before and still hold
a lease had their last call. Each wait has a name and a bound.
"""

from __future__ import annotations

from resurge_libs.core.ids import Generation, NodeId
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import EXIT_FAILED
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.budgets import cause_to_charge
from resurge_rendezvous.core.capacity import could_take_part
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.endings import terminate
from resurge_rendezvous.core.excluding import note_offence
from resurge_rendezvous.core.job import Assignment, Fenced, Formation, Gathering, Incident
from resurge_rendezvous.core.presence import Timers
from resurge_rendezvous.core.progressing import ask_policy
from resurge_rendezvous.core.refunds import await_refund
from resurge_rendezvous.core.rules import plan_round
from resurge_rendezvous.core.shards import ShardMap
from resurge_rendezvous.core.starts import watch_start

SHORTAGES = (Reason.BELOW_MIN_NODES, Reason.SEGMENT_UNFILLED)


def advance(d: Draft) -> None:
    """Close the round if nothing stands against it; else remember what it waits for."""
    match d.job.stage:
        case Gathering():
            outlook = _outlook(d, None)
        case Fenced(_, incident):
            if d.spec.progress.is_tracked:
                ask_policy(d)
            outlook = _outlook(d, incident)
        case _:
            return
    if not isinstance(outlook, Because):
        _close(d, outlook)
        return
    if outlook.code in SHORTAGES and d.seen.timers.quorum_at is None:
        d.set_timers(quorum_at=after(d.now, d.limits.quorum_wait_s))
    if outlook != d.seen.waits_for:
        d.see(waits_for=outlook)
        d.changed()


def _outlook(d: Draft, incident: Incident | None) -> tuple[Assignment, ...] | Because:
    if incident is not None and incident.verdict is None:
        return Because(Reason.WAITING_FOR_VERDICT, "the verdict is not there yet")
    if len(d.seen.busy) > 0:
        one = next(iter(d.seen.busy))
        return Because(Reason.WAITING_FOR_TEARDOWN, f"{one} has not confirmed its teardown")
    if incident is not None and d.seen.down_wall is None:
        d.see(down_wall=d.stamp.wall)
        d.set_timers(teardown_at=None)
    not_before = d.seen.timers.not_before
    if not_before is not None and d.now < not_before:
        return Because(Reason.BACKOFF, "the round waits before it closes")
    if incident is not None and incident.split_ruled_out is None:
        split = _split_possible(d)
        if split is not None:
            return split
    if len(d.seen.ready) < d.spec.min_nodes:  # cheap, before the plan sorts ten thousand nodes
        return Because(Reason.BELOW_MIN_NODES, f"{len(d.seen.ready)} of {d.spec.min_nodes} nodes are ready")
    candidates = [d.entry(node) for node in d.seen.ready]
    missing = [d.entry(node) for node in d.seen.members if node not in d.seen.ready]
    plan = plan_round(d.spec, candidates, frozenset(NodeId(node) for node in d.seen.members), missing)
    if incident is None or isinstance(plan, Because):
        return plan
    return _last_call(d) or plan


def _split_possible(d: Draft) -> Because | None:
    """No node of the fenced generation has confirmed: may they all run on, unseen?"""
    alive_until: list[Instant] = []
    for node in d.seen.members:
        ends = d.seen.known_dead.get(node)
        if ends is not None:
            alive_until.append(ends)
        elif d.entry(node).finished != d.job.fenced:
            return _all_lost(d)
    last = max(alive_until, default=d.now)
    if d.now < last:  # a launcher that lives would be back within its lease: it tries every second
        d.set_timers(not_before=last)
        return Because(Reason.ALL_LOST_WAIT, "every launcher closed its stream; the last lease is not over yet")
    dead = Because(Reason.STREAM_LOST, "every launcher of the generation is known to be dead")
    d.record(f.SplitRuledOut(d.job.fenced, dead))
    return None


def _all_lost(d: Draft) -> Because:
    if d.seen.timers.all_lost_at is None:
        d.set_timers(all_lost_at=after(d.now, d.limits.all_lost_wait_s))
    sentence = f"no node of generation {d.job.fenced} can be reached; it may be running"
    return Because(Reason.ALL_LOST_WAIT, sentence)


def all_lost_over(d: Draft) -> None:
    """All nodes of the fenced generation were waited for, and none came."""
    match d.job.stage:
        case Fenced(_, incident) if incident.split_ruled_out is None:
            pass
        case _:
            return
    waited = f"no node of generation {d.job.fenced} could be reached for {d.limits.all_lost_wait_s:g} s"
    if d.spec.strict_fence:
        sentence = f"{waited}; its workers use the strict fence, so they cannot commit"
        d.record(f.SplitRuledOut(d.job.fenced, Because(Reason.ALL_LOST_WAIT, sentence)))
    else:
        sentence = f"{waited}, and without the strict fence it may still be writing"
        terminate(d, EXIT_FAILED, Because(Reason.ALL_LOST_WAIT, sentence))


def _last_call(d: Draft) -> Because | None:
    if d.seen.last_call_over:
        return None
    missing = [node for node in d.seen.members if node not in d.seen.ready and could_take_part(d, node)]
    if not missing:
        return None
    if d.seen.timers.last_call_at is None:
        d.set_timers(last_call_at=after(d.now, d.limits.last_call_s))
    return Because(Reason.LAST_CALL, f"{missing[0]} was active before and may come back")


def last_call_over(d: Draft) -> None:
    """Who was active before and did not come in time is not waited for any longer."""
    d.see(last_call_over=True)


def quorum_over(d: Draft) -> None:
    """Too few nodes for too long: a named end. Other waits have their own bounds."""
    waits_for = d.seen.waits_for
    match d.job.stage:
        case Gathering() | Fenced() if waits_for is not None and waits_for.code in SHORTAGES:
            sentence = f"{waits_for.sentence} after {d.limits.quorum_wait_s:g} s"
            terminate(d, EXIT_FAILED, Because(Reason.QUORUM_TIMEOUT, sentence))
        case _:
            return


def _close(d: Draft, places: tuple[Assignment, ...]) -> None:
    incident = d.job.open_incident
    if incident is not None:
        d.record(f.RestartCharged(incident.incident, incident.round, cause_to_charge(d.job, d.spec, incident)))
        note_offence(d, incident)
    leader = d.seen.seats.get(places[0].node)
    assert leader is not None and leader.observed.store_offer is not None, "a ready node has a seat and an offer"
    formation = Formation(
        generation=Generation(d.job.generation + 1),
        attempt=d.job.attempt,
        cycle=d.job.next_cycle,
        assignments=places,
        world_size=sum(place.local_world_size for place in places),
        master_addr=leader.observed.store_offer.address,
        master_port=leader.observed.store_offer.port,
        closed_wall=d.stamp.wall,
        restarts_spent=d.job.restarts_spent,
        incident=incident.incident if incident is not None else None,
        store_is_served=leader.observed.store_offer.is_served,
    )
    d.record(f.RoundClosed(formation, d.seen.down_wall))
    seat_members(d)
    d.set_timers(exclusion_at=d.seen.timers.exclusion_at)
    await_refund(d)
    watch_start(d)
    d.touch_all()
    d.because = Because(
        Reason.ROUND_CLOSED,
        f"generation {formation.generation} runs on {len(places)} nodes with {formation.world_size} ranks",
    )


def seat_members(d: Draft) -> None:
    """The members of the newest round hold workers from now on, and none has finished or confirmed anything."""
    last = d.job.last_formation
    assert last is not None, "members are seated after a round closed"
    members = ShardMap.of((place.node, place) for place in last.assignments)
    names: ShardMap[None] = ShardMap.of((place.node, None) for place in last.assignments)
    d.see(
        members=members,
        busy=names,
        unfinished=names,
        ready=ShardMap.of((node, None) for node in d.seen.ready if node not in members),
        confirmed=ShardMap(),
        known_dead=ShardMap(),
        held_faults=(),
        last_call_over=False,
        down_wall=None,
        waits_for=None,
        timers=Timers(sweep_at=d.seen.timers.sweep_at, exclusion_at=d.seen.timers.exclusion_at),
    )
