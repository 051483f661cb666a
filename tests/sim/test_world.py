"""The simulator itself: the short run of every commit, the scripts, and that a world is the same every time."""

from __future__ import annotations

import pytest

from tests.sim import hunting, mutants, rudeness, script, test_crowds, transcript
from tests.sim.oracle import Violation
from tests.sim.run import run_seed
from tests.sim.world import NotQuiet, World

SEEDS = 120
DRAWN_FROM, LEAST_DRAWN = 300, 8
"""So often at least each kind of rudeness happens in so many seeds."""
CHUNK = 10
SCRIPTS = sorted(script.FOLDER.glob("*.txt"))


@pytest.mark.parametrize("first", range(test_crowds.SEEDS, SEEDS, CHUNK))
def test_seeded_worlds_break_no_invariant(first):
    """The first worlds are played by test_crowds.py, which lets every step of theirs be as it is."""
    for seed in range(first, first + CHUNK):
        outcome = run_seed(seed)
        assert not outcome.failure, (
            f"seed {seed} at {outcome.world_s:.3f} s: {outcome.failure}\n{outcome.tail}\n"
            f"again: python -m tests.sim --seed {seed}"
        )


@pytest.mark.users_row(62)
def test_the_same_seed_is_the_same_world():
    first, second = (run_seed(7, keep_lines=0) for _ in range(2))
    assert first == second
    assert first.steps > 100


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_give_their_transcripts(path):
    _, expected = script.split(path.read_text())
    assert script.gist(script.perform(path.read_text()).splitlines()) == script.gist(expected)
    assert len(expected) > 10


def test_every_rudeness_is_within_reach_of_seeds():
    drawn = rudeness.coverage(DRAWN_FROM)
    assert not {name: count for name, count in drawn.items() if count < LEAST_DRAWN}


def test_the_oracle_sees_a_commit_behind_a_later_generation():
    world = World(seed=1).run_until_quiet(60.0)
    world.oracle.formed[2] = world.oracle.formed[1]
    with pytest.raises(Violation, match="S1"):
        world.oracle.committed(1, "n1", 10)


def test_the_oracle_sees_a_number_formed_twice():
    world = World(seed=1).run_until_quiet(60.0)
    with pytest.raises(Violation, match="S2"):
        world.oracle._formed(world.oracle.formed[1], world.job)


def test_a_world_that_never_becomes_quiet_is_told():
    world = World(seed=1, nodes=2)
    world.kill_service(at_s=0.1, down_s=10_000.0)
    with pytest.raises(NotQuiet, match="S7"):
        world.run_until_quiet(60.0)


def test_a_transcript_names_time_and_speaker():
    assert transcript.line(1.5, "n1", "exits with 0") == "    1.500  n1     exits with 0"


QUICKLY_CAUGHT = {
    "a node counts as clear whatever it says": 51,
    "a sweep that saw workers alive ends the teardown": 1,
    "charged restarts are not counted": 3,
    "a finished node is not journaled": 2,
    "a higher number of a launcher is not adopted": 1,
}
"""Faults, and the seed that shows each today; where worlds have changed, any of the first sixty may."""


@pytest.mark.parametrize("name", QUICKLY_CAUGHT)
def test_a_fault_in_a_core_is_caught(name):
    (mutant,) = (mutant for mutant in mutants.MUTANTS if mutant.name == name)
    assert hunting.by_worlds(mutant, (QUICKLY_CAUGHT[name], *range(60))) is not None
    assert not run_seed(2).failure, "the right function is back"
