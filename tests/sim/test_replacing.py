"""Ranks of three nodes that restart in place and get fresh processes for those they lose: the world keeps its size."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from resurge_launcher.core import replacements
from resurge_launcher.core.replacement_state import ReplacementStage
from resurge_rendezvous.core import model as rm
from resurge_rendezvous.core import observing
from tests.sim import rudeness
from tests.sim import world as worlds
from tests.sim.in_place import InPlace
from tests.sim.run import run_seed
from tests.sim.test_in_place import SOON_S, training
from tests.sim.world import Setup, World

SEEDS = range(8)
REPLACE_S = 10.0


def replacing(seed: int, min_world: int = 1, nodes: int = 3) -> World:
    return training(seed, min_world, nodes)


@pytest.fixture(autouse=True)
def replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InPlace, "__init__", _with_replacing(InPlace.__init__))


def _with_replacing(init):
    def made(self, world, *args, **kwargs):
        init(self, world, *args, **kwargs)
        self.replace_s = REPLACE_S

    return made


def is_whole(world: World, iteration: int, size: int) -> None:
    """All ranks run this iteration in the generation of before."""
    generation = world.job.generation
    world.run_until(lambda: world.in_place.all_run(iteration) and len(world.processes()) == size, 3 * SOON_S)
    world.run(world.now_s + 1.0)
    world.oracle.check()
    assert isinstance(world.job.stage, rm.Running | rm.Proving) and world.job.generation == generation


@pytest.mark.parametrize("min_world", [1, 6])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_fresh_process_takes_the_place_of_a_rank_that_is_killed(seed: int, min_world: int):
    world = replacing(seed, min_world)
    world.crash(world.node_names[seed % 3])
    is_whole(world, 1, 6)
    (one,) = world.job.replaced
    assert one.came and one.node == world.node_names[seed % 3] and world.in_place.replaced == [one.rank]
    assert world.job.restarts_spent == 1, "it is paid from the budget"


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_on_one_node_too(seed: int):
    world = replacing(seed, 2, nodes=1)
    world.crash("n1")
    is_whole(world, 1, 2)
    assert [one.came for one in world.job.replaced] == [True]


@pytest.mark.parametrize("seed", SEEDS)
def test_two_that_are_killed_at_about_one_time_are_both_replaced(seed: int):
    world = replacing(seed)
    first, second = Random(seed).sample(world.node_names, 2)
    world.crash(first)
    world.crash(second, world.now_s + Random(seed).uniform(0.0, 0.6))
    is_whole(world, 1, 6)
    world.run_until(lambda: len(world.processes()) == 6 and all(one.came for one in world.job.replaced), 10.0)
    assert world.job.restarts_spent == 2


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_a_rank_that_is_stopped_is_ended_and_replaced(seed: int):
    world = replacing(seed)
    world.hang(world.node_names[seed % 3], stopped=True)
    limit_s = world.setup.limits.hang_limit_s + world.in_place.limit_s
    world.run_until(lambda: world.in_place.all_run(1) and len(world.processes()) == 6, limit_s + 2 * SOON_S)
    assert [one.came for one in world.job.replaced] == [True] and len(world.in_place.evicted) == 1


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_the_others_go_on_without_where_no_fork_server_is_warm(seed: int):
    world = replacing(seed)
    world.in_place.fork_failure_rate = 1.0
    world.crash(world.node_names[0])
    is_whole(world, 1, 5)
    world.run_until(lambda: [one.sentence for one in world.job.replaced] == ["the fork server is not warm"], 5.0)


@pytest.mark.parametrize("min_world", [1, 6])
@pytest.mark.parametrize("seed", SEEDS[:6])
def test_one_that_comes_late_is_gone_on_without_or_the_generation_is_restarted(seed: int, min_world: int):
    world = replacing(seed, min_world)
    world.in_place.fork_most_s = 10_000.0
    node, generation = world.node_names[0], world.job.generation
    world.crash(node)
    if min_world == 6:
        world.run_until(lambda: world.job.generation > generation and world.in_place.all_run(0), 60.0)
        assert len(world.processes()) == 6
        return
    world.run_until(lambda: world.in_place.all_run(1), REPLACE_S + 2 * SOON_S)
    assert len(world.processes()) == 5 and world.job.generation == generation
    assert "in time" in world.job.replaced[0].sentence


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_without_a_restart_left_none_is_replaced(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worlds, "Setup", lambda **given: Setup(**{"max_restarts": 0, **given}))
    world = replacing(seed)
    world.crash(world.node_names[0])
    is_whole(world, 1, 5)
    assert not world.job.replaced and world.job.restarts_spent == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_all_go_on_when_the_service_is_killed_in_the_middle(seed: int):
    world = replacing(seed)
    world.crash(world.node_names[0])
    world.kill_service(world.now_s + Random(seed).uniform(0.0, 0.4), down_s=0.5)
    world.run_until(lambda: world.in_place.all_run(1), REPLACE_S + 2 * SOON_S)
    world.run(world.now_s + 1.0)
    world.oracle.check()
    assert len(world.processes()) >= 5 and world.job.generation == 1


@pytest.mark.parametrize("chunk", range(2))
def test_rude_worlds_that_replace_ranks_break_no_invariant(monkeypatch: pytest.MonkeyPatch, chunk: int):
    drawn = rudeness.setup_of

    def setup_of(seed: int, keep_lines: int = 50) -> Setup:
        setup = drawn(seed, keep_lines)
        return replace(setup, habits=replace(setup.habits, in_place=True))

    monkeypatch.setattr(rudeness, "setup_of", setup_of)
    for seed in range(500 + 10 * chunk, 510 + 10 * chunk):
        outcome = run_seed(seed)
        assert not outcome.failure, f"seed {seed} at {outcome.world_s:.3f} s: {outcome.failure}\n{outcome.tail}"


def test_no_fresh_process_would_come_if_rendezvous_granted_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observing, "replacements_told", lambda *_: None)
    world = replacing(1)
    world.crash(world.node_names[1])
    world.run_until(lambda: world.in_place.all_run(1), REPLACE_S + 2 * SOON_S)
    assert len(world.processes()) == 5


def test_a_fork_that_was_not_granted_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    wanted = replacements.wanted

    def granted(*given):
        crew = wanted(*given)
        known = tuple(replace(one, stage=ReplacementStage.GRANTED) for one in crew.muster.replacements)
        return replace(crew, muster=replace(crew.muster, replacements=known))

    monkeypatch.setattr(replacements, "wanted", granted)
    world = training(1)
    with pytest.raises(AssertionError, match="0 are granted"):
        world.crash(world.node_names[0])
        world.run(world.now_s + 10.0)


def test_a_start_that_says_to_nobody_that_ranks_are_given_anew_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    told = InPlace.take

    def take(self, launcher, order):
        is_start = getattr(order, "kind", "") == "start"
        told(self, launcher, replace(order, is_anew=False) if is_start else order)

    monkeypatch.setattr(InPlace, "take", take)
    world = training(1)
    with pytest.raises(AssertionError, match="not told to be anew"):
        world.crash(world.node_names[0])
        world.run(world.now_s + 10.0)
