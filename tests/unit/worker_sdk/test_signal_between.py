"""A handler of a signal that uses the SDK while the main thread is in the midst of it: it neither waits for ever nor
leaves anything behind. A job that is told of its end saves a checkpoint so, under phases and guards of its own."""

import pytest

from resurge.guards import exits
from tests.unit.worker_sdk.interrupted import run_interrupted

pytestmark = pytest.mark.timeout(60)
WITHIN = "/resurge/"


def at_each_place(block, handler, check):
    """The number of places; `check` is asked after each run."""
    place, is_there = 0, True
    while is_there:
        place += 1
        is_there = run_interrupted(block, handler, place, WITHIN)
        check()
    return place - 1


def test_phases_of_a_handler_leave_the_page_as_it_was(worker):
    own = worker.session()
    names = []

    def block():
        with own.phase("train", limit=60):
            own.step_committed(3)

    def handler():
        with own.phase("save", limit=5):
            own.beat()
            names.append(worker.view().phase.name)

    def check():
        assert worker.view().phase is None or worker.view().phase.depth == 0

    assert at_each_place(block, handler, check) > 20
    assert set(names) == {"save"}, "while the handler runs, its own phase is the innermost"


def test_threads_that_two_note_as_stuck_bound_the_end_once(monkeypatch):
    begun = []
    monkeypatch.setattr(exits, "_record_codes", lambda: begun.append("codes"))
    monkeypatch.setattr(exits.atexit, "register", lambda function: begun.append("end"))

    def check():
        assert begun == ["codes", "end"]
        begun.clear()
        exits._stuck.clear()

    assert at_each_place(lambda: exits.note_stuck("one"), lambda: exits.note_stuck("another"), check) > 2
