"""Notices at wrong moments: whatever happens meanwhile, ranks that were told to stop were told so after one step."""

from __future__ import annotations

from random import Random
from signal import SIGTERM

import pytest

from resurge_launcher.core import stops
from resurge_libs.core.reasons import Reason
from tests.sim.hunting import EDITS
from tests.sim.model_worker import Habits
from tests.sim.oracle import Violation
from tests.sim.world import World

FAST = Habits(step_s=0.05, survivors_raise=False, start_s=0.2, save_s=0.3)
SEEDS = range(12)


def training(seed: int, **changes: object) -> tuple[World, Random]:
    """A world whose first generation trains, with fast steps: an agreement takes as long as some of them."""
    world = World(**{"seed": seed, "nodes": 3, "habits": FAST, **changes})
    world.run_until_quiet(60.0)
    return world, Random(f"drains {seed}")


def exit_codes(world: World) -> set[int]:
    return {launcher.exit[0] for launcher in world.gone if launcher.exit is not None}


def ended(world: World, code: int = 143) -> None:
    world.run_until(lambda: not world.launchers(), 60.0).run_until_quiet(60.0).oracle.check()
    assert exit_codes(world) == {code}
    assert world.oracle.decision is not None and world.oracle.decision.because.code is Reason.PREEMPTED


@pytest.mark.parametrize("seed", SEEDS)
def test_a_notice_to_one_node_stops_all_ranks_at_one_step_and_it_is_saved(seed: int):
    world, chance = training(seed)
    world.signal_launcher(chance.choice(world.node_names), SIGTERM, world.now_s + chance.uniform(0.0, 1.0))
    ended(world)
    (stopped,) = world.oracle.stopping.steps.values()
    assert len(stopped) == 6 and len(set(stopped.values())) == 1
    assert world.crowd.checkpoint_step == stopped[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_so_does_a_notice_to_all_of_them(seed: int):
    world, chance = training(seed, preempted_exit_code=75)
    world.preempt(world.now_s + 0.5, within_s=chance.choice([0.001, 0.1, 1.0]))
    ended(world, 75)
    (stopped,) = world.oracle.stopping.steps.values()
    assert len(stopped) == 6 and len(set(stopped.values())) == 1


def test_ranks_would_stop_apart_if_nobody_looked_who_had_passed_the_border(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stops, "_has_passed", lambda reading, border: False)
    monkeypatch.setattr(stops, "AGREEMENT_S", 0.0)  # the border lies as near as it may
    with pytest.raises(AssertionError):  # some ranks go on, and wait for the others until the grace is over
        for seed in range(40):
            test_a_notice_to_one_node_stops_all_ranks_at_one_step_and_it_is_saved(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_borders_as_near_as_may_be_are_moved_and_kept(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stops, "AGREEMENT_S", 0.0)
    test_a_notice_to_one_node_stops_all_ranks_at_one_step_and_it_is_saved(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_control_plane_dies_meanwhile(seed: int):
    world, chance = training(seed)
    at_s = world.now_s + 0.5
    world.signal_launcher("n1", SIGTERM, at_s)
    world.kill_service(at_s + chance.uniform(0.0, 0.1), down_s=chance.choice([0.1, 1.0, 3.0]))
    ended(world)
    (stopped,) = world.oracle.stopping.steps.values()
    assert len(set(stopped.values())) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_control_plane_stays_away_and_each_node_drains_itself_within_the_grace(seed: int):
    world, chance = training(seed)
    at_s = world.now_s + 0.5
    world.kill_service(at_s + chance.uniform(-0.05, 0.05), down_s=100.0)
    world.preempt(at_s, within_s=0.02)
    world.run(at_s + 10.0 + 1.0)
    assert not world.launchers(), "the scheduler's grace was 10 s"
    assert exit_codes(world) == {143}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rank_dies_meanwhile(seed: int):
    world, chance = training(seed)
    at_s = world.now_s + 0.5
    world.signal_launcher("n1", SIGTERM, at_s)
    world.crash(chance.choice(world.node_names), at_s + chance.uniform(0.0, 0.6))
    ended(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_is_in_progress(seed: int):
    world, chance = training(seed)
    at_s = world.now_s + 0.5
    world.crash("n2", at_s)
    world.signal_launcher("n1", SIGTERM, at_s + chance.uniform(0.0, 3.0))
    ended(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spare_takes_the_place_of_the_node_that_leaves_and_no_step_is_lost(seed: int):
    world, chance = training(seed, min_nodes=2)
    member = chance.choice([str(a.node) for a in world.oracle.formed[1].assignments])
    world.signal_launcher(member, SIGTERM, world.now_s + chance.uniform(0.0, 1.0))
    world.run_until(lambda: len(world.oracle.formed) == 2, 30.0)
    stopped = world.oracle.stopping.steps[1]
    assert len(stopped) == 4 and set(stopped.values()) == {world.crowd.checkpoint_step}
    assert member not in {str(a.node) for a in world.oracle.formed[2].assignments}
    world.run_until_quiet(60.0).oracle.check()


def drained_after_a_refund(seed: int) -> World:
    """A world whose one restart was spent and given back, and then a member is told to leave while there is a spare."""
    world, chance = training(seed, min_nodes=2, max_restarts=1, refund_after_s=5.0)
    world.crash(str(world.oracle.formed[1].assignments[0].node))
    world.run_until(lambda: world.job.refunded == 1, 60.0)
    member = chance.choice([str(a.node) for a in world.oracle.formed[2].assignments])
    world.signal_launcher(member, SIGTERM, world.now_s + chance.uniform(0.0, 1.0))
    return world.run_until(lambda: len(world.oracle.formed) == 3 or world.oracle.decision is not None, 30.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_that_was_given_back_lets_a_drained_job_go_on(seed: int):
    world = drained_after_a_refund(seed)
    assert world.oracle.decision is None
    world.run_until_quiet(60.0).oracle.check()


def test_an_end_that_was_not_needed_is_seen():
    fault = next(edit for edit in EDITS if edit.name == "a drain has no restart that was given back")
    with fault.put_in(), pytest.raises(Violation, match="preempted with 1 restarts left"):
        drained_after_a_refund(0)


@pytest.mark.parametrize("node", [None, "n1"])
def test_an_operators_order(node: str | None):
    world, _ = training(5)
    world.drain(node, world.now_s + 0.2)
    ended(world)
    (stopped,) = world.oracle.stopping.steps.values()
    assert len(stopped) == 6 and len(set(stopped.values())) == 1


def test_ranks_that_never_ask_get_the_signal_and_the_job_leaves_with_them():
    world, _ = training(6, habits=Habits(asks_stop=False, start_s=0.2, survivors_raise=False))
    world.signal_launcher("n1", SIGTERM, world.now_s + 0.2)
    ended(world)
    assert not world.oracle.stopping.steps


def test_a_teardown_waits_for_the_rank_that_saves():
    world, _ = training(7, habits=Habits(start_s=0.2, save_s=6.0, survivors_raise=False, step_s=8.0))
    world.run_until(lambda: any(p.saving for p in world.processes()), 30.0)
    step = world.training.step
    assert world.crowd.checkpoint_step < step
    world.crash(str(world.oracle.formed[1].assignments[-1].node))
    world.run_until(lambda: len(world.oracle.formed) == 2, 30.0)
    assert world.crowd.checkpoint_step == step, "what was being written when the fault came is not lost"
    world.run_until_quiet(60.0).oracle.check()
