from __future__ import annotations

from signal import SIGSEGV

import pytest

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_launcher import wire
from resurge_launcher.core import goals as g
from resurge_launcher.core import happenings as h
from resurge_launcher.core import model as m
from resurge_launcher.core.abort_state import AbortNotice
from resurge_libs.core.ids import Generation, IncidentId, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason

TIMES = wire.Times(1_700_000_000_000_000_000)


def test_everything_observed_reaches_the_wire():
    observed = h.Observed(
        phase=h.NodePhase.TEARING_DOWN,
        generation=Generation(7),
        revision_seen=3,
        exits=(m.ExitRecord(Rank(5), 1, 4711, Instant(10.5), signal=SIGSEGV, last_step=0, error="boom"),),
        faults=(m.Fault(Because(Reason.WORKER_HUNG, "late"), Instant(9.0), Rank(0)),),
        milestones=(m.Milestone(Rank(0), m.MilestoneKind.FIRST_STEP, Instant(8.0), step=0),),
        spans=(m.Span("teardown", Instant(2.0), Instant(1.0), None, (("resurge.generation", "7"),)),),
        incident_id=IncidentId("i1"),
        store_offer=m.StoreOffer("10.0.0.1", 4711),
        exit_acknowledged=True,
        leaving_signal=15,
        aborts=(AbortNotice(Rank(5), 2, "step", 0.75),),
    )
    proto = wire.observed_to_proto(observed, TIMES)
    exit_ = proto.exits[0]
    assert (exit_.rank, exit_.signal, exit_.HasField("exit_code"), exit_.HasField("last_step")) == (5, 11, False, True)
    assert exit_.at.ToNanoseconds() == TIMES.wall_minus_monotonic_ns + 10_500_000_000
    assert proto.faults[0].because.code == "WORKER_HUNG" and proto.faults[0].HasField("rank")
    assert proto.milestones[0].HasField("step")
    (fired,) = proto.aborts
    assert (fired.rank, fired.number, fired.phase, fired.left.ToMilliseconds()) == (5, 2, "step", 750)
    assert proto.spans[0].end.ToNanoseconds() == proto.spans[0].start.ToNanoseconds(), (
        "a span never ends before it began"
    )
    assert (proto.store_offer.port, proto.leaving_signal, proto.exit_acknowledged) == (4711, 15, True)


@pytest.mark.parametrize("phase", h.NodePhase)
def test_every_phase_has_its_number(phase: h.NodePhase):
    proto = wire.observed_to_proto(h.Observed(phase, Generation(0)), TIMES)
    assert attach_pb2.NodePhase.Name(proto.phase) == f"NODE_PHASE_{phase}"


@pytest.mark.parametrize("kind", m.MilestoneKind)
def test_every_milestone_has_its_number(kind: m.MilestoneKind):
    observed = h.Observed(h.NodePhase.RUNNING, Generation(1), milestones=(m.Milestone(Rank(0), kind, Instant(1.0)),))
    proto = wire.observed_to_proto(observed, TIMES)
    assert attach_pb2.MilestoneKind.Name(proto.milestones[0].kind).lower() == f"milestone_kind_{kind}"


def test_a_beats_answer_alone_is_no_order():
    assert wire.desired_from_proto(attach_pb2.Desired(beat_reply=attach_pb2.BeatReply(sequence=1))) is None


def test_goals_arrive_whole():
    run = attach_pb2.Run(generation=2, world_size=4, base_rank=2, master_addr="a", master_port=1, incident_id="i")
    run.delay.FromNanoseconds(1_500_000_000)
    run.aborts.add(rank=3, number=1, phase="step").left.FromMilliseconds(250)
    event = wire.desired_from_proto(attach_pb2.Desired(revision=4, run=run, current_generation=2))
    assert event is not None and isinstance(event.goal, g.RunGoal)
    assert (event.revision, event.goal.base_rank, event.goal.delay_s, event.goal.incident_id) == (4, 2, 1.5, "i")
    assert event.goal.aborts == (AbortNotice(Rank(3), 1, "step", 0.25),)
    end = wire.desired_from_proto(attach_pb2.Desired(revision=5, exit=attach_pb2.Exit(code=93)))
    assert end is not None and end.goal == g.ExitGoal(93, Because(Reason.RELEASED))


@pytest.mark.parametrize(
    "desired",
    [
        attach_pb2.Desired(revision=1),
        attach_pb2.Desired(revision=1, run=attach_pb2.Run(generation=1, world_size=1)),
        attach_pb2.Desired(revision=1, run=attach_pb2.Run(world_size=1, master_addr="a", master_port=1)),
    ],
)
def test_an_order_that_makes_no_sense_is_not_obeyed(desired: attach_pb2.Desired):
    with pytest.raises(wire.BadDesired):
        wire.desired_from_proto(desired)
