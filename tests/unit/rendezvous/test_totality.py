"""Every event in every stage is a transition, a named ignore, or a typed refusal: the product is walked."""

from __future__ import annotations

import itertools
import typing

import pytest

from resurge_libs.core.ids import (
    Attempt,
    FencingToken,
    Generation,
    Incarnation,
    IncidentId,
    JobId,
    NodeId,
    Rank,
    RequestId,
)
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.recommendation import Recommendation, RecommendationKind
from resurge_libs.core.refusals import Refused
from resurge_rendezvous.core import model as m
from resurge_rendezvous.core.events import Request
from tests.unit.rendezvous.desk import RESTART, Desk, spec, started


def unopened() -> Desk:
    return Desk()


def gathering() -> Desk:
    d = Desk()
    d.join("n0")
    return d


def gathering_after_adoption() -> Desk:
    d = started()
    d.hello("n2", highest_generation=9)
    return d


def running() -> Desk:
    return started(None, "n2")


def finishing() -> Desk:
    d = started(None, "n2")
    d.finish("n0")
    return d


def holding() -> Desk:
    d = finishing()
    d.crash("n1")
    return d


def fenced() -> Desk:
    d = started(None, "n2")
    d.crash("n1")
    return d


def judged() -> Desk:
    d = fenced()
    d.verdict()
    return d


def all_lost() -> Desk:
    d = started(None, "n2")
    d.wait(8.0, ("n2",))
    return d


def proving() -> Desk:
    d = judged()
    d.down("n0", "n1")
    return d


def fenced_again() -> Desk:
    d = proving()
    d.crash("n0")
    return d


def ended() -> Desk:
    d = started(None, "n2")
    d.finish("n0", "n1")
    return d


def restarted() -> Desk:
    d = fenced()
    d.restart_service()
    return d


STAGES = (
    unopened,
    gathering,
    gathering_after_adoption,
    running,
    finishing,
    holding,
    fenced,
    judged,
    all_lost,
    proving,
    fenced_again,
    ended,
    restarted,
)


def observations(generation: int):
    record = m.ExitRecord(Rank(0), 0, 1, Wall(0.0), signal=9)
    zero = m.ExitRecord(Rank(0), 0, 1, Wall(0.0), exit_code=0)
    fault = m.ObservedFault(Because(Reason.WORKER_HUNG, "x"), Wall(0.0))
    mark = m.Milestone(Rank(0), m.MilestoneKind.FIRST_STEP, Wall(0.0))
    span = m.ObservedSpan("spawn", Wall(0.0), Wall(1.0))
    for phase in m.NodePhase:
        yield m.Observed(phase, Generation(generation))
        yield m.Observed(
            phase,
            Generation(generation),
            99,
            (record, zero),
            (fault,),
            (mark,),
            (span,),
            IncidentId("id-1"),
            m.StoreOffer("x", 1),
            True,
            15,
        )
        yield m.Observed(phase, Generation(generation), draining=m.Draining(15, 20.0, True, 7, 9, True))


def events(d: Desk):
    """At least one of every kind; for known, unknown and lost nodes, present and old streams."""
    stamp = d.stamp()
    token = FencingToken(JobId("job"), Attempt(1), Generation(1))
    incident = d.job.open_incident.incident if d.job.open_incident else IncidentId("id-1")
    for node in ("n0", "n1", "n2", "n9"):
        stream = d.streams.get(node, "old")
        for attempt, incarnation, take_over in (
            (0, 1, False),
            (0, 2, False),
            (0, 2, True),
            (2, 2, False),
            (0, 0, False),
        ):
            hello = m.Hello(spec(attempt=attempt), NodeId(node), Incarnation(incarnation), take_over=take_over)
            yield m.HelloReceived(stamp, "new", hello)
        known = m.Hello(d.spec, NodeId(node), Incarnation(1), boot_id=f"boot-{node}", host=node, pid=1)
        yield m.HelloReceived(stamp, "again", known, 50)
        for generation in (0, 1, 2):
            for observed in observations(generation):
                yield m.ObservedReceived(stamp, stream, NodeId(node), observed)
        for by_peer in (True, False):
            yield m.StreamClosed(stamp, stream, NodeId(node), by_peer)
        yield m.BeatReceived(stamp, stream, NodeId(node), 1, 0.0)
        yield m.BeatReceived(stamp, "old", NodeId(node), 1, 0.0, 1.0, 0.1)
        yield m.BeatsReceived(stamp, (m.BeatReceived(stamp, stream, NodeId(node), 2, 0.0),) * 2)
        yield m.ExcludeAsked(stamp, RequestId("x"), NodeId(node), "why")
        yield m.ReadmitAsked(stamp, RequestId("y"), NodeId(node))
    for number in (0, 1):
        yield m.VerdictArrived(stamp, incident, number, RESTART)
        yield m.VerdictUnavailable(stamp, incident, number, "gone")
    yield m.Tick(stamp)
    yield m.Paused(stamp, 3.0)
    yield m.ShutdownAsked(stamp, RequestId("z"), "why")
    for kind in RecommendationKind:
        yield m.RecommendationMade(stamp, RequestId("r"), Recommendation(kind, "x", attempt=Attempt(1)))
    for node, action in itertools.product(("n0", "n9"), m.ControlAction):
        yield m.ControlAsked(stamp, RequestId("w"), token, NodeId(node), Rank(0), action, "x", Wall(0.0))
    yield m.DrainAsked(stamp, RequestId("d"), None, "why")
    yield m.DrainAsked(stamp, RequestId("e"), NodeId("n0"), "why", 5.0)
    yield m.StorePutAsked(stamp, RequestId("p"), token, "k", b"v")
    yield m.StoreAddAsked(stamp, RequestId("a"), token, "k", 1)
    yield m.StoreCompareAndSetAsked(stamp, RequestId("c"), token, "k", None, b"v")
    yield m.StoreDeleteAsked(stamp, RequestId("d"), token, "k")


UNARY = Request


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_every_event_in_every_stage_is_answered(stage):
    d = stage()
    before = d.state
    kinds = set()
    for late_s in (0.0, 1000.0):
        for event in events(d):
            kinds.add(type(event))
            d.state, d.now = before, d.now + late_s
            try:
                step = d.machine.step(d.state, event, d.now)
            except Refused:
                assert isinstance(event, UNARY), f"{event} is no unary request"
                continue
            d._check(before.durable, step)
            if step.state == before and not step.actions:
                assert step.reason.code in (
                    Reason.LATE_EVENT_IGNORED,
                    Reason.OBSERVED,
                    Reason.TICK,
                    Reason.PAUSED,
                    Reason.NOTHING_CHANGED,
                ), step.reason
            d.now -= late_s
    assert kinds == set(typing.get_args(m.Event)), "an event kind is not walked"


def test_every_stage_of_the_job_is_walked():
    walked = {type(stage().job.stage) for stage in STAGES}
    assert walked == set(typing.get_args(m.Stage))


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_the_same_event_gives_the_same_step(stage):
    d = stage()
    for event in list(events(d))[::7]:
        try:
            first = d.machine.step(d.state, event, d.now)
        except Refused:
            continue
        assert repr(d.machine.step(d.state, event, d.now)) == repr(first)  # refusals are compared by identity
