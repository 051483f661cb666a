"""Which of several faults began a story, where a service that had no time noticed a loss late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.budget import RestartRules
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import Generation, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core.causes import FaultRecord, by_cause, standing_before
from resurge_rendezvous.core.model import NodePhase
from tests.unit.rendezvous.desk import spec
from tests.unit.rendezvous.late_service import exits, late, recovered, settled

LOSS = FaultRecord(NodeId("n1"), Because(Reason.STREAM_LOST), Wall(12.0), Generation(1), clock_error_s=2.0)
EXIT = FaultRecord(
    NodeId("n0"),
    Because(Reason.WORKER_EXIT),
    Wall(11.0),
    Generation(1),
    rank=Rank(0),
    exit_code=1,
    cause=FaultCause.EXIT,
)


def first(*faults: FaultRecord) -> FaultRecord:
    one, other = by_cause(faults)[0], by_cause(reversed(faults))[0]
    assert one == other, "the order in which they are known does not matter"
    return one


def test_an_exit_while_a_node_may_have_been_dead_already_does_not_stand_before_its_loss():
    assert first(LOSS, EXIT) == LOSS
    aborted = replace(EXIT, because=Because(Reason.WORKER_SIGNAL), signal=6, exit_code=None, cause=FaultCause.SIGNAL)
    assert first(LOSS, aborted) == LOSS
    assert first(LOSS, replace(EXIT, because=Because(Reason.WORKER_CRASHED), exit_code=None)) == LOSS
    assert first(LOSS, EXIT, replace(EXIT, at=Wall(10.5), rank=Rank(1))) == LOSS


@pytest.mark.parametrize(
    "own",
    [
        replace(EXIT, at=Wall(9.9)),
        replace(EXIT, because=Because(Reason.WORKER_SIGNAL), signal=9, exit_code=None, cause=FaultCause.SIGNAL),
        replace(EXIT, because=Because(Reason.WORKER_SIGNAL), signal=11, exit_code=None, cause=FaultCause.SIGNAL),
        replace(EXIT, because=Because(Reason.WORKER_STOPPED), exit_code=None, cause=FaultCause.HANG),
        replace(EXIT, cause=FaultCause.OOM),
        replace(EXIT, cause=FaultCause.HARDWARE),
        replace(EXIT, because=Because(Reason.WORKER_SIGNAL), signal=6, exit_code=None, cause=FaultCause.HARDWARE),
        replace(EXIT, node=LOSS.node),
        replace(LOSS, because=Because(Reason.STREAM_LOST), at=Wall(11.0), node=NodeId("n0"), clock_error_s=0.0),
    ],
    ids=[
        *("heard from after it", "SIGKILL", "SIGSEGV", "freeze", "no memory", "broken device", "abort of a device"),
        *("of the same node", "an earlier loss"),
    ],
)
def test_what_names_its_own_cause_or_was_before_stays_first(own):
    assert first(LOSS, own) == own


def test_a_loss_that_was_seen_at_once_and_a_mere_silence_have_their_moments():
    assert first(replace(LOSS, clock_error_s=0.0), EXIT) == EXIT
    assert first(replace(LOSS, clock_error_s=None), EXIT) == EXIT
    assert first(replace(LOSS, because=Because(Reason.LEASE_EXPIRED)), EXIT) == EXIT


def test_a_loss_moves_before_its_consequence_and_no_further():
    crash = replace(EXIT, node=NodeId("n2"), because=Because(Reason.WORKER_SIGNAL), signal=11, cause=FaultCause.SIGNAL)
    sooner, later = replace(crash, at=Wall(10.9)), replace(crash, at=Wall(11.1))
    assert by_cause([EXIT, LOSS, sooner]) == [sooner, LOSS, EXIT]
    assert by_cause([EXIT, LOSS, later]) == [LOSS, EXIT, later]


def test_the_end_of_a_rank_is_one_moment_however_unsure_its_clock_is():
    other = replace(EXIT, node=NodeId("n1"), rank=Rank(1), at=Wall(11.5))
    assert first(replace(EXIT, at=Wall(12.0), clock_error_s=1.0), other) == other


def test_the_loss_of_a_later_generation_is_no_cause_of_an_earlier_end():
    assert first(replace(LOSS, generation=Generation(2)), EXIT) == EXIT


def test_an_end_after_a_loss_does_not_move_it():
    crash = replace(EXIT, node=NodeId("n2"), because=Because(Reason.WORKER_SIGNAL), signal=11, at=Wall(12.5))
    late = replace(EXIT, at=Wall(13.0))
    assert by_cause([late, crash, LOSS]) == [LOSS, crash, late]


def test_of_ends_at_one_moment_the_lowest_rank_is_first():
    assert first(replace(EXIT, rank=Rank(1)), EXIT) == EXIT


def test_losses_that_would_stand_before_are_told_the_first_one_first():
    sooner = replace(LOSS, node=NodeId("n2"), at=Wall(10.2), clock_error_s=0.0)
    later = replace(LOSS, at=Wall(10.5), clock_error_s=0.0)
    assert standing_before([later, sooner], [EXIT]) == [sooner, later]
    killed = replace(EXIT, because=Because(Reason.WORKER_SIGNAL), signal=9, exit_code=None)
    assert standing_before([LOSS], [killed]) == []
    assert standing_before([LOSS], []) == []


# --- from what the service hears


@pytest.mark.parametrize("is_exit_first", [True, False])
def test_a_node_that_died_while_the_service_was_late_is_blamed_charged_and_remembered(is_exit_first):
    d = late()
    at = d.wall - 1.0
    if is_exit_first:
        exits(d, at)
        d.close("n1")
    else:
        d.close("n1")
        exits(d, at)
    recovered(d)
    assert settled(d) == ("n1", Reason.STREAM_LOST, FaultCause.NODE, "n1")


def test_a_rank_that_failed_before_the_lost_node_was_last_heard_from_is_blamed():
    d = late()
    exits(d, d.wall - 2.1)
    d.close("n1")
    recovered(d)
    assert settled(d) == ("n0", Reason.WORKER_EXIT, FaultCause.EXIT, "n0")


def test_a_beat_that_was_sent_meanwhile_says_that_the_launcher_lived():
    d = late()
    d.ask(replace(d.beat_event("n1"), launcher_sent=float(d.wall) - 0.5))
    exits(d, d.wall - 1.0)
    d.close("n1")
    recovered(d)
    assert settled(d) == ("n0", Reason.WORKER_EXIT, FaultCause.EXIT, "n0")


def test_a_beat_counts_by_the_service_s_clock_and_as_early_as_it_may_have_been_sent():
    for offset_s, error_s, sent_s, culprit in ((100.0, 0.0, 0.5, "n0"), (0.0, 0.6, 0.5, "n1"), (0.0, 0.4, 0.5, "n0")):
        d = late()
        sent = float(d.wall) - offset_s - sent_s
        d.ask(replace(d.beat_event("n1"), launcher_sent=sent, clock_offset_s=offset_s, clock_error_s=error_s))
        exits(d, d.wall - 1.0)
        d.close("n1")
        d.wait(1.5, ("n0",))
        assert d.job.open_incident.first_cause.node == culprit


def test_a_beat_from_the_future_leaves_no_time_that_was_unseen():
    d = late()
    d.ask(replace(d.beat_event("n1"), launcher_sent=float(d.wall) + 1.0))
    d.close("n1")
    d.late_s = 0.0
    d.wait(d.limits.stream_loss_limit_s + 0.1, ("n0",))
    (lost,) = d.job.open_incident.faults
    assert (lost.node, lost.clock_error_s) == ("n1", 0.0)


def test_a_rank_that_was_killed_is_blamed_whenever_a_node_is_lost_beside_it():
    d = late()
    exits(d, d.wall - 1.0, exit_code=None, signal=9)
    d.close("n1")
    recovered(d)
    assert settled(d) == ("n0", Reason.WORKER_SIGNAL, FaultCause.SIGNAL, "n0")


def test_with_time_to_look_a_failure_before_the_end_of_a_stream_stays_first():
    d = late()
    d.late_s = 0.0
    exits(d, d.wall - 0.1)
    d.close("n1")
    recovered(d)
    assert settled(d) == ("n0", Reason.WORKER_EXIT, FaultCause.EXIT, "n0")


def test_a_launcher_that_was_told_to_leave_meanwhile_is_the_first_cause():
    d = late()
    exits(d, d.wall - 1.0)
    d.tell("n1", NodePhase.LEAVING, 1, leaving_signal=15)
    assert d.job.open_incident.first_cause.because.code is Reason.NODE_LEFT


def test_what_becomes_known_after_the_verdict_moves_the_charge_and_the_offence():
    d = late()
    exits(d, d.wall - 1.0)
    d.verdict()
    d.close("n1")
    recovered(d)
    assert settled(d) == ("n1", Reason.STREAM_LOST, FaultCause.NODE, "n1")
    assert d.asked[-1].view.cause is FaultCause.EXIT, "policy was told what was known then"


def test_a_restart_is_not_charged_to_a_cause_that_has_none_left():
    d = late(spec_=spec(restarts=RestartRules(by_cause=((FaultCause.NODE, 0),))))
    exits(d, d.wall - 1.0)
    d.verdict()
    d.close("n1")
    recovered(d)
    assert settled(d) == ("n1", Reason.STREAM_LOST, FaultCause.EXIT, "n1")
