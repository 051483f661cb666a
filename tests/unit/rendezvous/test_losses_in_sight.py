"""Losses in sight: members whose kernel closed the stream, told to policy where they would have begun the story."""

from __future__ import annotations

from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core.fold import FAULTS_MAX
from resurge_rendezvous.core.model import ExitRecord, NodePhase
from tests.unit.rendezvous.desk import Desk, spec, started
from tests.unit.rendezvous.late_service import exits, late, settled


def trio() -> Desk:
    """Three nodes run, nobody has beaten, and n2 has finished: what fails now is held for a while."""
    d = Desk(spec(min_nodes=3))
    d.join("n0", "n1", "n2")
    d.proven("n0", "n1", "n2")
    d.finish("n2")
    return d


def fenced_after_a_late_loss_of_n1(d: Desk) -> None:
    """Just before the hold is over n1 closes its stream, while the service had no time for long."""
    d.wait(d.limits.finish_window_s - 0.5, ("n0", "n2"))
    assert d.stage == "Running"
    d.late_s = d.limits.finish_window_s + 1.0
    d.close("n1")
    d.late_s = 0.0
    d.wait(0.6, ("n0", "n2"))
    assert d.stage == "Fenced"


def blamed(d: Desk) -> tuple[str, Reason]:
    """Whom policy was told of, in the newest question."""
    culprit = d.asked[-1].view.culprit
    return culprit.node, culprit.code


def test_policy_is_told_of_a_loss_in_sight_that_would_have_begun_it():
    d = late()
    d.close("n1")
    exits(d, d.wall - 1.0)
    view = d.asked[0].view
    assert (view.culprit.node, view.culprit.code, view.cause) == ("n1", Reason.STREAM_LOST, FaultCause.NODE)
    assert [fault.node for fault in view.faults] == ["n1", "n0"]
    assert {fault.node for fault in d.job.open_incident.faults} == {"n0"}, "it is no fault yet"


def test_a_loss_in_sight_that_began_nothing_is_kept_from_policy():
    d = late()
    d.late_s = 0.0
    d.close("n1")
    exits(d, d.wall - 1.0)
    view = d.asked[0].view
    assert (view.culprit.node, view.cause) == ("n0", FaultCause.EXIT)
    assert [fault.node for fault in view.faults] == ["n0"]


def test_a_launcher_that_comes_back_is_neither_blamed_nor_charged():
    d = late()
    d.close("n1")
    exits(d, d.wall - 1.0)
    d.late_s = 0.0
    d.hello("n1")
    d.verdict()
    d.down("n0", "n1")
    assert settled(d) == ("n0", Reason.WORKER_EXIT, FaultCause.EXIT, "n0")


def test_as_many_as_there_is_room_for_are_told():
    d = late()
    d.close("n1")
    at = Wall(d.wall - 1.0)
    d.tell(
        "n0",
        NodePhase.TEARING_DOWN,
        1,
        exits=tuple(ExitRecord(Rank(rank), rank, 1, at, exit_code=1) for rank in range(FAULTS_MAX)),
    )
    view = d.asked[0].view
    assert {fault.node for fault in view.faults} == {"n0"}
    assert len(view.faults) == FAULTS_MAX


def test_a_stream_that_only_fell_silent_is_no_loss_in_sight():
    d = late()
    d.close("n1", by_peer=False)
    exits(d, d.wall - 1.0)
    assert blamed(d) == ("n0", Reason.WORKER_EXIT)


def test_a_node_that_was_given_up_is_no_loss_in_sight():
    d = late()
    d.tell("n1", NodePhase.STUCK, 1)
    d.close("n1")
    exits(d, d.wall - 1.0)
    assert blamed(d) == ("n0", Reason.WORKER_EXIT)


def test_a_node_that_has_finished_is_no_loss_in_sight():
    d = trio()
    d.finish("n1")
    exits(d, d.wall)
    fenced_after_a_late_loss_of_n1(d)
    assert blamed(d) == ("n0", Reason.WORKER_EXIT)


def test_a_node_of_which_a_fault_is_known_is_not_lost_once_more():
    d = trio()
    exits(d, d.wall)
    d.tell("n1", NodePhase.READY, 1)  # it ended its workers by itself
    fenced_after_a_late_loss_of_n1(d)
    assert blamed(d) == ("n0", Reason.WORKER_EXIT)


def test_the_end_of_a_rank_says_nothing_of_its_node_s_loss():
    d = trio()
    exits(d, d.wall)
    d.now += 0.1
    d.crash("n1", signal=6)
    fenced_after_a_late_loss_of_n1(d)
    assert blamed(d) == ("n1", Reason.STREAM_LOST)


def test_a_node_that_was_lost_in_the_generation_before_is_lost_again():
    d = started()
    d.close("n1")
    d.wait(d.limits.stream_loss_limit_s + 0.1, ("n0",))
    d.verdict()
    d.hello("n1")
    d.down("n0", "n1")
    assert d.stage == "Proving"
    d.running("n0", "n1")
    d.now += 2.0
    d.late_s = 2.0
    d.close("n1")
    d.crash("n0", signal=6, at=d.wall - 1.0)
    assert d.asked[-1].view.round == 1
    assert blamed(d) == ("n1", Reason.STREAM_LOST)
