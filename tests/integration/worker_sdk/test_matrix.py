"""A few cells of the matrix of faults on real gloo ranks (`make matrix` plays all), and how the matrix judges."""

import pytest

from tests.endurance.matrix.__main__ import judge
from tests.endurance.matrix.cells import SHORT, VICTIM, Cell, Outcome, every_cell
from tests.endurance.matrix.play import play

CELL = Cell.named(SHORT[0])


def test_there_are_forty_eight_cells_with_names_of_their_own():
    cells = every_cell()
    assert len({cell.name for cell in cells}) == 48
    assert [Cell.named(cell.name) for cell in cells] == list(cells)
    assert set(SHORT) <= {cell.name for cell in cells}


@pytest.mark.parametrize(
    ("runs", "misnamed", "late", "failed"),
    [(20, 0, 0, []), (20, 1, 0, []), (20, 2, 0, [CELL.name]), (20, 0, 1, [CELL.name]), (1, 1, 0, [CELL.name])],
)
def test_a_cell_may_misname_one_run_of_twenty_and_never_be_late(runs, misnamed, late, failed):
    good = Outcome(CELL, CELL.bound_s, VICTIM)
    outcomes = [Outcome(CELL, 1.0, 0)] * misnamed + [Outcome(CELL, None, VICTIM)] * late
    outcomes += [good] * (runs - len(outcomes))
    assert judge([CELL], outcomes) == failed


def test_the_short_form_ends_in_time_and_names_the_struck_rank(tmp_path):
    pytest.importorskip("torch", reason="the groups are torch's")
    outcomes = play([Cell.named(name) for name in SHORT], tmp_path)
    print((tmp_path / "n0.log").read_text(errors="replace"))
    for one in outcomes:
        assert one.ended_in_time, one
        assert one.named_right, one
