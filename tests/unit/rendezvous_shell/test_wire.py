"""What launchers say is checked field by field before it becomes an event; free text is cut, never refused."""

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from resurge_api.common.v1 import ids_pb2
from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_libs.core.reasons import Reason
from resurge_libs.core.refusals import BadRequest, VersionMismatch
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.rpc.validation import MAX_SENTENCE_CHARACTERS
from resurge_rendezvous import wire
from resurge_rendezvous.core.model import MilestoneKind, NodePhase
from resurge_rendezvous.core.views import NodeStanding
from resurge_rendezvous.wire_machines import STANDINGS

AT = Timestamp(seconds=1_700_000_000, nanos=250_000_000)
READY = attach_pb2.NODE_PHASE_READY


def job(**fields):
    given = {
        "job_id": "train",
        "min_nodes": 2,
        "max_nodes": 3,
        "lease_ttl": Duration(seconds=5),
        "fault_grace": Duration(nanos=500_000_000),
    }
    return attach_pb2.JobSpec(**{**given, **fields})


def hello(**fields):
    given = {"protocol_version": 1, "job": job(), "node_id": "n1", "incarnation": 1, "local_world_size": 2}
    return attach_pb2.Observed(hello=attach_pb2.Hello(**{**given, **fields}), phase=READY)


def fields_of(refused):
    return {item.field.removeprefix("observed.").removeprefix("hello.") for item in refused.value.violations}


def test_a_whole_introduction_arrives_as_it_was_given():
    value = wire.hello_of(hello(infra_rank=0, domain="rack-1", address="10.0.0.1", highest_generation=4), TimeLimits())
    assert (value.node, value.infra_rank, value.domain, value.highest_generation) == ("n1", 0, "rack-1", 4)
    assert (value.spec.lease_ttl_s, value.spec.fault_grace_s, value.spec.no_restart_exit_code) == (5.0, 0.5, 93)
    assert wire.hello_of(hello(), TimeLimits()).infra_rank is None


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"node_id": ""}, "node_id"),
        ({"node_id": "n" * 300}, "node_id"),
        ({"node_id": "n\x001"}, "node_id"),
        ({"incarnation": 0}, "incarnation"),
        ({"local_world_size": 0}, "local_world_size"),
        ({"local_world_size": 100_000}, "local_world_size"),
        ({"highest_generation": 2**60}, "highest_generation"),
        ({"host": "h" * 300}, "host"),
        ({"job": job(job_id="")}, "job.job_id"),
        ({"job": job(min_nodes=0)}, "job.min_nodes"),
        ({"job": job(min_nodes=4)}, "job.max_nodes"),
        ({"job": job(segment=3)}, "job.segment"),
        ({"job": job(lease_ttl=Duration(seconds=-1))}, "job.lease_ttl"),
        ({"job": job(lease_ttl=Duration(seconds=3_000))}, "job.lease_ttl"),
        ({"job": job(no_restart_exit_code=300)}, "job.no_restart_exit_code"),
        ({"job": job(command_digest="d" * 300)}, "job.command_digest"),
    ],
)
def test_a_wrong_field_of_an_introduction_is_named(given, wrong):
    with pytest.raises(BadRequest) as refused:
        wire.hello_of(hello(**given), TimeLimits())
    assert wrong in fields_of(refused)


def test_another_protocol_version_is_told_before_anything_else():
    with pytest.raises(VersionMismatch) as refused:
        wire.hello_of(hello(protocol_version=2, node_id=""), TimeLimits())
    assert (refused.value.presented, refused.value.supported) == (2, 1)


def test_a_first_message_without_introduction_is_refused():
    with pytest.raises(BadRequest, match="hello"):
        wire.hello_of(attach_pb2.Observed(phase=READY), TimeLimits())


