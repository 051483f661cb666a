"""Everything rude that a world may do, in one list, with how often. Reviewed like code: what is not here is not tested.

A seed picks its own subset and its own pace, so that worlds differ in kind, not only in timing. Rudeness that is always
there and needs no row: every message has a random delay, clocks of machines are wrong and drift, workers leave strays,
and after each reconnect everything is told twice.

The disk: what was answered is durable by promise; the two rows of a disk that forgets break that promise on purpose.
The oracle then holds only what JOURNAL_BEHIND promises (S2), and that the job becomes quiet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from signal import SIGTERM
from typing import Any

from resurge_launcher.core.model import OnExcluded, OnLostControl
from resurge_libs.core.recommendation import RecommendationKind
from tests.sim.model_worker import Habits
from tests.sim.world import Setup, World

RUDE_FOR_S = 240.0
"""So long a world is rude; then it heals and must become quiet."""


@dataclass(frozen=True)
class Rude:
    """One kind of rudeness."""

    name: str
    per_hour: float
    """How often, in a world that does it at all."""
    act: Callable[[World, Random], None]
    share: float = 0.5
    """The share of worlds that do it."""
    needs_relays: bool = False


def _node(world: World, chance: Random) -> str:
    return chance.choice(world.node_names)


def _back(chance: Random) -> float | None:
    """When a dead launcher is started again: soon, late, or not before the world heals."""
    return chance.choice([chance.uniform(0.3, 3.0), chance.uniform(3.0, 30.0), None])


def _pause_s(chance: Random) -> float:
    return chance.choice([chance.uniform(0.05, 0.6), chance.uniform(0.6, 5.0), chance.uniform(5.0, 20.0)])


def _slow_link(world: World, chance: Random) -> None:
    world.slow_link(_node(world, chance), chance.choice([0.0, 0.2, 2.0]))


def _policy(world: World, chance: Random) -> None:
    world.set_policy(
        dead=chance.random() < 0.3,
        mute=chance.random() < 0.3,
        slowest_s=chance.choice([0.01, 1.0, 4.0]),
        excludes=chance.choice([0.0, 0.5]),
        stops=chance.choice([0.0, 0.0, 0.2]),
        doubles=chance.choice([0.0, 0.3]),
        grants=chance.choice([0.0, 0.0, 0.5]),
    )


def _relay(world: World, chance: Random) -> str:
    return chance.choice(list(world.relays))


def _cut_relay(world: World, chance: Random) -> None:
    up, down = chance.choice([(True, True), (True, True), (True, False), (False, True)])
    world.cut_relay(_relay(world, chance), _pause_s(chance), above=chance.random() < 0.5, up=up, down=down)


def _all_relays(world: World, chance: Random) -> None:
    for relay in world.relays:
        world.kill_relay(relay, world.now_s + chance.uniform(0.0, 1.0), back_after_s=_back(chance))


def _jump_s(chance: Random) -> float:
    return chance.choice([-1, 1]) * chance.choice([0.5, 30.0, 4000.0])


def _old_write(world: World, chance: Random) -> None:
    if world.service.alive:
        world.write_store(chance.randint(1, max(1, int(world.job.generation))))


def _stick_and_crash(world: World, chance: Random) -> None:
    world.stick(_node(world, chance), chance.uniform(2.0, 60.0))
    world.crash(_node(world, chance), world.now_s + chance.uniform(0.0, 5.0))


def _all_at_once(world: World, chance: Random) -> None:
    for node in world.node_names:
        if chance.random() < 0.8:
            world.kill_launcher(node, world.now_s + chance.uniform(0.0, 0.5), _back(chance))


def _cut_many(world: World, chance: Random) -> None:
    for_s = _pause_s(chance) * 2
    for node in world.node_names:
        if chance.random() < 0.7:
            world.cut(node, for_s * chance.uniform(0.8, 1.2))


def _exclude(world: World, chance: Random) -> None:
    node = _node(world, chance)
    world.exclude(node, lasts_s=chance.choice([None, chance.uniform(1.0, 60.0)]))
    if chance.random() < 0.5:
        world.readmit(node, world.now_s + chance.uniform(0.0, 60.0))


def _exclude_in_trouble(world: World, chance: Random) -> None:
    """A fault, and around the moment of its verdict and its round people exclude and readmit, the service dying."""
    node, other = _node(world, chance), _node(world, chance)
    world.crash(node)
    world.exclude(other, world.now_s + chance.uniform(0.0, 6.0), lasts_s=chance.choice([None, 0.5, 20.0]))
    if chance.random() < 0.5:
        world.kill_service(world.now_s + chance.uniform(0.0, 6.0), down_s=chance.choice([0.1, 3.0]))
    world.readmit(chance.choice([node, other]), world.now_s + chance.uniform(0.0, 60.0))


def _replace_machine(world: World, chance: Random) -> None:
    node = _node(world, chance)
    if chance.random() < 0.5:
        world.exclude(node, world.now_s + chance.uniform(-1.0, 3.0))
    world.replace_machine(node, back_after_s=chance.choice([0.5, 4.0, 20.0]))


def _rename(world: World, chance: Random) -> None:
    node = _node(world, chance)
    if chance.random() < 0.8:
        world.exclude(node, lasts_s=chance.choice([None, 30.0]))
    world.rename(node, f"{node}0", world.now_s + chance.uniform(0.0, 3.0))


RUDENESS: tuple[Rude, ...] = (
    # workers
    Rude("a worker dies", 60, lambda w, c: w.crash(_node(w, c)), 0.8),
    Rude("a worker fails", 30, lambda w, c: w.crash(_node(w, c), code=c.choice([1, 7]))),
    Rude("a worker ends with 0 too early", 12, lambda w, c: w.crash(_node(w, c), code=0), 0.3),
    Rude("a worker hangs", 15, lambda w, c: w.hang(_node(w, c))),
    Rude("a worker is stopped", 10, lambda w, c: w.hang(_node(w, c), stopped=True)),
    Rude("a worker is stopped for a while", 15, lambda w, c: w.hang(_node(w, c), for_s=_pause_s(c), stopped=True)),
    Rude("a worker cannot die, and a fault follows", 12, _stick_and_crash, 0.4),
    # launchers and machines
    Rude("a launcher is killed", 20, lambda w, c: w.kill_launcher(_node(w, c), back_after_s=_back(c))),
    Rude("a machine loses power", 12, lambda w, c: w.power_off(_node(w, c), back_after_s=_back(c)), 0.4),
    Rude("nearly all launchers are killed", 8, _all_at_once, 0.2),
    Rude("a launcher stands still", 20, lambda w, c: w.pause_launcher(_node(w, c), _pause_s(c))),
    Rude("a second launcher of a node", 12, lambda w, c: w.second_launcher(_node(w, c)), 0.3),
    Rude("a second launcher takes over", 8, lambda w, c: w.second_launcher(_node(w, c), take_over=True), 0.2),
    Rude("a launcher is told to leave", 6, lambda w, c: w.signal_launcher(_node(w, c), SIGTERM), 0.15),
    Rude("the scheduler requeues the job", 6, lambda w, c: w.requeue(), 0.15),
    # the network
    Rude("a node is cut off", 25, lambda w, c: w.cut(_node(w, c), _pause_s(c) * 2)),
    Rude("a node is not heard", 15, lambda w, c: w.cut(_node(w, c), _pause_s(c) * 2, down=False), 0.4),
    Rude("a node does not hear", 15, lambda w, c: w.cut(_node(w, c), _pause_s(c) * 2, up=False), 0.4),
    Rude("most nodes are cut off", 8, _cut_many, 0.3),
    Rude("a link is slow", 20, _slow_link, 0.4),
    # the control plane
    Rude("rendezvous is killed", 25, lambda w, c: w.kill_service(down_s=c.choice([0.1, 1.0, 6.0, 30.0]))),
    Rude("rendezvous stands still", 20, lambda w, c: w.pause_service(_pause_s(c))),
    Rude("the policy changes its mood", 20, _policy, 0.6),
    Rude("the disk forgets the last entries", 6, lambda w, c: w.lose_journal(last=c.randint(1, 6)), 0.1),
    Rude("the disk forgets everything", 6, lambda w, c: w.lose_journal(), 0.1),
    Rude("the journal's disk is full", 6, lambda w, c: w.fill_disk(_pause_s(c) * 2), 0.2),
    Rude("the service's clock is set", 8, lambda w, c: w.jump_service_clock(_jump_s(c)), 0.15),
    Rude("a node's clock is set", 10, lambda w, c: w.jump_clock(_node(w, c), _jump_s(c)), 0.2),
    Rude("a stream is reset", 20, lambda w, c: w.reset_stream(_node(w, c)), 0.4),
    # relays
    Rude("a relay is killed", 25, lambda w, c: w.kill_relay(_relay(w, c), back_after_s=_back(c)), 0.7, True),
    Rude("a relay loses power", 8, lambda w, c: w.power_off_relay(_relay(w, c), back_after_s=_back(c)), 0.4, True),
    Rude("a relay stands still", 15, lambda w, c: w.pause_relay(_relay(w, c), _pause_s(c)), 0.5, True),
    Rude("a relay is cut off", 25, _cut_relay, 0.7, True),
    Rude("all relays are killed", 8, _all_relays, 0.4, True),
    # people and old workers
    Rude("an operator excludes a node", 10, _exclude, 0.3),
    Rude("an operator shuts the job down", 6, lambda w, c: w.shutdown(), 0.2),
    Rude("an old worker writes to the store", 40, _old_write, 0.5),
    Rude("an operator excludes in the middle of a fault", 12, _exclude_in_trouble, 0.3),
    Rude("a machine is replaced", 8, _replace_machine, 0.25),
    Rude("an excluded machine comes under another name", 10, _rename, 0.25),
    # notices; behind all others, so that the worlds of older seeds stay as they are
    Rude(
        "the scheduler tells all launchers to leave",
        6,
        lambda w, c: w.preempt(within_s=c.choice([0.01, 0.5, 5.0])),
        0.2,
    ),
    Rude("an operator drains a node", 6, lambda w, c: w.drain(_node(w, c)), 0.15),
    Rude("an operator drains the job", 12, lambda w, c: w.drain(None), 0.1),
    Rude("a worker asks to stop restarting", 8, lambda w, c: w.wish(_node(w, c)), 0.2),
    Rude("a worker asks to leave its node out", 10, lambda w, c: w.wish(_node(w, c), action="EXCLUDE_THIS_NODE"), 0.3),
    Rude("attribution recommends", 15, lambda w, c: w.recommend(kind=c.choice(list(RecommendationKind))), 0.3),
)


def setup_of(seed: int, keep_lines: int = 50) -> Setup:
    """The world of a seed."""
    chance = Random(f"setup {seed}")
    nodes = chance.choice([1, 2, 2, 3, 3, 4, 5])
    strict_fence = chance.random() < 0.7
    habits = Habits(
        uses_sdk=chance.random() < 0.8,
        asks_stop=Random(f"asks {seed}").random() < 0.7,
        survivors_raise=chance.random() < 0.5,
        total_steps=chance.choice([10**9, 10**9, 10**9, 40, 120]),
        step_s=chance.choice([0.5, 1.0, 3.0]),
        start_s=chance.choice([0.2, 2.0, 10.0]),
        term_s=chance.choice([0.05, 0.3, 2.0]),
        save_s=chance.choice([0.1, 2.0, 8.0]) if strict_fence else 0.0,
    )
    setup = Setup(
        seed=seed,
        nodes=nodes,
        min_nodes=chance.randint(1, nodes),
        workers=chance.choice([1, 2, 2, 3]),
        max_restarts=chance.choice([0, 1, 3, 10, 100]),
        strict_fence=strict_fence,
        habits=habits,
        on_lost_control=OnLostControl.STOP if chance.random() < 0.15 else OnLostControl.KEEP,
        stray_rate=chance.choice([0.0, 0.05, 0.5]),
        spawn_failure_rate=chance.choice([0.0, 0.0, 0.0, 0.05]),
        slow_fsync_rate=chance.choice([0.0, 0.0, 0.02]),
        relays=chance.choice([0, 0, 0, 1, 2, 3]),
        attribution_stops=Random(f"attribution {seed}").random() < 0.3,
        keep_lines=keep_lines,
        on_excluded=OnExcluded.EXIT if chance.random() < 0.3 else OnExcluded.PARK,
        max_excluded_share=chance.choice([0.0, 0.2, 0.5, 1.0]),
        exclusion_window_s=chance.choice([20.0, 120.0, 3600.0]),
    )
    return replace(setup, **_progress(seed, habits), **_budgets(seed))


def _budgets(seed: int) -> dict[str, Any]:
    """Whether a world bounds single causes, and gives restarts back."""
    chance = Random(f"budgets {seed}")
    if seed % 4 != 1:
        return {}
    return {
        "refund_after_s": chance.choice([0.0, 5.0, 20.0, 60.0]),
        "by_cause": chance.choice(["", "signal:2", "signal:3,node:2", "hang:1", "node:1,exit:1"]),
    }


def _progress(seed: int, habits: Habits) -> dict[str, Any]:
    """Whether a world counts cycles without progress, by what, and how often it completes a checkpoint."""
    chance = Random(f"progress {seed}")
    if seed % 4 != 3:
        return {}
    return {
        "progress_by": "sdk" if chance.random() < 0.2 else "marker",
        "min_progress": chance.choice([1, 1, 10]),
        "no_progress_cycles": chance.choice([1, 3, 3, 5]),
        "habits": replace(habits, saves_every=chance.choice([1, 5, 30])),
        "marker_hang_rate": chance.choice([0.0, 0.0, 0.1, 0.5]),
        "marker_broken_rate": chance.choice([0.0, 0.0, 0.1]),
    }


def planned(seed: int) -> list[tuple[float, Rude]]:
    """What a seed does, and when."""
    chance = Random(f"rudeness {seed}")
    pace = chance.choice([0.3, 1.0, 1.0, 2.5])
    acts: list[tuple[float, Rude]] = []
    relays = setup_of(seed).relays
    for rude in [rude for rude in RUDENESS if chance.random() < rude.share and (relays or not rude.needs_relays)]:
        at_s = chance.expovariate(rude.per_hour * pace / 3600)
        while at_s < RUDE_FOR_S:
            acts.append((at_s, rude))
            at_s += chance.expovariate(rude.per_hour * pace / 3600)
    return acts


def plan(world: World, through: Callable[[World], Any] = lambda world: world) -> None:
    """Put this seed's rudeness on the world's timeline; `through` may stand between the acts and the world."""
    seed = world.setup.seed
    for at_s, rude in planned(seed):
        own = Random(f"{seed} {rude.name} {at_s}")
        world.at(at_s, lambda rude=rude, own=own: rude.act(through(world), own))


def coverage(seeds: int) -> dict[str, int]:
    """How often each kind of rudeness happens in the first seeds."""
    drawn = dict.fromkeys((rude.name for rude in RUDENESS), 0)
    for seed in range(seeds):
        for _, rude in planned(seed):
            drawn[rude.name] += 1
    return drawn
