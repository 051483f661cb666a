"""Large calm worlds: nothing fails, everything stutters, and no node may be lost.

A thousand launchers and rendezvous, with their real cores, for an hour of theirs: each launcher stands still for half a
second once a minute, rendezvous too, and once for ten seconds; for half a minute its journal's disk is full while
workers write to the store. A loss, a second generation or a signal to a worker is a false one. In every second world
the launchers speak through relays.

What makes the hour short: where nothing can go wrong, of a launcher's beats only the last before something happens is
taken (calm.py), and workers' pages are read once a minute instead of twice a second, as nothing happens there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from random import Random

from resurge_libs.core.time_limits import TimeLimits
from resurge_rendezvous.core import model as rm
from tests.sim import transcript
from tests.sim.model_worker import Habits
from tests.sim.world import Setup, World

PAUSE_S, PAUSES_PER_HOUR = 0.5, 60.0
SERVICE_PAUSE_S, DISK_FULL_S, WRITE_EVERY_S = 10.0, 30.0, 5.0
FORMED_BY_S, CALM_AT_END_S = 60.0, 60.0
RELAYS = 4
HABITS = Habits(step_s=10.0, start_s=2.0)


@dataclass(frozen=True)
class Calm:
    """How one world went."""

    seed: int
    steps: int
    virtual_s: float
    spent_s: float
    cpu_s: float
    false_losses: int
    service_lives: int
    told: str = ""
    """What went wrong, with the world's last lines."""


def setup_of(seed: int, agents: int) -> Setup:
    """The world of a seed."""
    return Setup(
        seed=seed,
        nodes=agents,
        min_nodes=agents,
        workers=1,
        limits=TimeLimits(),
        habits=HABITS,
        stray_rate=0.0,
        relays=RELAYS if seed % 2 else 0,
        page_interval_s=60.0,
        calm_beats=True,
        most_acts=10**9,
        keep_lines=200,
    )


def stutter(world: World, virtual_s: float) -> None:
    """Put the pauses, the long one and the full disk on the timeline."""
    chance = Random(f"stutter {world.setup.seed}")
    until_s = virtual_s - CALM_AT_END_S
    for node in world.node_names:
        for at_s in _moments(chance, PAUSES_PER_HOUR, until_s):
            world.pause_launcher(node, PAUSE_S, at_s)
    for who in (world.service.name, *world.relays):
        for at_s in _moments(chance, PAUSES_PER_HOUR, until_s):
            if who in world.relays:
                world.pause_relay(who, PAUSE_S, at_s)
            else:
                world.pause_service(PAUSE_S, at_s)
    middle_s = (FORMED_BY_S + until_s) / 2
    world.pause_service(SERVICE_PAUSE_S, chance.uniform(FORMED_BY_S, middle_s - SERVICE_PAUSE_S - CALM_AT_END_S))
    full_at_s = chance.uniform(middle_s, until_s - DISK_FULL_S)
    world.fill_disk(DISK_FULL_S, full_at_s)
    write_at_s = full_at_s + chance.uniform(0.0, WRITE_EVERY_S)
    while write_at_s < full_at_s + DISK_FULL_S:
        world.write_store(1, write_at_s)
        write_at_s += chance.uniform(0.0, 2 * WRITE_EVERY_S)


def _moments(chance: Random, per_hour: float, until_s: float) -> Iterator[float]:
    at_s = FORMED_BY_S + chance.expovariate(per_hour / 3600)
    while at_s < until_s:
        yield at_s
        at_s += chance.expovariate(per_hour / 3600)


def run_calm(seed: int, agents: int, virtual_s: float) -> Calm:
    """One world from its first launcher to its end; a failure is an outcome."""
    began, cpu = time.monotonic(), time.process_time()
    world = World(setup_of(seed, agents))
    losses: list[str] = []
    note = world.oracle.durable

    def durable(service, step, replayed):
        losses.extend(str(fact.node) for fact in step.facts if isinstance(fact, rm.NodeLost))
        note(service, step, replayed)

    world.oracle.durable = durable
    stutter(world, virtual_s)
    told = ""
    try:
        world.run(virtual_s)
        world.run_until_quiet(CALM_AT_END_S)
        world.oracle.check()
        if not world.oracle.formed:
            told = f"no generation was formed: {world.describe()}"
    except AssertionError as broken:
        told = str(broken)
    false = len(losses) + max(0, len(world.oracle.formed) - 1)
    if false or told:
        told = f"{told or 'lost ' + ', '.join(losses[:8])}\n{transcript.text(world.lines)}"
    spent_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
    return Calm(seed, world.timeline.steps, world.now_s, spent_s, cpu_s, false, world.service.lives, told)


def _run(task: tuple[int, int, float]) -> Calm:
    return run_calm(*task)


def main() -> int:
    """Run the worlds and print one line of JSON last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0, help="of each world's own time")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    load, began = os.getloadavg()[0], time.monotonic()
    tasks = [(seed, options.agents, options.seconds) for seed in range(options.first, options.first + options.seeds)]
    worlds: list[Calm] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for calm in pool.map(_run, tasks):
            worlds.append(calm)
            how = f"{calm.steps} steps, {calm.service_lives} lives of the service, {calm.cpu_s:.0f} s of a processor"
            print(f"seed {calm.seed}: {calm.false_losses} false losses in {calm.virtual_s:.0f} s; {how}", flush=True)
            if calm.told:
                print(calm.told, flush=True)
    steps, spent_s = sum(calm.steps for calm in worlds), time.monotonic() - began
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    figures = {
        "seeds": len(worlds),
        "agents": options.agents,
        "virtual_s": options.seconds,
        "steps": steps,
        "steps_per_s": round(steps / spent_s),
        "steps_per_cpu_s": round(steps / sum(calm.cpu_s for calm in worlds)),
        "false_losses": sum(calm.false_losses for calm in worlds),
        "broken": sum(bool(calm.told) for calm in worlds),
        "wall_s": round(spent_s, 1),
        "load": round(load, 2),
        "cores": len(os.sched_getaffinity(0)),
        "commit": commit or None,
        "notes": [],
    }
    print(json.dumps(figures))
    return 1 if figures["broken"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
