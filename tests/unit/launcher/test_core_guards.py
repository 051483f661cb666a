"""Guards that no other test would miss: each test here fails when one condition of a rule is taken out."""

from __future__ import annotations

from resurge_launcher.core import control as controls
from resurge_launcher.core import happenings as h
from resurge_launcher.core.goals import ExitGoal, ParkGoal
from resurge_launcher.core.model import Control
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from tests.unit.launcher.core_world import LIMITS, Node, down, end, of, run


def test_the_time_without_control_counts_from_its_first_loss():
    control = controls.lost(Control(lost_at=None), "refused", Instant(10.0), 1.0)
    assert controls.lost(control, "refused again", Instant(20.0), 1.0).lost_at == 10.0
    assert controls.lost(controls.found(control), "later", Instant(20.0), 1.0).lost_at == 20.0


def test_an_order_that_was_overtaken_by_a_newer_one_is_not_obeyed():
    node = Node().running()
    node.want(run(1))
    node.feed(h.DesiredReceived(node.revision - 1, down(1), Generation(1)))
    assert node.reason.code is Reason.LATE_EVENT_IGNORED
    assert node.phase == "Running"


def test_a_generation_that_is_fenced_already_is_not_started():
    node = Node().attached()
    fresh = node.want(run(1), current=2)
    assert node.reason.code is Reason.LATE_EVENT_IGNORED
    assert not of(fresh + node.move(1.0), h.SpawnWorkers)


def test_the_end_of_a_launcher_is_not_taken_back():
    node = Node().running()
    node.want(end(3))
    fresh = node.want(run(2))
    assert node.reason.code is Reason.LATE_EVENT_IGNORED and not of(fresh, h.SpawnWorkers)
    assert isinstance(node.state.goal, ExitGoal) and node.state.goal.code == 3


def test_the_store_of_a_generation_is_told_that_a_newer_one_is_there():
    node = Node().running()
    parked = ParkGoal(Because(Reason.EXCLUDED))
    assert of(node.want(parked, current=1), h.Fence) == []
    assert of(node.want(parked, current=2), h.Fence) == [h.Fence(Generation(1))]


def test_word_of_a_start_counts_for_its_own_generation_and_once():
    node = Node().attached()
    node.want(run(2))
    node.move(0)
    node.spawned(1)
    assert (node.phase, node.reason.code) == ("Starting", Reason.LATE_EVENT_IGNORED)
    node.spawned(2)
    assert node.phase == "Running"
    before = node.state
    node.spawned(2)
    assert node.reason.code is Reason.LATE_EVENT_IGNORED and node.state == before


def test_the_end_of_a_worker_counts_for_its_own_generation():
    node = Node().running(2)
    before = node.state
    node.exits(0, signal=9, gen=1)
    assert node.reason.code is Reason.LATE_EVENT_IGNORED and node.state == before


def test_the_workers_of_a_parked_node_are_ended():
    node = Node().running()
    node.want(ParkGoal(Because(Reason.EXCLUDED, "its fans")))
    node.move(0)
    assert (node.phase, node.reason.code) == ("TearingDown", Reason.EXCLUDED)


def test_a_newer_generation_is_started_when_nothing_of_the_older_one_is_left():
    node = Node().running()
    node.want(run(2), current=2)
    assert of(node.move(0), h.SpawnWorkers) == []
    assert node.phase == "TearingDown"
    node.all_killed()
    node.move(0)
    assert [action.run.generation for action in of(node.actions, h.SpawnWorkers)] == [1, 2]


def test_a_look_for_what_an_older_generation_left_does_not_end_the_newer_ones_teardown():
    node = Node().running(2)
    node.want(down(2), current=2)
    node.move(0)
    node.exits(0, signal=9, gen=2)
    node.exits(1, signal=9, gen=2)
    node.feed(h.StraysGone(Generation(1)))
    assert (node.phase, node.reason.code) == ("TearingDown", Reason.LATE_EVENT_IGNORED)
    node.feed(h.StraysGone(Generation(2)))
    assert node.phase == "Ready"


def test_a_launcher_that_ends_beside_a_worker_that_cannot_die_waits_for_both_of_its_bounds():
    node = Node().running()
    node.want(down(1), current=1)
    node.move(LIMITS.teardown_limit_s - 1)
    began = node.now
    node.want(end(3))
    node.move(0)
    assert node.phase == "Exiting" and node.state.phase.wait_until > began + 1
    node.move(node.state.phase.wait_until - began - 0.1)
    assert node.phase == "Exiting", "rendezvous may not know of the end yet"
    node.move(LIMITS.teardown_limit_s)
    assert node.phase == "Exited"
