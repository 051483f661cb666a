"""Relays between launchers and rendezvous: each way in which one can fail, in a world of its own.

Their decisions are the product's own; leases are judged by the root alone, so that a relay's end is nobody's fault.
"""

from __future__ import annotations

import pytest

from tests.sim.model_worker import Habits
from tests.sim.world import SHORT_LIMITS, World

CALM = Habits(step_s=1.0)


def training(**changes) -> World:
    """A world behind relays whose first generation trains."""
    world = World(seed=5, nodes=4, relays=2, habits=CALM, **changes)
    world.run_until_quiet(30.0).run(30.0)
    assert sorted(world.oracle.formed) == [1]
    return world


def ways(world: World) -> set[str]:
    """Through whom the launchers speak now."""
    return {launcher.stream.server.name for launcher in world.launchers() if launcher.stream is not None}


def undisturbed(world: World) -> None:
    world.run_until_quiet(30.0).oracle.check()
    assert sorted(world.oracle.formed) == [1] and not world.oracle.records, "the relay's trouble cost a restart"


def test_launchers_go_through_relays_and_their_beats_come_together():
    world = training()
    assert ways(world) == {"r1", "r2"}
    together = []
    post = world.service.post
    world.service.post = lambda event: (together.append(event), post(event))
    world.run(40.0)
    assert {type(event).__name__ for event in together} == {"BeatsReceived"}


def test_a_dead_relay_costs_nothing_and_its_launchers_take_the_next():
    world = training()
    world.kill_relay("r1", at_s=31.0)
    world.run(45.0)
    assert ways(world) == {"r2"}
    undisturbed(world)


@pytest.mark.parametrize("at_s", [31.0, 31.7, 32.3, 33.1])
def test_launchers_turn_from_a_dead_relay_before_their_lease_is_over(at_s):
    world = training()
    world.kill_relay("r1", at_s=at_s)
    for tenth in range(60):
        world.run(at_s + tenth / 10)
        for launcher in world.launchers():
            assert launcher.state.control.holds(launcher.now), f"{launcher.name} was without its lease"
    undisturbed(world)


def test_a_slow_link_excuses_the_loss_of_its_own_launcher_only():
    world = training()
    world.slow_link("n1", 2.0, at_s=31.0)
    for relay in world.relays:
        world.kill_relay(relay, at_s=33.0)
    world.run(33.1)
    assert world.slow_to_turn == {"n1"} and not world.faulted


def test_with_all_relays_dead_launchers_speak_to_the_root_itself():
    world = training()
    for relay in world.relays:
        world.kill_relay(relay, at_s=31.0)
    world.run(45.0)
    assert ways(world) == {"rdzv"}
    undisturbed(world)


def test_a_relay_started_again_knows_all_it_needs():
    world = training()
    for relay in world.relays:
        world.kill_relay(relay, at_s=31.0, back_after_s=0.1)
    world.run(45.0)
    undisturbed(world)


def test_a_relay_that_cannot_reach_the_root_lets_go_and_its_launchers_do_not_go_around_it():
    world = training()
    root_lost_s = SHORT_LIMITS.keepalive_s + SHORT_LIMITS.client_ping_timeout_s
    world.cut_relay("r1", 1.5, at_s=31.0)
    world.run(32.0 + root_lost_s)
    assert ways(world) == {"r1", "r2"}
    undisturbed(world)


@pytest.mark.parametrize(("up", "down"), [(True, True), (True, False), (False, True)], ids=["both", "up", "down"])
@pytest.mark.parametrize("above", [True, False], ids=["root's side", "launchers' side"])
def test_a_relay_cut_off_for_long_costs_a_restart_at_most(above, up, down):
    world = training()
    world.cut_relay("r1", 60.0, at_s=31.0, above=above, up=up, down=down)
    world.run(60.0).run_until_quiet(60.0)
    assert len(world.oracle.formed) <= 2
    world.run(120.0).run_until_quiet(60.0).oracle.check()


@pytest.mark.parametrize("for_s", [0.4, 20.0])
def test_a_relay_that_stands_still_is_left_when_it_matters(for_s):
    world = training()
    world.pause_relay("r1", for_s, at_s=31.0)
    world.run(45.0)
    assert ("r1" in ways(world)) is (for_s < 1.0) and "r2" in ways(world)
    world.run(60.0).run_until_quiet(60.0).oracle.check()
    assert len(world.oracle.formed) <= 2


def test_a_launcher_that_dies_behind_a_relay_is_known_to_be_dead_as_directly():
    world = training(min_nodes=3)
    victim = str(world.oracle.formed[1].assignments[0].node)
    world.kill_launcher(victim, at_s=31.0)
    world.run(31.0 + SHORT_LIMITS.stream_loss_limit_s + 3.0)
    assert sorted(world.oracle.formed) == [1, 2], "its lease was waited for though its kernel had closed the stream"
    world.run_until_quiet(30.0).oracle.check()
