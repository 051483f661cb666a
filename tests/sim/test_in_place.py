"""Ranks of three nodes that restart in place, in rude networks: all go on together, in the same generation."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from resurge_launcher.core.observe import crew_of
from resurge_rendezvous.core import model as rm
from resurge_rendezvous.core import musters, observing
from tests.sim import rudeness
from tests.sim.model_worker import Habits
from tests.sim.run import run_seed
from tests.sim.world import NotQuiet, Setup, World

SEEDS = range(12)
SOON_S = 3.0
"""Of a break, over a calm network."""


def training(seed: int, min_world: int = 1, nodes: int = 3, **changed: object) -> World:
    world = World(seed=seed, nodes=nodes, habits=Habits(in_place=True, **changed))
    world.in_place.min_world = min_world
    world.run_until(lambda: world.in_place.all_run(0) and len(world.processes()) == 2 * nodes, 60.0)
    world.run_until_quiet(60.0)
    return world


def goes_on(world: World, iteration: int, limit_s: float) -> None:
    """All that live come to this iteration, and nobody was started anew."""
    generation, budget = world.job.generation, world.job.restarts_spent
    world.run_until(lambda: world.in_place.all_run(iteration), limit_s)
    world.run(world.now_s + 1.0)
    world.oracle.check()
    assert isinstance(world.job.stage, rm.Running | rm.Proving)
    assert (world.job.generation, world.job.restarts_spent) == (generation, budget)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_others_go_on_soon_whichever_rank_is_killed(seed: int):
    world = training(seed)
    world.crash(world.node_names[seed % 3])
    goes_on(world, 1, SOON_S)
    assert len(world.processes()) == 5


@pytest.mark.parametrize("seed", SEEDS)
def test_two_that_are_killed_at_about_one_time_are_gone_on_without(seed: int):
    world = training(seed)
    first, second = Random(seed).sample(world.node_names, 2)
    world.crash(first)
    world.crash(second, world.now_s + Random(seed).uniform(0.0, 0.6))
    goes_on(world, 1, 2 * SOON_S)
    world.run_until(lambda: len(world.processes()) == 4 and world.in_place.all_run(1), SOON_S)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_goes_on_where_it_was_when_the_service_is_killed_in_the_middle(seed: int):
    world = training(seed)
    world.crash(world.node_names[0])
    world.kill_service(world.now_s + Random(seed).uniform(0.0, 0.4), down_s=0.5)
    goes_on(world, 1, 10.0)


def running(world: World, iteration: int) -> list[str]:
    """The nodes that know that this iteration has started."""
    musters = {name: crew.muster for name in world.node_names if (crew := crew_of(world.launcher(name).state.phase))}
    return [name for name, one in musters.items() if one and (one.is_running, one.iteration) == (True, iteration)]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_goes_on_where_some_have_not_seen_the_start_that_is_broken(seed: int):
    world = training(seed)
    world.crash(world.node_names[0])
    world.run_until(lambda: running(world, 1), SOON_S)
    seen = running(world, 1)
    assert len(seen) < 3, "the others have not seen it"
    world.kill_service(down_s=0.5)
    world.in_place.fail(seen[0], world.now_s + 0.01)
    goes_on(world, 2, 10.0)
    assert len(world.processes()) == 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rank_that_is_stopped_is_ended_and_gone_on_without(seed: int):
    world = training(seed)
    world.hang(world.node_names[seed % 3], stopped=True)
    goes_on(world, 1, world.setup.limits.hang_limit_s + world.in_place.limit_s + SOON_S)
    assert len(world.in_place.evicted) == 1 and len(world.processes()) == 5


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_rank_that_is_stopped_and_ends_late_is_ended_once_and_gone_on_without(seed: int):
    world, node = training(seed, nodes=1), "n1"
    until_s = world.setup.limits.hang_limit_s + world.in_place.limit_s
    world.hang(node, stopped=True)
    world.stick(node, until_s - SOON_S)
    goes_on(world, 1, until_s + SOON_S)
    assert len(world.in_place.evicted) == 1 and len(world.processes()) == 1


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_where_a_rank_that_is_stopped_cannot_be_ended_the_generation_is_restarted(seed: int):
    world, node = training(seed, nodes=1), "n1"
    until_s = world.setup.limits.hang_limit_s + world.in_place.limit_s
    world.hang(node, stopped=True)
    world.stick(node, 10 * until_s)
    world.run_until(lambda: world.job.open_incident is not None, until_s + SOON_S)
    assert len(world.in_place.evicted) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rank_that_does_not_come_back_is_ended_and_gone_on_without(seed: int):
    world = training(seed)
    world.hang(world.node_names[0])
    world.crash(world.node_names[1])
    goes_on(world, 1, world.in_place.limit_s + 2 * SOON_S)
    assert len(world.in_place.evicted) == 1 and len(world.processes()) == 4


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_with_too_few_left_the_generation_is_restarted(seed: int):
    world = training(seed, min_world=6)
    world.crash(world.node_names[0])
    world.run_until(lambda: world.job.restarts_spent == 1 and world.in_place.all_run(0), 60.0)
    assert len(world.processes()) == 6


@pytest.mark.parametrize("chunk", range(4))
def test_rude_worlds_whose_ranks_restart_in_place_break_no_invariant(monkeypatch: pytest.MonkeyPatch, chunk: int):
    drawn = rudeness.setup_of

    def setup_of(seed: int, keep_lines: int = 50) -> Setup:
        setup = drawn(seed, keep_lines)
        return replace(setup, habits=replace(setup.habits, in_place=True))

    monkeypatch.setattr(rudeness, "setup_of", setup_of)
    for seed in range(20 * chunk, 20 * chunk + 20):
        outcome = run_seed(seed)
        assert not outcome.failure, f"seed {seed} at {outcome.world_s:.3f} s: {outcome.failure}\n{outcome.tail}"


def test_nobody_elsewhere_would_start_if_rendezvous_did_not_gather(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observing, "muster_news", lambda *_: None)
    with pytest.raises(NotQuiet):
        training(1)


def test_a_start_before_all_have_come_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(musters, "_all", lambda d: type(d.seen.unfinished)())
    with pytest.raises(AssertionError):
        for seed in SEEDS:
            world = training(seed)
            world.crash(world.node_names[0])
            goes_on(world, 1, SOON_S)
