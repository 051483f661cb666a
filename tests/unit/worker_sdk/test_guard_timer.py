"""What guards ask of the timer, and when its thread looks, in time that stands still."""

import math
import random

import pytest

import resurge
from resurge.guards import Outcome, deadlines, timer
from resurge.guards.timer import Entry, Timer
from resurge.orders import Order
from tests.unit.worker_sdk.abort_fakes import Group

LONG_S, GRACE_S = 600.0, 5.0


@pytest.fixture
def now(monkeypatch):
    """The instant that the timer and the guards see; a list of one, to be changed."""
    seen = [100.0]
    for module in (timer, deadlines):
        monkeypatch.setattr(module, "_monotonic", lambda: seen[0])
    return seen


class Still(Timer):
    """One without a thread: the test looks itself, and what would be waited is noted."""

    def __init__(self):
        super().__init__()
        self.waited, self.sweeps = [], 0
        self._changed.wait = self.waited.append

    def _start(self):
        pass

    def _sweep(self):
        self.sweeps += 1
        super()._sweep()


class Asked:
    """Stands for the process's timer: what it was asked for, and whether that was taken back."""

    def __init__(self):
        self.entries = []

    def arm(self, at_s, call):
        entry = Entry(call)
        self.entries.append((at_s, entry))
        return entry

    @property
    def instants(self):
        return [at_s for at_s, _ in self.entries]

    @property
    def taken_back(self):
        return [entry.call is None for _, entry in self.entries]


@pytest.fixture
def asked(monkeypatch, now):
    told = Asked()
    monkeypatch.setattr(deadlines, "TIMER", told)
    return told


class Lingering(Group):
    """One whose waits a peer's death does not end."""

    stand_down_grace_s = GRACE_S


class ToldMeanwhile(Group):
    """One whose guard is stood down while it is being entered."""

    def enter_guard(self, deadline_s):
        self.guard.stand_down()


class LingeringToldMeanwhile(ToldMeanwhile, Lingering):
    """Both."""


def test_a_call_is_due_at_its_instant_and_not_before(now):
    still = Still()
    still.arm(100.5, len)
    assert still._next() is None
    assert still.waited == [0.5]
    now[0] = 100.5
    assert still._next() is len
    assert still.waited == [0.5]


def test_without_an_instant_that_comes_the_thread_still_looks_now_and_then(now):
    still = Still()
    still.arm(math.inf, len)
    assert still._next() is None
    assert still.waited == [timer._LONGEST_WAIT_S]


def test_a_few_that_were_taken_back_are_not_worth_a_sweep(now):
    still = Still()
    for _ in range(10):
        still.arm(now[0] + LONG_S, len).cancel()
    assert (len(still), still.sweeps) == (10, 0)


def test_a_heap_of_live_entries_is_swept_only_as_often_as_it_doubles(now):
    still = Still()
    for _ in range(1200):
        still.arm(now[0] + LONG_S, len)
    assert (len(still), still.sweeps) == (1200, 3)


def test_a_sweep_keeps_what_lives_in_the_order_of_the_instants(now):
    still, called = Still(), []
    instants = list(range(300))
    random.Random(1).shuffle(instants)
    for number, instant in enumerate(instants):
        entry = still.arm(float(instant), lambda instant=instant: called.append(instant))
        if number < 250 and instant % 3:
            entry.cancel()
    live = sorted(one for number, one in enumerate(instants) if number >= 250 or one % 3 == 0)
    assert still.sweeps == 1
    now[0] = 1000.0
    for _ in live:
        still._next()()
    assert called == live
    assert len(still) == 0


def test_one_thread_serves_all(monkeypatch):
    begun = []
    monkeypatch.setattr(timer.threading.Thread, "start", lambda thread: begun.append(thread.name))
    fresh = Timer()
    for _ in range(3):
        fresh.arm(math.inf, len)
    assert begun == [timer.THREAD_NAME]


def test_a_guard_that_ends_is_taken_back(asked):
    with resurge.deadline(LONG_S, Group()):
        assert (asked.instants, asked.taken_back) == ([700.0], [False])
    assert asked.taken_back == [True]


def test_a_guard_that_is_stood_down_is_taken_back(asked):
    with resurge.deadline(LONG_S, Group()) as guard:
        guard.stand_down()
        assert asked.taken_back == [True]


def test_a_guard_that_is_stood_down_while_it_is_entered_is_taken_back(asked):
    group = ToldMeanwhile()
    group.guard = resurge.deadline(LONG_S, group)
    with group.guard:
        assert (asked.instants, asked.taken_back) == ([700.0], [True])


def test_a_guard_that_an_order_ends_is_taken_back(asked):
    group = Group()
    with resurge.deadline(LONG_S, group, raise_=False) as guard:
        assert deadlines.obey(Order(1, 0, "a rank has died")) == 1
        assert asked.taken_back == [True]
    assert guard.outcome is Outcome.ORDERED


def test_a_stand_down_brings_the_deadline_nearer_once(asked, now):
    with resurge.deadline(LONG_S, Lingering()) as guard:
        guard.stand_down()
        assert (asked.instants, asked.taken_back) == ([700.0, 105.0], [True, False])
        now[0] = 101.0
        guard.stand_down()
        assert (asked.instants, asked.taken_back) == ([700.0, 105.0], [True, False])


def test_a_stand_down_never_puts_the_deadline_off(asked):
    with resurge.deadline(GRACE_S / 2, Lingering()) as guard:
        guard.stand_down()
        assert (asked.instants, asked.taken_back) == ([102.5], [False])


def test_a_stand_down_while_it_is_entered_brings_the_deadline_nearer_from_the_entry(asked):
    group = LingeringToldMeanwhile()
    group.guard = resurge.deadline(LONG_S, group)
    with group.guard:
        assert (asked.instants, asked.taken_back) == ([700.0, 105.0], [True, False])
