"""The short form of `make endings`, and that its judge sees what it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from resurge_libs.core.end_cause import EndCause
from tests.endurance.endings.cells import CELLS, PAIR, Cell, Ending, Stage, succeed
from tests.endurance.endings.play import play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_every_launcher_ends_with_the_code_and_the_cause_of_the_job(cell: Cell, tmp_path: Path):
    """Both ways to start the control plane; killed at its decision where its launcher supervises it."""
    for number in (0, 2):
        played = play(cell, number, 1, tmp_path / str(number))
        assert played.problem == "", f"run {number}, killed {played.kill}"


def test_a_wrong_code_or_cause_is_found(tmp_path: Path):
    def lie(stage: Stage) -> Ending:
        succeed(stage)
        return Ending(1, EndCause.BUDGET)

    played = play(Cell("lie", PAIR, lie), 1, 1, tmp_path / "job")
    assert "every launcher must end with (1, 'budget')" in played.problem
