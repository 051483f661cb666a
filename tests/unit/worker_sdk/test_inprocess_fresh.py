"""The wrapper where a fresh process takes a lost rank's place: where it enters, and who gets which rank then."""

from __future__ import annotations

import dataclasses

import pytest

from resurge.frames import Mustered, Speaker, decode, encode
from resurge.inprocess import Layer, Order, RestartAbort, Tree, Wrapper, shift_ranks
from resurge.inprocess.line import Line
from resurge.inprocess.wrapper import _Run
from resurge.muster import Answer
from tests.unit.worker_sdk import test_inprocess
from tests.unit.worker_sdk.test_inprocess import run_under

launcher = test_inprocess.launcher


def test_one_that_takes_a_lost_ranks_place_enters_at_whatever_is_gathered_for_and_goes_on_from_there(launcher):
    def answers(word: Mustered) -> list[Answer]:
        if word.kind == "join":
            return [Answer("start", word.iteration or 5, "", (0,), is_anew=not word.iteration)]
        return [Answer("over" if word.kind == "done" else "interrupt", word.iteration)]

    found, called = launcher(answers), []

    def function(call):
        called.append(call.iteration)
        if call.iteration == 5:
            raise ValueError("a bad batch")
        return "done"

    assert run_under(found, function) == "done"
    assert called == [5, 6]
    assert found.heard == [("join", 0), ("broken", 5), ("join", 6), ("done", 6)]


def test_ranks_are_given_from_the_initial_order_when_a_fresh_process_takes_part(launcher):
    seen = []

    def assign(before, living, active):
        seen.append((list(before), list(living)))
        return shift_ranks(before, living, active)

    def answers(word: Mustered) -> list[Answer]:
        members = (0, 2) if word.iteration == 1 else (0, 1, 2)
        if word.kind == "join":
            return [Answer("start", word.iteration, "", members, is_anew=word.iteration == 2)]
        return [Answer("over" if word.kind == "done" else "interrupt", word.iteration)]

    def function(call):
        if call.iteration < 2:
            raise ValueError("a bad batch")

    found = launcher(answers)
    found.told = dataclasses.replace(found.told, world_size=3)
    run = _Run(Wrapper(assign=assign), function, takes_call=True)
    run._told, run._order = found.told, Order(range(3))
    line = Line(found.told, run._interrupt)
    try:
        run._iterate(line)
    finally:
        line.close()
    assert seen == [([0, 1, 2], [0, 1, 2]), ([0, 1, 2], [0, 2]), ([0, 1, 2], [0, 1, 2])]


def test_where_the_assignment_has_nobody_run_the_launcher_is_to_restart(launcher):
    def answers(word: Mustered) -> list[Answer]:
        return [Answer("start", 0, "", (0,))] if word.kind == "join" else []

    found = launcher(answers)
    with pytest.raises(RestartAbort, match="nobody run"):
        run_under(found, lambda call: None, Wrapper(assign=Tree((Layer(int, min_ranks=2),))))
    found.close()  # it has heard all by then: to the last word nothing is answered
    assert found.heard == [("join", 0), ("abort", 0)]


@pytest.mark.parametrize(("most", "run"), [(None, 3), (2, 2), (5, 3)])
@pytest.mark.parametrize("assign", [lambda before, living, most: before, lambda before, living, most: Order(living)])
def test_an_order_that_does_not_say_who_runs_has_as_many_run_as_may(launcher, assign, most, run):
    made = _Run(Wrapper(assign=assign, active_world_size=most), lambda: None, takes_call=False)
    placed = made._placed(Order(range(3)), (0, 1, 2))
    assert (list(placed), placed.active) == ([0, 1, 2], run)


def test_an_assignment_may_leave_all_as_it_was(launcher):
    def answers(word: Mustered) -> list[Answer]:
        return [Answer("start" if word.kind == "join" else "over", 0, "", (0,))]

    found = launcher(answers)
    plan = Wrapper(assign=lambda before, living, most: before)
    assert run_under(found, lambda call: call.world_size, plan) == 1
    assert found.heard == [("join", 0), ("done", 0)]


@pytest.mark.parametrize("replace_ms", [None, 0, 2_500])
def test_how_long_a_fresh_process_is_waited_for_survives_the_socket(replace_ms: int | None):
    word = Mustered(Speaker(1, 2, 3), "join", 0, needed=1, limit_ms=15_000, replace_ms=replace_ms)
    assert decode(encode(word)[4:]) == word
    assert (b"replace_ms" in encode(word)) is (replace_ms is not None), "an older launcher knows no such word"
