"""The hunt for faults: kept worlds and the first seeds, then the tests of cores, then the other seeds.

What a test catches first is named by the test, so that the table says honestly what holds each guard.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.sim import (
    guards_causes,
    guards_fresh,
    guards_gathering,
    guards_launcher,
    guards_machines,
    guards_musters,
    guards_node,
    guards_policy,
    guards_rendezvous,
    script,
    shrink,
)
from tests.sim.edits import Edit, plain
from tests.sim.guards import Mutant
from tests.sim.mutants import MUTANTS, mutated
from tests.sim.run import run_seed

FIRST_SEEDS, MOST_SEEDS = 25, 300
ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("once_broken")
"""Worlds that once broke something: what they found may come back with a fault."""
TOTAL_TESTS = tuple(f"tests/unit/rendezvous/test_{name}.py" for name in ("totality", "transition_table"))
"""Of every state with every event: slow, and what they find says little."""


def _all(pattern: str) -> tuple[str, ...]:
    return tuple(sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)))


RENDEZVOUS_TESTS = (
    *(test for test in _all("tests/unit/rendezvous/test_*.py") if test not in TOTAL_TESTS),
    *_all("tests/unit/rendezvous_shell/test_relay_*.py"),
)
LAUNCHER_TESTS = (
    *_all("tests/unit/launcher/test_core*.py"),
    *(f"tests/unit/launcher/test_{name}.py" for name in ("ways", "clocks", "struck")),
)
POLICY_TESTS = (
    "tests/unit/restart_policy",
    *(f"tests/unit/libs/test_{name}.py" for name in ("verdict", "progress", "core_values")),
)
FURTHER_TESTS = (
    *(f"tests/sim/test_{name}.py" for name in ("relays", "drains", "endings", "exclusion", "progress")),
    *(f"tests/sim/test_{name}.py" for name in ("aborts", "causes", "in_place", "passing_on", "replacing")),
    "tests/props",
    *TOTAL_TESTS,
)
"""All are tests of cores alone: no socket, no process, no clock."""
VARIABLE = "RESURGE_MUTANT"
"""Names the fault that tests/conftest.py puts into the cores of a run of pytest."""
TESTS_LIMIT_S = 1_200.0

EDITS: tuple[Edit, ...] = (
    *guards_rendezvous.GUARDS,
    *guards_causes.GUARDS,
    *guards_gathering.GUARDS,
    *guards_launcher.GUARDS,
    *guards_machines.GUARDS,
    *guards_node.GUARDS,
    *guards_musters.GUARDS,
    *guards_fresh.GUARDS,
    *guards_policy.GUARDS,
)
ALL: tuple[Mutant | Edit, ...] = (*MUTANTS, *EDITS)


@dataclass(frozen=True)
class Caught:
    """What caught a fault, and how."""

    by: str
    sentence: str


@dataclass(frozen=True)
class Tally:
    """What a hunt came to."""

    mutants: int
    caught: int
    by_tests: int
    same: int
    """Changes that nobody can see, each with its reason: in neither of the other counts."""


def put_in(fault: Mutant | Edit) -> AbstractContextManager[None]:
    """The cores with a fault in them."""
    return fault.put_in() if isinstance(fault, Edit) else mutated(fault)


def named(name: str) -> AbstractContextManager[None]:
    """The cores with the fault of that name in them."""
    return put_in(next(fault for fault in ALL if fault.name == name))


def kept_in(name: str) -> Callable[[], object]:
    """Put the fault of that name into the cores; what is given back takes it out again."""
    stack = ExitStack()
    stack.enter_context(named(name))
    return stack.close


def hunt(fault: Mutant | Edit, seeds: int = MOST_SEEDS) -> Caught | None:
    """What shows the fault first; None when it lives."""
    return (
        by_worlds(fault, range(min(FIRST_SEEDS, seeds)))
        or by_tests(fault)
        or by_seeds(fault, range(FIRST_SEEDS, seeds))
    )


def by_worlds(fault: Mutant | Edit, seeds: Iterable[int]) -> Caught | None:
    """The first kept world, or of these seeds, that shows the fault."""
    with put_in(fault):
        for path in sorted(KEPT.glob("*.txt")):
            failure = shrink.failure_of(script.split(path.read_text())[0])
            if failure is not None:
                return _caught(fault, path.stem, failure.sentence)
    return by_seeds(fault, seeds)


def by_seeds(fault: Mutant | Edit, seeds: Iterable[int]) -> Caught | None:
    """The first of these seeds that shows the fault."""
    with put_in(fault):
        for seed in seeds:
            outcome = run_seed(seed)
            if outcome.failure:
                return _caught(fault, f"seed {seed}", outcome.failure)
    return None


def _caught(fault: Mutant | Edit, by: str, sentence: str) -> Caught:
    """Raises RuntimeError where the fault is seen only because its stand-in no longer fits what it replaces."""
    if "positional argument" in sentence or "unexpected keyword" in sentence:
        raise RuntimeError(f"{fault.name!r} is put in by something that does not fit its place any more: {sentence}")
    return Caught(by, sentence)


def tests_for(fault: Mutant | Edit) -> tuple[str, ...]:
    """The tests in the order in which they are likely to see the fault."""
    where = plain(fault.function).__module__ if isinstance(fault, Edit) else str(fault.module)
    own = "launcher" if "launcher" in where else "rendezvous" if "rendezvous" in where else "libs"
    groups = {"launcher": LAUNCHER_TESTS, "rendezvous": RENDEZVOUS_TESTS, "libs": POLICY_TESTS}
    others = [test for name, group in groups.items() if name != own for test in group]
    stem = where.rpartition(".")[2][:4]  # musters: test_core_musters, test_core_muster_lines
    nearest = sorted(groups[own], key=lambda test: stem not in test.rpartition("/")[2])
    return (*nearest, *others, *FURTHER_TESTS)


def by_tests(fault: Mutant | Edit) -> Caught | None:
    """The first test of cores that the fault fails. Raises RuntimeError when the tests could not be run at all."""
    pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", *tests_for(fault)]
    ran = subprocess.run(
        pytest,
        cwd=ROOT,
        env={**os.environ, VARIABLE: fault.name},
        capture_output=True,
        text=True,
        timeout=TESTS_LIMIT_S,
    )
    if ran.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - (.*))?$", ran.stdout, re.MULTILINE)
    if ran.returncode not in (1, 2) or failed is None:
        raise RuntimeError(f"{fault.name}: pytest ended with {ran.returncode}: {ran.stdout[-500:]}{ran.stderr[-500:]}")
    return Caught(failed[1].removeprefix("tests/"), failed[2] or "")


def hunt_numbered(number: int) -> Caught | None:
    """`hunt` for another process."""
    fault = ALL[number]
    return None if _same(fault) else hunt(fault)


def _same(fault: Mutant | Edit) -> str:
    return fault.same_because if isinstance(fault, Edit) else ""


def hunt_all(jobs: int, wanted: str = "") -> Tally:
    """Hunt every fault whose name holds the wanted text, and tell of each."""
    mutants = caught = tests = same = 0
    print("\nfaults put into the cores on purpose:")
    with ProcessPoolExecutor(jobs) as pool:
        numbers = [number for number, fault in enumerate(ALL) if wanted in fault.name]
        for number, found in zip(numbers, pool.map(hunt_numbered, numbers), strict=True):
            fault = ALL[number]
            if _same(fault):
                same += 1
                print(f"  {fault.name:70s} changes nothing: {_same(fault)}", flush=True)
                continue
            mutants += 1
            caught += found is not None
            tests += found is not None and "::" in found.by
            told = f"caught by {found.by}: {found.sentence}" if found else f"LIVES through {MOST_SEEDS} seeds and tests"
            print(f"  {fault.name:70s} {told}"[:190], flush=True)
    print(f"{caught} of {mutants} caught, {tests} of them by a test of cores; {same} change nothing")
    return Tally(mutants, caught, tests, same)
