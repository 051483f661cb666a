"""Seeds that once broke an invariant: each a bug found by the simulator, kept so that it stays away."""

from __future__ import annotations

import pytest

from tests.sim.run import run_seed

ONCE_BROKEN: dict[int, str] = {
    116: "S6: a launcher that took a node over from another host ran beside the workers it replaced",
    703: "S1: as 116, with the old workers' lease not over",
    7574: "S2: a launcher presented the number that the terminal decision had told it, and the end was taken back",
    8319: "S13: while the service was paused a second launcher came from another host and was let in for the first",
}
"""Seed: what it broke."""


@pytest.mark.parametrize("seed", sorted(ONCE_BROKEN))
def test_what_a_seed_once_broke_holds(seed):
    outcome = run_seed(seed)
    assert not outcome.failure, f"{outcome.failure}\n{outcome.tail}"
