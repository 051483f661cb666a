"""A failing seed becomes a short script that fails in the same way, and holds once the fault is mended."""

from __future__ import annotations

import pytest

from tests.sim import hunting, rudeness, script, shrink
from tests.sim.run import run_seed
from tests.sim.world import World

MUTANT, BROKEN = "a higher number of a launcher is not adopted", "S2"
SEEDS = (1, *range(60))
"""The one that shows it today, by one of its eleven verbs; and all that may where worlds have changed."""
MOST_VERBS = 2


@pytest.mark.timeout(240)
def test_a_failing_seed_is_found_shrunk_written_and_replayed(tmp_path, monkeypatch):
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    with hunting.named(MUTANT):
        seed = next(seed for seed in SEEDS if run_seed(seed).failure.startswith(BROKEN))
        shrunk = shrink.shrink(seed, most_runs=200, longest_s=200.0)
        path = shrink.write(shrunk, "found")
        assert 1 <= len(shrunk.script.acts) <= min(MOST_VERBS, shrunk.acts_before), path.read_text()
        assert shrunk.failure.invariant == BROKEN
        with pytest.raises(AssertionError, match=BROKEN):
            script.perform(path.read_text())
    script.rewrite()
    verbs, transcript = script.split(path.read_text())
    assert verbs == shrunk.script.lines
    assert script.gist(script.perform(path.read_text()).splitlines()) == script.gist(transcript)
    assert "RoundClosed" in path.read_text()


def test_what_breaks_nothing_is_not_shrunk():
    with pytest.raises(shrink.NothingBroken, match="seed 7 breaks nothing"):
        shrink.shrink(7)


@pytest.mark.parametrize("seed", [2, 7])
def test_a_seed_told_as_a_script_is_the_same_world(seed):
    told = shrink.told_as_script(seed)
    by_script = script.make_world(told.world, keep_lines=50)
    for line in told.acts:
        script.do(by_script, line)
    by_script.run(rudeness.RUDE_FOR_S)
    by_seed = World(rudeness.setup_of(seed))
    rudeness.plan(by_seed)
    by_seed.run(rudeness.RUDE_FOR_S)
    assert told.acts
    assert list(by_script.lines) == list(by_seed.lines)
