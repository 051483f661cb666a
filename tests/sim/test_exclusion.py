"""Exclusions at bad moments, each in a world of its own: the oracle holds S4 against the machines as they truly are."""

from __future__ import annotations

import pytest

from resurge_launcher.core.model import OnExcluded
from resurge_rendezvous.core import model as rm
from tests.sim.test_endings import formed, training
from tests.sim.world import World


def members(world: World) -> set[str]:
    return {str(a.node) for a in world.oracle.formed[max(world.oracle.formed)].assignments}


def spare(world: World) -> str:
    return next(node for node in world.node_names if node not in members(world))


def test_an_excluded_machine_under_another_name_takes_no_place():
    world = training(World(seed=11, nodes=3, min_nodes=2))
    victim = sorted(members(world))[0]
    world.exclude(victim, at_s=25.0)
    world.rename(victim, f"{victim}0", at_s=26.0)
    world.run(40.0).run_until_quiet(60.0)
    assert members(world) == set(world.node_names) - {victim}
    world.crash(sorted(members(world))[0], at_s=70.0)
    world.run(75.0).run_until_quiet(60.0).oracle.check()
    assert f"{victim}0" not in members(world) and world.job.nodes.get(f"{victim}0").exclusion is not None


def test_new_hardware_under_an_excluded_name_takes_part():
    world = training(World(seed=12, nodes=3, min_nodes=2))
    victim, other = sorted(members(world))
    world.exclude(victim, at_s=25.0)
    world.crash(other, at_s=26.0)
    world.run(30.0).run_until_quiet(60.0)
    assert victim not in members(world)
    world.replace_machine(victim, at_s=40.0, back_after_s=8.0)  # once the lease of the old one is over
    world.power_off(other, at_s=60.0)
    world.run(61.0).run_until(lambda: victim in members(world), 60.0)
    world.heal()
    world.run_until_quiet(60.0).oracle.check()
    assert [one.identity.machine_id for one in world.job.exclusions] == [f"machine-of-{victim}"]


@pytest.mark.parametrize("seed", range(6))
def test_excluding_and_readmitting_around_a_verdict_while_the_service_dies(seed: int):
    world = training(World(seed=100 + seed, nodes=4, min_nodes=2))
    victim, other = sorted(members(world))
    world.crash(victim, at_s=30.0)
    for number in range(8):
        at_s = 30.0 + number * 0.4 + seed * 0.05
        world.exclude(other if number % 2 else victim, at_s=at_s, lasts_s=[None, 1.0][number % 2])
        world.readmit(victim, at_s=at_s + 0.3)
    world.kill_service(at_s=30.5 + seed * 0.3, down_s=0.4)
    world.run(40.0).run_until_quiet(120.0).oracle.check()


def test_a_launcher_that_is_to_leave_when_excluded_leaves_with_1_and_the_job_goes_on():
    world = training(World(seed=13, nodes=3, min_nodes=2, on_excluded=OnExcluded.EXIT))
    victim, other = sorted(members(world))
    world.exclude(victim, at_s=25.0)
    world.run(30.0)
    assert not world.gone, "what runs goes on"
    world.crash(other, at_s=31.0)
    world.run(40.0).run_until_quiet(60.0)
    assert [(launcher.node, launcher.exit[0]) for launcher in world.gone] == [(victim, 1)]
    assert victim not in members(world)
    world.shutdown(at_s=80.0)
    world.run(81.0).run_until_quiet(60.0).oracle.check()
    assert sorted(launcher.exit[0] for launcher in world.gone) == [0, 0, 1]


def test_too_few_nodes_are_waited_for_and_a_readmission_in_that_time_saves_the_job():
    world = training(World(seed=14, nodes=2))
    world.exclude("n1", at_s=25.0)
    world.crash("n2", at_s=26.0)
    world.run(60.0)
    assert formed(world) == [1] and isinstance(world.job.stage, rm.Fenced)
    world.readmit("n1", at_s=70.0)
    world.run(71.0).run_until_quiet(60.0).oracle.check()
    assert formed(world) == [1, 2]


def test_too_few_nodes_for_too_long_end_every_launcher_with_1_also_the_excluded_one():
    world = training(World(seed=15, nodes=2))
    world.exclude("n1", at_s=25.0)
    world.crash("n2", at_s=26.0)
    world.run(40.0)
    world.kill_service(at_s=84.0, down_s=3.0)  # around the end of the wait
    world.run(90.0).run_until_quiet(120.0).oracle.check()
    assert world.oracle.decision.cause.value == "too_few_nodes"
    assert sorted((launcher.node, launcher.exit[0]) for launcher in world.gone) == [("n1", 1), ("n2", 1)]


def test_a_machine_that_keeps_failing_is_excluded_by_the_policy_and_remembered_over_a_requeue():
    world = training(World(seed=16, nodes=4, min_nodes=2, max_restarts=20))
    (victim, _) = sorted(members(world))
    world.crash(victim, at_s=30.0)
    world.run(31.0).run_until_quiet(60.0)
    world.requeue(at_s=70.0)
    world.run(71.0).run_until(lambda: len(formed(world)) == 3, 60.0)
    world.run_until_quiet(60.0)
    assert victim in members(world), "this launch of the job began without it: another seed is wanted"
    for number in (4, 5):
        world.run(world.now_s + 10.0)
        world.crash(victim)
        world.run_until(lambda number=number: len(formed(world)) == number, 60.0).run_until_quiet(60.0)
    world.oracle.check()
    assert victim not in members(world)
    assert world.job.nodes.get(victim).exclusion.is_automatic
