"""The seven endings that a review of the design worried about, each in a world of its own."""

from __future__ import annotations

import pytest

from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core import model as rm
from tests.sim.model_worker import Habits
from tests.sim.world import SHORT_LIMITS, World


def formed(world: World) -> list[int]:
    return sorted(world.oracle.formed)


def training(world: World, at_s: float = 20.0) -> World:
    """The world once its first generation trains."""
    world.run_until_quiet(at_s).run(max(at_s, world.now_s))
    assert formed(world) == [1]
    return world


def test_a_service_paused_for_ten_seconds_loses_no_lease():
    world = training(World(seed=1, nodes=3))
    world.pause_service(10.0, at_s=30.0)
    world.run(60.0).run_until_quiet(60.0)
    assert formed(world) == [1], "a pause of the service cost a generation"
    assert not world.oracle.records, "a pause of the service was taken for a fault"
    world.oracle.check()


@pytest.mark.users_row(48)
def test_a_stuck_teardown_costs_one_node_not_the_job():
    world = training(World(seed=2, nodes=3, min_nodes=2))
    (victim,) = [a.node for a in world.oracle.formed[1].assignments][:1]
    world.stick(victim, 500.0, at_s=25.0, rank=0)
    world.crash(victim, at_s=26.0, rank=1)
    world.run_until(lambda: len(formed(world)) == 2, 60.0)
    assert victim not in {a.node for a in world.oracle.formed[2].assignments}
    world.run_until_quiet(60.0).oracle.check()


@pytest.mark.parametrize("strict", [True, False], ids=["strict fence", "no strict fence"])
@pytest.mark.users_row(40)
def test_all_of_a_generation_unreachable_with_a_spare_waiting_does_not_run_twice(strict):
    world = World(seed=3, nodes=4, min_nodes=2, strict_fence=strict)
    training(world)
    members = [str(a.node) for a in world.oracle.formed[1].assignments]
    spares = [node for node in world.node_names if node not in members]
    assert len(spares) == 2, "the spares alone could form a generation"
    for node in members:
        world.cut(node, 200.0, at_s=30.0)
    first_loss_s = 30.0 + SHORT_LIMITS.lease_ttl_s - SHORT_LIMITS.beat_interval_s
    world.run(first_loss_s + SHORT_LIMITS.all_lost_wait_s - 1.0)
    assert formed(world) == [1], "the spares took over before anything was known of the members"
    world.run(150.0)
    # the members still train, cut off; behind the strict fence they cannot commit, so the spares may go on
    assert formed(world) == ([1, 2] if strict else [1])
    world.run(240.0).run_until_quiet(120.0).oracle.check()


def test_a_second_launcher_of_one_node_is_refused_and_harms_nothing():
    world = training(World(seed=4, nodes=2))
    world.second_launcher("n1", at_s=30.0)
    world.run(60.0).run_until_quiet(30.0)
    (second,) = world.gone
    assert second.exit is not None and second.exit[0] == 2 and second.exit[1].code is Reason.ALREADY_ATTACHED
    assert formed(world) == [1]
    world.oracle.check()


def test_ranks_of_one_node_finish_early_and_a_fault_follows():
    world = training(World(seed=5, nodes=2, workers=2))
    for rank in (0, 1):
        world.crash("n1", at_s=30.0, rank=rank, code=0)
    world.crash("n2", at_s=31.0, rank=2)
    world.run_until(lambda: world.oracle.records, 120.0)
    fenced_at_s = world.oracle.records[0].start
    assert fenced_at_s, "the recovery has a beginning"
    world.run_until_quiet(60.0).oracle.check()
    assert formed(world) == [1, 2], "the job goes on with all of its ranks"


def test_the_journal_is_lost_and_its_launchers_come_back():
    world = training(World(seed=6, nodes=2))
    world.crash("n1", at_s=25.0)
    world.run(26.0).run_until_quiet(60.0)
    assert formed(world) == [1, 2]
    world.lose_journal(at_s=60.0)
    world.run(70.0).run_until_quiet(120.0).oracle.check()
    assert int(world.job.generation) > 2, "the numbers began anew"
    assert all(p.generation == world.job.generation for p in world.processes())


def test_the_journal_is_lost_and_an_old_launcher_returns():
    world = training(World(seed=6, nodes=3, min_nodes=2, habits=Habits(survivors_raise=False)))
    (old, other) = (str(a.node) for a in world.oracle.formed[1].assignments)
    world.crash(old, at_s=25.0)
    world.run(26.0).run_until_quiet(60.0)
    assert formed(world) == [1, 2]
    world.cut(old, 60.0, at_s=50.0)
    world.lose_journal(at_s=51.0)
    for node in set(world.node_names) - {old}:
        world.kill_launcher(node, at_s=51.2, back_after_s=1.0)  # nobody who is there remembers a number
    world.run(68.0)
    assert int(world.job.generation) == 1, "without a memory the numbers do begin anew"
    assert {p.generation for p in world.processes(old)} == {2} and not world.launcher(old).holds_lease
    world.run(120.0).run_until_quiet(120.0).oracle.check()
    assert int(world.job.generation) > 3, "the old launcher's number was adopted, and the next one formed"
    assert {p.generation for p in world.processes()} == {int(world.job.generation)}
    assert other in world.node_names


def test_a_verdict_and_its_timeout_fork_and_only_the_first_counts():
    late_s = SHORT_LIMITS.verdict_limit_s
    for seed in range(20):
        # the answer comes around the limit, sometimes just before and sometimes just after it
        world = World(seed=seed, nodes=2, habits=Habits(survivors_raise=False))
        world.service.policy.slowest_s = 2 * late_s
        training(world)
        world.crash("n1", at_s=30.0)
        world.run(32.0).run_until_quiet(60.0).oracle.check()
        assert set(world.oracle.verdicts.values()) == {1}
        assert formed(world) == [1, 2]
        assert isinstance(world.job.stage, rm.Running)


def test_an_ended_job_stays_ended_for_a_launcher_that_comes_back_late():
    world = training(World(seed=8, nodes=2, max_restarts=0))
    world.stick("n2", 9.0, at_s=30.0)  # it knows of the end long before it can leave
    world.crash("n1", at_s=30.5)
    world.run_until(lambda: world.oracle.decision, 30.0)
    world.cut("n2", 4.0, world.now_s + 0.5)  # and must introduce itself again
    world.run(60.0).run_until_quiet(60.0).oracle.check()
    assert [launcher.exit[0] for launcher in world.gone] == [1, 1]
    assert isinstance(world.job.stage, rm.Ended), "the end was taken back"
