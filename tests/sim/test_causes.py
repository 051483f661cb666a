"""Who is blamed where the service stood still while a node died."""

from __future__ import annotations

import pytest

from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core import model as rm
from tests.sim.world import World

SEEDS = range(1, 9)


def training(seed: int) -> World:
    """Two of three nodes train; the ranks of a dead one's peers end within a second."""
    world = World(seed=seed, nodes=3, min_nodes=2)
    world.run_until_quiet(30.0).run(max(30.0, world.now_s))
    assert sorted(world.oracle.formed) == [1]
    return world


def members(world: World) -> list[str]:
    return [str(place.node) for place in world.oracle.formed[1].assignments]


def recovery_of(world: World) -> rm.RecoveryRecord:
    """The record, once the world is quiet again."""
    world.run(world.now_s + 10.0).run_until_quiet(120.0).oracle.check()
    (record,) = {one.incident: one for one in world.oracle.records}.values()
    return record


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_died_while_the_service_stood_still_is_blamed_and_not_its_peers_rank(seed):
    world = training(seed)
    peer, victim = members(world)
    begun = world.now_s
    world.pause_service(3.0, at_s=begun + 1.0)
    world.kill_launcher(victim, at_s=begun + 2.9)
    record = recovery_of(world)
    assert {str(fault.node) for fault in record.faults} == {peer, victim}, "the peer's rank failed of it"
    assert (record.faults[0].node, record.faults[0].because.code) == (victim, Reason.STREAM_LOST)
    assert record.view.culprit.node == victim, "and policy was asked about it, whatever came first"
    assert record.view.cause is FaultCause.NODE
    assert [charge.cause for charge in world.job.charges] == [FaultCause.NODE]
    assert [offence.identity.node for offence in world.job.offences.entries] == [victim]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rank_that_failed_by_itself_is_blamed_though_a_node_died_before_the_service_looked(seed):
    world = training(seed)
    peer, victim = members(world)
    begun = world.now_s
    world.pause_service(3.0, at_s=begun + 1.0)
    world.crash(peer, at_s=begun + 1.1, code=3)
    world.kill_launcher(victim, at_s=begun + 3.9)  # it has sent a beat since
    record = recovery_of(world)
    assert victim in {str(fault.node) for fault in record.faults if fault.because.code is Reason.STREAM_LOST}
    assert (record.faults[0].node, record.faults[0].exit_code) == (peer, 3)
    assert [charge.cause for charge in world.job.charges] == [FaultCause.EXIT]
    assert [offence.identity.node for offence in world.job.offences.entries] == [peer]


@pytest.mark.parametrize("seed", SEEDS)
def test_policy_judges_the_node_that_died_also_where_its_peers_rank_was_heard_of_before(seed):
    world = training(seed)
    _, victim = members(world)
    begun = world.now_s
    world.pause_service(3.0, at_s=begun + 1.0)
    world.cut(victim, 1.15, at_s=begun + 2.8, down=False)  # until just before the service looks again
    world.kill_launcher(victim, at_s=begun + 2.9)
    record = recovery_of(world)
    assert world.oracle.blame.anew == 1, "the peer's rank was heard of first, and policy is asked twice"
    assert (record.view.culprit.node, record.view.cause) == (victim, FaultCause.NODE)
    assert record.verdict is not None and record.verdict.because.code is Reason.STREAM_LOST
    assert [charge.cause for charge in world.job.charges] == [FaultCause.NODE]
