"""Every row of the guards that are taken out still fits the text of its core, and each takes its fault out again."""

from __future__ import annotations

import pytest

from tests.sim.edits import Edit
from tests.sim.hunting import ALL, EDITS, put_in


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_the_guard_is_there_once(edit: Edit):
    assert edit.wrong()


def test_names_are_of_one_fault_each():
    names = [fault.name for fault in ALL]
    assert len(names) == len(set(names))


def test_a_fault_is_taken_out_again():
    edit = EDITS[0]
    right = edit.function.__code__
    with put_in(edit):
        assert edit.function.__code__ is not right
    assert edit.function.__code__ is right
