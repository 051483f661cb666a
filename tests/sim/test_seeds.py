"""Worlds that once broke an invariant: each a bug found by the simulator, kept so that it stays away.

They are kept as scripts, so that they mean the same however the list of rudeness grows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim import script, shrink

KEPT = sorted(Path(__file__).with_name("once_broken").glob("*.txt"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_a_world_once_broke_holds(path):
    failure = shrink.failure_of(script.split(path.read_text())[0], keep_lines=50)
    assert failure is None, f"{failure.sentence}\n{failure.transcript}"


def test_there_are_such_worlds():
    assert len(KEPT) >= 4
