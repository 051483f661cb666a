"""A signal that is passed on, at any moment of a recovery: the workers that run after it get it, and none is ended."""

from __future__ import annotations

from random import Random
from signal import SIGUSR1

import pytest

from resurge_launcher.core import passing_on
from resurge_launcher.core.model import Running
from resurge_rendezvous.core import model as rm
from tests.sim.world import World

SEEDS = range(12)


def recovering(seed: int) -> World:
    """A world in which a worker dies, and every launcher is told of the end of its time somewhere in the recovery."""
    world, chance = World(seed=seed, nodes=3), Random(f"passing on {seed}")
    world.run_until_quiet(60.0)
    assert isinstance(world.job.stage, rm.Running | rm.Proving)
    began = world.now_s
    world.crash(chance.choice(world.node_names), began + 0.1)
    at_s = began + 0.1 + chance.uniform(0.0, 1.5)
    for node in world.node_names:
        world.signal_launcher(node, SIGUSR1, at_s + chance.uniform(0.0, 0.01))
    world.run(at_s + 1.0)
    return world.run_until_quiet(60.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_those_that_run_after_it_get_it_once_and_one_restart_is_charged(seed: int):
    world = recovering(seed)
    world.oracle.check()
    assert isinstance(world.job.stage, rm.Running | rm.Proving)
    assert world.job.restarts_spent == 1
    for launcher in world.launchers():
        assert isinstance(launcher.state.phase, Running)
        newest = launcher.state.phase.crew.generation
        assert [one.signal for one in launcher.passed_on if one.generation == newest] == [SIGUSR1]


def test_some_would_never_hear_of_it_if_it_were_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(passing_on, "KEPT_LIMIT_S", -1.0)
    worlds = [recovering(seed) for seed in SEEDS]
    heard = [
        any(one.generation == launcher.state.phase.crew.generation for one in launcher.passed_on)
        for world in worlds
        for launcher in world.launchers()
    ]
    assert any(heard) and not all(heard)
