"""The invariants hold in random rude worlds; what is rude about them stands in rude_world.py."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.props.rendezvous.rude_world import SPECS, World


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.integers(0, len(SPECS) - 1), st.sampled_from((1, 4, 16)))
def test_the_invariants_hold_in_a_rude_world(seed: int, which: int, calm: int):
    world = World(seed, which, calm)
    for _ in range(120):
        world.turn()
