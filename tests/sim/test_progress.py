"""Cycles without progress, counted through whatever else goes wrong: the job ends at the very last one it may have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core import model as rm
from tests.sim.model_worker import Habits
from tests.sim.world import World

LIMIT_S = 400.0


def world_of(seed: int, cycles: int = 3, **changes: object) -> World:
    """A job that completed a checkpoint once, and completes none any more: each takes longer than a cycle lives."""
    habits = Habits(saves_every=10_000, step_s=0.5, start_s=0.5)
    tracked = {"progress_by": "marker", "no_progress_cycles": cycles}
    world = World(seed=seed, nodes=3, min_nodes=2, max_restarts=100, habits=habits, **tracked, **changes)
    world.crowd.checkpoint_step = 100
    return world


def trains(world: World, generation: int) -> Callable[[], bool]:
    def there() -> bool:
        stage = world.job.stage
        return isinstance(stage, rm.Running) and int(stage.formation.generation) >= generation and world.is_quiet()

    return there


def fail_cycles(world: World, count: int, also: Callable[[World, int], None] = lambda world, cycle: None) -> None:
    """So many cycles end by a crash, and something else goes wrong beside each."""
    for cycle in range(count):
        generation = int(world.job.generation) + (1 if cycle == 0 and not world.oracle.formed else 0)
        world.run_until(trains(world, generation), LIMIT_S)
        formed = int(world.job.generation)
        member = str(world.oracle.formed[formed].assignments[-1].node)
        world.crash(member)
        also(world, cycle)
        world.run_until(
            lambda formed=formed: world.oracle.decision is not None or max(world.oracle.formed) > formed, LIMIT_S
        )


def checks(world: World) -> list[rm.ProgressChecked]:
    return [fact for entry in world.service.journal for fact in entry if isinstance(fact, rm.ProgressChecked)]


def kill_service(world: World, cycle: int) -> None:
    world.kill_service(down_s=0.3)


def kill_service_at_the_verdict(world: World, cycle: int) -> None:
    world.kill_service(at_s=world.now_s + world.chance.uniform(0.0, 0.05), down_s=0.2)


def replace_a_node(world: World, cycle: int) -> None:
    member = str(world.oracle.formed[int(world.job.generation)].assignments[-1].node)
    world.kill_launcher(member, at_s=world.now_s + 0.01, back_after_s=30.0)


def lose_the_reader(world: World, cycle: int) -> None:
    member = str(world.oracle.formed[int(world.job.generation)].assignments[0].node)
    world.power_off(member, at_s=world.now_s + 0.2, back_after_s=2.0)


def silence_policy(world: World, cycle: int) -> None:
    world.service.policy.dead, world.service.policy.mute = cycle % 2 == 0, cycle % 2 == 1


BESIDE = [kill_service, kill_service_at_the_verdict, replace_a_node, silence_policy]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beside", BESIDE, ids=[one.__name__ for one in BESIDE])
def test_it_ends_at_exactly_the_third_cycle_whatever_dies_meanwhile(beside, seed):
    world = world_of(seed)
    fail_cycles(world, 2, beside)
    assert world.oracle.decision is None, "two cycles are not three"
    counted = sum(check.check.value is not None for check in checks(world))
    fail_cycles(world, 3 - counted, beside)
    decision = world.oracle.decision
    assert decision is not None and (decision.exit_code, decision.because.code) == (93, Reason.NO_PROGRESS)
    assert sum(check.check.value is not None for check in checks(world)) == 3
    world.run_until_quiet(LIMIT_S).oracle.check()


@pytest.mark.parametrize("seed", range(6))
def test_in_a_calm_world_every_cycle_is_counted(seed):
    world = world_of(seed, cycles=5)
    fail_cycles(world, 5)
    assert [check.check.skipped for check in checks(world)] == [""] * 5
    assert world.oracle.decision is not None


@pytest.mark.parametrize("seed", range(3))
def test_the_next_node_reads_where_the_lowest_is_lost(seed):
    world = world_of(seed)
    fail_cycles(world, 2, lose_the_reader)
    world.run_until_quiet(LIMIT_S).oracle.check()


@pytest.mark.parametrize("seed", range(3))
def test_a_file_system_that_hangs_counts_nothing_and_delays_nothing(seed):
    took = {}
    for hangs in (0.0, 1.0):
        world = world_of(seed, marker_hang_rate=hangs)
        fail_cycles(world, 1)
        world.run_until_quiet(LIMIT_S).oracle.check()
        (record,) = world.oracle.records
        took[hangs] = record.end - record.start
        assert world.job.progress.without_progress == (1 if hangs == 0.0 else 0)
    assert took[1.0] - took[0.0] < 1.0, took


def test_the_budget_alone_bounds_a_job_that_never_completed_a_checkpoint():
    world = World(
        seed=5,
        nodes=1,
        max_restarts=4,
        progress_by="marker",
        no_progress_cycles=2,
        habits=Habits(saves_every=10_000, step_s=0.5, start_s=0.5),
    )
    fail_cycles(world, 5)
    assert world.oracle.decision is not None and world.oracle.decision.exit_code == 1
    assert world.oracle.decision.because.code is Reason.BUDGET_EXHAUSTED
