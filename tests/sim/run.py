"""Runs seeded worlds and reports: people's text first, one JSON object as the last line.

python -m tests.sim --seeds 1000        many worlds
python -m tests.sim --seed 41           one world, with its last lines whatever its end
python -m tests.sim --shrink 41         the same failure by the fewest verbs; --name NAME keeps it as scripts/NAME.txt
python -m tests.sim --script FILE       one script, with its transcript
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.sim import rudeness, script, transcript
from tests.sim.world import World

if TYPE_CHECKING:
    from tests.sim.hunting import Tally

QUIET_LIMIT_S = 400.0
"""S7's bound: the longest waits of the table in a row, and some."""
SHOWN_FAILURES = 20
CHUNK = 10


@dataclass(frozen=True)
class Outcome:
    """How one world ended."""

    seed: int
    steps: int
    world_s: float
    ended: str
    failure: str = ""
    tail: str = ""
    cpu_s: float = field(default=0.0, compare=False)
    """What it cost in this machine's processor time, which does not depend on its other work as the wall does."""


def run_seed(seed: int, keep_lines: int = 50, until_s: float | None = None) -> Outcome:
    """One world from its setup to its peace. Never raises: a failure is an outcome."""
    began_s = time.process_time()
    outcome = _run_seed(seed, keep_lines, until_s)
    return replace(outcome, cpu_s=time.process_time() - began_s)


def _run_seed(seed: int, keep_lines: int, until_s: float | None) -> Outcome:
    world: World | None = None
    try:
        world = World(rudeness.setup_of(seed, keep_lines))
        rudeness.plan(world)
        world.run(rudeness.RUDE_FOR_S if until_s is None else until_s)
        if until_s is None:
            world.heal()
            world.run_until_quiet(QUIET_LIMIT_S)
            world.oracle.check()
    except Exception as error:  # task root: one world's end; the next one is run all the same
        where = traceback.extract_tb(error.__traceback__)[-1]
        what = str(error) if isinstance(error, AssertionError) and str(error) else repr(error)
        failure = f"{what} [{Path(where.filename).name}:{where.lineno}]"
        tail = transcript.text(world.lines) if world else ""
        return Outcome(
            seed, world.timeline.steps if world else 0, world.now_s if world else 0.0, "failed", failure, tail
        )
    decision = world.oracle.decision
    ended = "runs" if decision is None else f"{decision.because.code} ({decision.exit_code})"
    return Outcome(seed, world.timeline.steps, world.now_s, ended, "", transcript.text(world.lines))


def run_chunk(seeds: list[int]) -> list[Outcome]:
    return [run_seed(seed) for seed in seeds]


def run_many(first: int, count: int, jobs: int) -> Iterator[Outcome]:
    """Worlds of consecutive seeds, on several cores."""
    seeds = list(range(first, first + count))
    chunks = [seeds[at : at + CHUNK] for at in range(0, count, CHUNK)]
    if jobs == 1:
        for chunk in chunks:
            yield from run_chunk(chunk)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for outcomes in pool.map(run_chunk, chunks):
            yield from outcomes


def show_failure(outcome: Outcome) -> None:
    print(f"\nseed {outcome.seed} fails at {outcome.world_s:.3f} s: {outcome.failure}")
    print(outcome.tail)
    print(f"again: python -m tests.sim --seed {outcome.seed}; short: python -m tests.sim --shrink {outcome.seed}")


def report(outcomes: list[Outcome], spent_s: float, load: float, mutants: Tally | None) -> None:
    failures = [outcome for outcome in outcomes if outcome.failure]
    steps = sum(outcome.steps for outcome in outcomes)
    hours = sum(outcome.world_s for outcome in outcomes) / 3600
    kinds = Counter(failure.failure.split(":")[0][:60] for failure in failures)
    endings = Counter(outcome.ended for outcome in outcomes)
    print(f"\n{len(outcomes)} worlds, {steps} steps, {hours:.1f} hours of theirs in {spent_s:.1f} s of ours")
    print("how they ended: " + ", ".join(f"{kind} {count}" for kind, count in endings.most_common()))
    for kind, count in kinds.most_common():
        print(f"  broken {count:4d} x {kind}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    figures = {
        "seeds": len(outcomes),
        "steps": steps,
        "steps_per_s": round(steps / spent_s) if spent_s else None,
        "steps_per_cpu_s": round(steps / cpu_s) if (cpu_s := sum(outcome.cpu_s for outcome in outcomes)) else None,
        "violations": len(failures),
        "mutants_caught": mutants.caught if mutants else None,
        "mutants": mutants.mutants if mutants else None,
        "mutants_caught_by_tests": mutants.by_tests if mutants else None,
        "mutants_that_change_nothing": mutants.same if mutants else None,
        "load": round(load, 2),
        "cores": len(os.sched_getaffinity(0)),
        "commit": commit or None,
        "notes": [] if mutants else ["mutants: left out by --no-mutants"],
    }
    print(json.dumps(figures))


def main() -> int:
    from tests.sim.hunting import hunt_all, named  # they run worlds themselves
    from tests.sim.shrink import shrink_for_people

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, help="one world only")
    parser.add_argument("--lines", type=int, default=50, help="lines kept of that world; 0 keeps all")
    parser.add_argument("--until", type=float, help="stop that world at this time, before its peace")
    parser.add_argument("--script", type=Path, help="run one script and print its transcript")
    parser.add_argument("--no-mutants", action="store_true", help="hunt no faults put into the cores on purpose")
    parser.add_argument("--hunt", metavar="TEXT", help="only hunt the faults whose names hold this; '' hunts all")
    parser.add_argument("--coverage", action="store_true", help="only tell how often each rudeness is in the seeds")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="make a failing seed short")
    parser.add_argument("--name", help="keep what --shrink found as a script of this name")
    parser.add_argument("--mutant", help="with --shrink: put this fault into the cores first")
    parser.add_argument("--rewrite", action="store_true", help="write the transcripts of all scripts anew")
    options = parser.parse_args()
    if options.rewrite:
        script.rewrite()
        return 0
    if options.coverage:
        for name, count in rudeness.coverage(options.seeds).items():
            print(f"{count:6d} x {name}")
        return 0
    if options.hunt is not None:
        tally = hunt_all(options.jobs, options.hunt)
        return 0 if tally.caught == tally.mutants else 1
    if options.shrink is not None:
        with named(options.mutant) if options.mutant else nullcontext():
            return shrink_for_people(options.shrink, options.name)
    if options.script is not None:
        print(script.perform(options.script.read_text()))
        return 0
    if options.seed is not None:
        outcome = run_seed(options.seed, options.lines, options.until)
        print(outcome.tail)
        print(
            f"seed {outcome.seed}: {outcome.failure or outcome.ended} at {outcome.world_s:.3f} s, {outcome.steps} steps"
        )
        return 1 if outcome.failure else 0
    load, began = os.getloadavg()[0], time.monotonic()
    outcomes: list[Outcome] = []
    shown = 0
    for outcome in run_many(options.first, options.seeds, options.jobs):
        outcomes.append(outcome)
        if outcome.failure and shown < SHOWN_FAILURES:
            show_failure(outcome)
            shown += 1
    spent_s = time.monotonic() - began
    mutants = None if options.no_mutants else hunt_all(options.jobs)
    report(outcomes, spent_s, load, mutants)
    all_caught = mutants is None or mutants.caught == mutants.mutants
    return 0 if all_caught and not any(outcome.failure for outcome in outcomes) else 1
