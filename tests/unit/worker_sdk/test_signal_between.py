"""A handler of a signal that uses the SDK while the main thread is in the midst of it: it neither waits for ever nor
leaves anything behind. A job that is told of its end saves a checkpoint so, under phases and guards of its own."""

import itertools
import threading

import pytest

from resurge.guards import exits
from resurge.guards.deadlines import ARMED, Outcome, deadline, stand_down_all
from resurge.guards.timer import THREAD_NAME, Timer
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


class Group:
    def __init__(self):
        self.guards = []

    def abort(self):
        raise AssertionError("nothing fires here")

    def enter_guard(self, deadline_s):
        self.guards.append(deadline_s)

    def leave_guard(self, deadline_s):
        self.guards.remove(deadline_s)


class Due:
    due_s = 0.0

    def __init__(self):
        self.called = threading.Event()

    def expire(self):
        self.called.set()


def test_guards_of_a_handler_leave_those_of_the_main_thread_as_they_were():
    group, other = Group(), Group()
    ended = []

    def block():
        with deadline(60, group, "step") as guard:
            pass
        with deadline(60, group, "next") as told:
            stand_down_all()
        ended[:] = guard.outcome, told.outcome

    def handler():
        with deadline(30, other, "save") as guard:
            assert guard in ARMED
        with deadline(30, other, "leave"):
            stand_down_all(other)

    def check():
        assert not ARMED
        assert group.guards == other.guards == []
        assert ended == [Outcome.COMPLETED, Outcome.STOOD_DOWN]

    assert at_each_place(block, handler, check) > 20


def test_one_that_is_armed_while_the_timer_begins_is_called_too_and_by_one_thread():
    def timers():
        return {thread for thread in threading.enumerate() if thread.name == THREAD_NAME}

    for place in itertools.count(1):
        timer, mine, other, before = Timer(), Due(), Due(), timers()

        def arm(one, timer=timer):
            timer.armed.add(one)
            timer.sooner(one.due_s)

        is_there = run_interrupted(lambda: arm(mine), lambda: arm(other), place, WITHIN)  # noqa: B023
        assert mine.called.wait(10)
        assert not is_there or other.called.wait(10)
        assert len(timers() - before) == 1
        if not is_there:
            break
    assert place > 2
