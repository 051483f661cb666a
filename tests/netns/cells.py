"""What can happen to a network, one function each, and the bound that must hold. Figures are seconds.

A cell gets a world that trains on two nodes with a spare, and leaves it so. It gives its figures; the bound of a figure
stands in BOUNDS.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from resurge_libs.testing import wait_until
from tests.demo.ranks import Crew
from tests.netns.world import CONTROL, NODES, World, alive, require, stays

Figures = dict[str, float]
Cell = Callable[[World], Figures]

HANG_LIMIT_S = 8
"""A cut-off node's workers that make no progress are ended after this."""
SHORT_OUTAGE_S = 1.5
"""Lease and margin, less the time since the last beat, less the longest wait before a new connection, and some room."""
LONG_OUTAGE_S = 10.0
DEAF_S = 12.0
QUIET_S = 10.0
"""How long a disturbed but usable network is watched: two leases."""

BOUNDS = {
    "node_lost_s": 8.0,
    "cut_off_workers_ended_s": HANG_LIMIT_S + 4.0,
    "resumed_s": 15.0,
    "recovered_s": 15.0,
    "back_s": 15.0,
    "whole_s": 20.0,
    "first_step_s": 60.0,
}
"""The longest that each figure may be."""


def _replaced(world: World, before: Crew, victim: str, since: float) -> tuple[Crew, Figures]:
    lost_s = world.lost_after(victim, since)
    after = world.wait_for_newer(before)
    figures = {"node_lost_s": lost_s, "resumed_s": time.time() - since}
    require(victim not in after.nodes, f"{victim} is cut off and still counted among {sorted(after.nodes)}")
    return after, figures


def _victim(crew: Crew) -> str:
    return max(crew.nodes)


def _heal(world: World, victim: str, before: Crew) -> Figures:
    """The network is whole again: the node comes back as a spare, and nothing of the old generation lives on it."""
    since = time.time()
    generation = world.crew().generation
    world.network.heal()
    world.wait_until_back(victim, since)
    back_s = time.time() - since
    old = [rank.pid for rank in before.of(victim)]
    require(not any(alive(frozenset({pid})) for pid in old), f"a worker of {victim}'s old generation is still alive")
    require(world.crew().generation == generation, f"the return of {victim} disturbed the training")
    return {"back_s": back_s}


def link_down(world: World) -> Figures:
    """The cable of a node that trains is pulled. Its own workers end without being told."""
    before = world.wait_for_training()
    victim = _victim(before)
    since = time.time()
    world.network.unplug(victim)
    _, figures = _replaced(world, before, victim, since)
    old = frozenset(rank.pid for rank in before.of(victim))
    wait_until(lambda: not alive(old), HANG_LIMIT_S + 10, f"the end of the workers on {victim}")
    figures["cut_off_workers_ended_s"] = time.time() - since
    return figures | _heal(world, victim, before)


def lost_to_control(world: World) -> Figures:
    """What a node sends to the control plane is lost; everything else works, also its training."""
    before = world.wait_for_training()
    victim = _victim(before)
    since = time.time()
    world.network.lose_sent(victim, CONTROL)
    _, figures = _replaced(world, before, victim, since)
    return figures | _heal(world, victim, before)


def lost_from_control(world: World) -> Figures:
    """What the control plane sends to a node is lost; what the node sends arrives."""
    before = world.wait_for_training()
    victim = _victim(before)
    since = time.time()
    world.network.lose_received(victim, CONTROL)
    _, figures = _replaced(world, before, victim, since)
    return figures | _heal(world, victim, before)


def short_outage(world: World) -> Figures:
    """The control plane is cut off for a moment: no worker stops, no node is lost."""
    before = world.wait_for_training()
    since = time.time()
    world.network.unplug(CONTROL)
    require(stays(lambda: alive(before.pids), SHORT_OUTAGE_S), "a worker stopped in a short outage")
    world.network.plug(CONTROL)
    _goes_on_undisturbed(world, before, since)
    return {}


def long_outage(world: World) -> Figures:
    """The control plane is cut off for two leases: workers go on meanwhile, and afterwards the job is whole again."""
    before = world.wait_for_training()
    world.network.unplug(CONTROL)
    require(stays(lambda: alive(before.pids), LONG_OUTAGE_S), "a worker stopped although it made progress")
    require(world.crew().step > before.step + 10, f"no progress without control: still at step {world.crew().step}")
    since = time.time()
    world.network.plug(CONTROL)
    for node in NODES:
        if world.events("node_lost", since - LONG_OUTAGE_S):
            world.wait_until_back(node, since)
    world.wait_for_training()
    return {"whole_s": time.time() - since}


def loss_of_5_percent(world: World) -> Figures:
    """One packet of twenty is lost everywhere: no node is lost, and a killed rank is recovered."""
    before = world.wait_for_training()
    since = time.time()
    for name in (CONTROL, *NODES):
        world.network.lose_share(name, 0.05)
    _goes_on_undisturbed(world, before, since)
    figures = _kill_a_rank(world)
    world.network.heal()
    return figures


def delay(world: World) -> Figures:
    """Everything between launchers and control plane takes 150 ms each way (the world has a proxy in between)."""
    before = world.wait_for_training()
    _goes_on_undisturbed(world, before, time.time())
    return _kill_a_rank(world)


def silent_dns(world: World) -> Figures:
    """The nodes' name server does not answer: torch forms its group all the same, and a killed rank is recovered."""
    since = time.time()
    world.wait_for_training(90)
    return {"first_step_s": time.time() - since} | _kill_a_rank(world)


def deaf_member(world: World) -> Figures:
    """Nothing reaches the only node that trains, and its job has no strict fence: no spare may run beside its workers.

    What the node sends does arrive, and its launcher gives the connection up. Were its end to arrive too, the node
    would count as dead. It does not: nothing sent before it was acknowledged, so the kernel holds it back.
    """
    before = world.wait_for_training()
    victim = _victim(before)
    since = time.time()
    world.network.lose_received(victim, CONTROL)
    figures = {"node_lost_s": world.lost_after(victim, since)}
    alone = stays(lambda: world.crew().generation == before.generation and alive(before.pids), DEAF_S)
    require(alone, f"a spare trains beside {victim}, or its workers were stopped: generation {world.crew().generation}")
    world.network.heal()
    world.wait_until_back(victim, since)
    world.wait_for_training()
    return figures


def _goes_on_undisturbed(world: World, before: Crew, since: float) -> None:
    require(stays(lambda: alive(before.pids), QUIET_S), "a worker was stopped although nothing is broken")
    lost = world.events("node_lost", since)
    require(not lost, f"lost without need: {[event['node'] for event in lost]}")
    now = world.crew()
    require(now.generation == before.generation, "a new generation without need")
    require(now.step > before.step + 10, f"no progress: from step {before.step} to {now.step}")


def _kill_a_rank(world: World) -> Figures:
    before = world.wait_for_training()
    since = time.time()
    os.kill(before.ranks[-1].pid, signal.SIGKILL)
    world.wait_for_newer(before)
    return {"recovered_s": time.time() - since}
