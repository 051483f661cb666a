"""A guard that fires on one node: every node orders its ranks to abort that phase, once, and nobody is ended for it."""

from __future__ import annotations

from random import Random

import pytest

from resurge_launcher.core.abort_state import AbortNotice
from resurge_launcher.core.model import Running
from resurge_launcher.core.worker_news import GuardFired, OrderAbort
from resurge_libs.core.ids import Rank
from resurge_rendezvous.core import model as rm
from resurge_rendezvous.core import observing
from tests.sim.launcher import Launcher
from tests.sim.world import World

SEEDS = range(10)
SOON_S = 0.5
"""Of a calm network's and a loaded journal's time."""


def training(seed: int) -> World:
    world = World(seed=seed, nodes=4)
    world.run_until_quiet(60.0)
    assert isinstance(world.job.stage, rm.Running | rm.Proving)
    return world


def fires(launcher: Launcher, phase: str = "step", number: int = 1) -> None:
    crew = launcher.state.phase.crew
    notice = AbortNotice(Rank(crew.run.base_rank), number, phase, 1.0)
    launcher.post(GuardFired(crew.generation, notice))


def orders(world: World, phase: str) -> list[list[tuple[float, OrderAbort]]]:
    return [[one for one in launcher.ordered if one[1].phase == phase] for launcher in world.launchers()]


@pytest.mark.parametrize("seed", SEEDS)
def test_all_nodes_order_it_once_however_many_fire(seed: int):
    world = training(seed)
    chance, began = Random(seed), world.now_s
    launchers = [one for one in world.launchers() if isinstance(one.state.phase, Running)]
    for launcher in chance.sample(launchers, chance.randint(1, len(launchers))):
        world.after(chance.uniform(0.0, 0.01), lambda launcher=launcher: fires(launcher))
    world.run(began + 3.0)
    for told in orders(world, "step"):
        assert len(told) == 1
        assert told[0][0] - began < SOON_S
    world.oracle.check()
    assert isinstance(world.job.stage, rm.Running | rm.Proving), "nobody is ended for it"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_next_time_it_is_ordered_again(seed: int):
    world = training(seed)
    launcher = next(one for one in world.launchers() if isinstance(one.state.phase, Running))
    for number in (1, 2):
        fires(launcher, number=number)
        world.run(world.now_s + 3.0)
    assert [len(told) for told in orders(world, "step")] == [2] * len(world.launchers())


def test_nobody_else_would_hear_of_it_if_rendezvous_did_not_pass_it_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observing, "pass_on", lambda *_: None)
    with pytest.raises(AssertionError):
        for seed in SEEDS:
            test_all_nodes_order_it_once_however_many_fire(seed)


def test_a_fault_orders_every_survivor_of_every_node_whatever_its_phase():
    world = training(1)
    began = world.now_s
    world.crash(world.node_names[0], world.now_s + 0.1)
    world.run(began + 3.0)
    assert all(told for told in orders(world, ""))