def test_the_whole_observed_state_arrives():
    value = wire.observed_of(
        attach_pb2.Observed(
            phase=attach_pb2.NODE_PHASE_RUNNING,
            generation=7,
            exits=[
                attach_pb2.ExitRecord(rank=5, signal=11, at=AT, last_step=0),
                attach_pb2.ExitRecord(exit_code=0, at=AT),
            ],
            faults=[attach_pb2.ObservedFault(rank=4, because=ids_pb2.Because(code="WORKER_HUNG"), at=AT)],
            milestones=[attach_pb2.Milestone(rank=5, kind=attach_pb2.MILESTONE_KIND_FIRST_STEP, at=AT, step=12)],
            spans=[attach_pb2.Span(name="spawn", start=AT, end=AT, attributes={"resurge.b": "2", "resurge.a": "1"})],
            incident_id="inc-1",
            store_offer=attach_pb2.StoreOffer(address="10.0.0.1", port=29500),
            leaving_signal=15,
        )
    )
    assert (value.phase, value.generation, value.incident, value.leaving_signal) == (NodePhase.RUNNING, 7, "inc-1", 15)
    assert (value.exits[0].signal, value.exits[0].exit_code, value.exits[0].last_step) == (11, None, 0)
    assert value.exits[0].at == 1_700_000_000.25
    assert (value.exits[1].exit_code, value.exits[1].signal) == (0, None)
    assert value.faults[0].because.code is Reason.WORKER_HUNG
    assert (value.milestones[0].kind, value.milestones[0].step) == (MilestoneKind.FIRST_STEP, 12)
    assert value.spans[0].attributes == (("resurge.a", "1"), ("resurge.b", "2"))
    assert value.store_offer.port == 29500


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"phase": attach_pb2.NODE_PHASE_UNSPECIFIED}, "phase"),
        ({"phase": 77}, "phase"),
        ({"exits": [attach_pb2.ExitRecord(at=AT)]}, "exits[0]"),
        ({"exits": [attach_pb2.ExitRecord(signal=9)]}, "exits[0].at"),
        ({"exits": [attach_pb2.ExitRecord(signal=9, at=Timestamp(seconds=-5))]}, "exits[0].at"),
        ({"exits": [attach_pb2.ExitRecord(signal=9, at=Timestamp(seconds=5, nanos=-1))]}, "exits[0].at"),
        ({"milestones": [attach_pb2.Milestone(at=AT)]}, "milestones[0].kind"),
        ({"spans": [attach_pb2.Span(name="spawn", start=AT, end=Timestamp(seconds=1))]}, "spans[0].end"),
        ({"spans": [attach_pb2.Span(start=AT, end=AT)]}, "spans[0].name"),
        ({"store_offer": attach_pb2.StoreOffer(address="a", port=70_000)}, "store_offer.port"),
        ({"faults": [attach_pb2.ObservedFault(at=AT)] * 9_000}, "faults"),
    ],
)
def test_a_wrong_field_of_the_observed_state_is_named(given, wrong):
    with pytest.raises(BadRequest) as refused:
        wire.observed_of(attach_pb2.Observed(**{"phase": READY, **given}))
    assert wrong in fields_of(refused)


def test_long_free_text_is_cut_because_it_must_not_cost_a_node_its_stream():
    because = ids_pb2.Because(code="WORKER_EXIT", sentence="s" * 9_000)
    value = wire.observed_of(
        attach_pb2.Observed(
            phase=READY,
            exits=[attach_pb2.ExitRecord(exit_code=1, at=AT, error="e" * 9_000)],
            faults=[attach_pb2.ObservedFault(because=because, at=AT)],
        )
    )
    assert len(value.exits[0].error) == wire.MAX_ERROR_CHARACTERS
    assert len(value.faults[0].because.sentence) == MAX_SENTENCE_CHARACTERS


def test_a_beat_gives_its_times_and_a_clock_only_when_it_was_measured():
    assert wire.beat_times_of(attach_pb2.Beat(sequence=1, sent=AT)) == (1_700_000_000.25, None, None)
    measured = attach_pb2.Beat(
        sequence=2,
        sent=AT,
        clock_offset=Duration(seconds=-1, nanos=-500_000_000),
        clock_error=Duration(nanos=1_000_000),
    )
    assert wire.beat_times_of(measured) == (1_700_000_000.25, -1.5, 0.001)
    with pytest.raises(BadRequest):
        wire.beat_times_of(attach_pb2.Beat(sequence=0))


def test_every_standing_of_a_node_can_be_told():
    names = {standing: rendezvous_pb2.NodeStanding.Name(told) for standing, told in STANDINGS.items()}
    assert names == {standing: f"NODE_STANDING_{standing}" for standing in NodeStanding}
    assert len(names) == len(rendezvous_pb2.NodeStanding.values()) - 1, "all but the unspecified one"
