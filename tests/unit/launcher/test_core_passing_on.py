"""A signal that is only passed on never ends a start, and reaches the workers that run next."""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGTERM, SIGUSR1, SIGUSR2

import pytest

from resurge_launcher.core import goals as g
from resurge_launcher.core import happenings as h
from resurge_launcher.core.passing_on import KEPT_LIMIT_S
from resurge_launcher.core.step import LauncherMachine
from resurge_libs.core.ids import Generation
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from tests.unit.launcher.core_world import Node, down, of, rules, run
from tests.unit.launcher.test_core_total import STATES

ONE, TWO = Generation(1), Generation(2)
USR1 = h.SignalReceived(SIGUSR1)


def new_node() -> Node:
    return Node(pass_on_signals=frozenset({SIGUSR1, SIGUSR2})).attached()


def delayed() -> Node:
    node = new_node()
    node.want(run(delay_s=5))
    return node


def starting() -> Node:
    node = new_node()
    node.want(run())
    node.move(0)
    return node


def ordered_down() -> Node:
    node = new_node().running()
    node.want(down())
    return node


def down_here() -> Node:
    node = ordered_down()
    node.all_killed()
    return node


@pytest.mark.parametrize("stage", [delayed, starting])
def test_it_waits_for_a_start_that_is_under_way(stage: Callable[[], Node]):
    node = stage()
    assert not of(node.feed(USR1, USR1), h.PassOn) and "kept" in node.reason.sentence
    node.move(10)
    assert len(of(node.actions, h.SpawnWorkers)) == 1 and node.phase == "Starting"
    assert of(node.spawned(), h.PassOn) == [h.PassOn(ONE, SIGUSR1)], "once"
    assert node.phase == "Running" and not of(node.actions, h.SignalWorkers) and not node.state.kept_signals


@pytest.mark.parametrize("stage", [ordered_down, down_here])
def test_it_waits_for_the_next_generation(stage: Callable[[], Node]):
    node = stage()
    node.feed(USR1, h.SignalReceived(SIGUSR2))
    if stage is ordered_down:
        assert len(of(node.actions, h.PassOn)) == 2, "those that still live may hear it too"
        node.all_killed()
    node.want(run(2))
    node.move(0)
    assert of(node.spawned(2), h.PassOn) == [h.PassOn(TWO, SIGUSR1), h.PassOn(TWO, SIGUSR2)]


def test_one_whose_start_failed_waits_for_the_next():
    node = starting()
    node.feed(USR1)
    assert not of(node.feed(h.SpawnFailed(ONE, Because(Reason.WORKER_START_FAILED))), h.PassOn)
    node.feed(h.StraysGone(ONE))
    node.want(run(2))
    node.move(0)
    assert of(node.spawned(2), h.PassOn) == [h.PassOn(TWO, SIGUSR1)]


def test_an_old_one_is_no_news():
    node = down_here()
    node.feed(USR1)
    node.move(KEPT_LIMIT_S + 1)
    node.want(run(2))
    node.move(0)
    assert not of(node.spawned(2), h.PassOn) and not node.state.kept_signals


def test_where_no_worker_is_to_run_it_is_dropped_and_that_is_said():
    node = new_node()
    node.want(g.ParkGoal(Because(Reason.NODE_PARKED)))
    assert not node.feed(USR1)
    assert node.reason == Because(Reason.LATE_EVENT_IGNORED, "SIGUSR1 is passed on to nobody: no worker runs here")


def test_one_that_ends_still_ends_a_start():
    node = starting()
    assert of(node.feed(h.SignalReceived(SIGTERM)), h.SignalWorkers) == [h.SignalWorkers(ONE, SIGTERM)]
    assert not of(node.feed(USR1), h.PassOn) and not node.state.kept_signals, "no worker runs here any more"


@pytest.mark.parametrize("state", STATES)
def test_it_ends_nothing_in_any_state(state: str):
    node = STATES[state]()
    node.machine = LauncherMachine(rules(pass_on_signals=frozenset({SIGUSR1})))
    before = node.state
    fresh = node.feed(USR1)
    assert not of(fresh, h.SignalWorkers) and len(of(fresh, h.PassOn)) <= 1
    assert replace(node.state, kept_signals=()) == before, "it changes nothing else"


def test_one_that_workers_got_is_not_given_to_the_next_generation():
    node = new_node().running()
    assert of(node.feed(USR1), h.PassOn) == [h.PassOn(ONE, SIGUSR1)]
    node.want(down())
    node.all_killed()
    node.want(run(2))
    node.move(0)
    assert not of(node.spawned(2), h.PassOn)
