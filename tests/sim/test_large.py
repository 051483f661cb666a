"""The short form of the large worlds: nothing fails, everything stutters, nobody is lost."""

from __future__ import annotations

import pytest

from resurge_rendezvous.core import model as rm
from tests.sim import large
from tests.sim.world import World


@pytest.mark.parametrize("seed", [0, 1], ids=["direct", "by relays"])
def test_a_stuttering_world_loses_nobody(seed):
    calm = large.run_calm(seed, agents=60, virtual_s=420.0)
    assert not calm.told and calm.false_losses == 0
    assert calm.service_lives > 1, "the full disk was not felt"


def test_a_real_loss_is_counted_as_one():
    world = World(large.setup_of(0, 3))
    world.run(60.0)
    world.power_off("n2", at_s=61.0)
    world.run(80.0)
    lost = [entry.node for entry in world.job.nodes if entry.lost is not None]
    assert lost == ["n2"], "with beats taken without messages, silence must still be seen"


def test_leases_with_calm_beats_end_when_those_of_messages_would():
    ends = []
    for calm_beats in (True, False):
        world = World(large.setup_of(0, 3), calm_beats=calm_beats)
        world.run(60.0)
        world.service.post(rm.Tick(world.service.stamp()))
        now_s = world.now_s
        ends.append(
            {
                s.node: world.service.clock.at_s(s.lease.until) - now_s
                for s in world.service.state.volatile.seats.values()
            }
        )
    limits = world.setup.limits
    whole_s = limits.lease_ttl_s + limits.lease_margin_s
    for left in ends:
        assert all(whole_s - limits.beat_interval_s - 0.1 < left_s <= whole_s for left_s in left.values()), ends
