"""What guards ask of the timer, and when its thread looks, in time that stands still."""

import math
import random
import weakref

import pytest

import resurge
from resurge.guards import Outcome, deadlines, timer
from resurge.guards.timer import Timer
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
    """One without a thread: the test looks itself; what would be waited is noted, and each wake-up."""

    def __init__(self):
        super().__init__()
        self.registries.append(set())
        self.waited, self.wakes = [], 0
        self._changed.wait = self.waited.append

    def wake(self):
        assert self.lock.locked()
        self.wakes += 1

    def add(self, *due):
        for one in due:
            self.registries[0].add(one)


class Due:
    """Something armed."""

    def __init__(self, due_s, expire=lambda: None):
        self.due_s, self.expire = due_s, expire


@pytest.fixture
def still(monkeypatch, now):
    """Stands for the process's timer; its thread waits for nothing nearer than LONG_S."""
    told = Still()
    told.wakes_at_s = now[0] + LONG_S
    monkeypatch.setattr(deadlines, "TIMER", told)
    monkeypatch.setattr(deadlines, "ARMED_LOCK", told.lock)
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


def test_a_call_is_due_at_its_instant_and_not_before(still, now):
    due = Due(100.5)
    still.add(due)
    assert still._due() == []
    assert (still.waited, still.wakes_at_s) == ([0.5], 100.5)
    now[0] = 100.5
    assert still._due() == [due]
    assert still.waited == [0.5]


def test_what_was_due_is_called_once_and_waited_for_no_more(still):
    due = Due(99.0)
    still.add(due)
    assert still._due() == [due]
    assert still._due() == []
    assert (due.due_s, still.waited) == (math.inf, [timer._LONGEST_WAIT_S])


@pytest.mark.parametrize("armed", [(), (math.inf,), (1e9,)])
def test_without_an_instant_that_comes_soon_the_thread_still_looks_now_and_then(still, armed):
    still.add(*map(Due, armed))
    assert still._due() == []
    assert still.waited == [timer._LONGEST_WAIT_S]
    assert still.wakes_at_s == min(armed, default=math.inf)


def test_of_all_sets_the_nearest_instant_counts_and_what_is_due_comes_in_order(still, now):
    still.registries.append(set())
    instants = [100.5 + number for number in range(40)]
    for place, instant in enumerate(random.Random(1).sample(instants, len(instants))):
        still.registries[place % 2].add(Due(instant))
    assert still._due() == []
    assert still.waited == [0.5]
    now[0] = 119.5
    assert [one.due_s for one in still.registries[0] | still.registries[1] if one.due_s > now[0]] != []
    expected = sorted(
        (one for registry in still.registries for one in registry if one.due_s <= now[0]), key=lambda one: one.due_s
    )
    assert len(expected) == 20
    assert still._due() == expected


def test_a_look_keeps_nothing_alive_that_ends_while_it_waits(still):
    due = Due(LONG_S)
    seen = weakref.ref(due)
    still.add(due)

    def wait(_):
        nonlocal due
        still.registries[0].clear()
        del due
        found.append(seen())

    found = []
    still._changed.wait = wait
    still._due()
    assert found == [None]


def test_an_instant_that_comes_nearer_wakes_only_if_it_is_nearer_than_what_is_waited_for(still):
    still.sooner(still.wakes_at_s)
    assert still.wakes == 0
    still.sooner(still.wakes_at_s - 0.1)
    assert still.wakes == 1
    assert not still.lock.locked()


def test_a_guard_wakes_the_thread_only_if_it_is_due_before_what_is_waited_for(still):
    with resurge.deadline(LONG_S, Group()):
        assert still.wakes == 0
    with resurge.deadline(LONG_S - 0.1, Group()):
        assert still.wakes == 1


def test_one_thread_serves_all_and_none_where_no_instant_comes(monkeypatch):
    begun = []
    monkeypatch.setattr(timer.threading.Thread, "start", lambda thread: begun.append((thread.name, thread.daemon)))
    fresh = Timer()
    monkeypatch.setattr(deadlines, "TIMER", fresh)
    with resurge.deadline(math.inf, Group()):
        assert begun == []
    for _ in range(3):
        fresh.sooner(LONG_S)
    assert begun == [(timer.THREAD_NAME, True)]


def test_a_thread_that_could_not_be_had_is_asked_for_again(monkeypatch):
    refused = []

    def refuse(thread):
        refused.append(thread)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(timer.threading.Thread, "start", refuse)
    fresh = Timer()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            fresh.sooner(LONG_S)
    assert len(refused) == 2
    assert not fresh.lock.locked()


def test_a_fresh_start_knows_neither_thread_nor_instants():
    fresh = Timer()
    fresh.registries.append({1})
    fresh.wakes_at_s, fresh._thread = 5.0, object()
    fresh.lock.acquire()
    fresh.forget()
    assert (fresh.registries, fresh.wakes_at_s, fresh._thread) == ([set()], math.inf, None)
    assert not fresh.lock.locked()


def test_a_guard_that_ends_is_looked_at_no_more():
    with resurge.deadline(LONG_S, Group()) as guard:
        assert guard in deadlines.ARMED
    assert guard not in deadlines.ARMED


def test_a_guard_is_due_when_its_limit_is_over(still):
    with resurge.deadline(LONG_S, Group()) as guard:
        assert guard.due_s == 700.0


def test_a_guard_that_is_stood_down_is_never_due(still):
    with resurge.deadline(LONG_S, Group()) as guard:
        guard.stand_down()
        assert guard.due_s == math.inf


def test_a_guard_that_is_stood_down_while_it_is_entered_is_never_due(still):
    group = ToldMeanwhile()
    group.guard = resurge.deadline(LONG_S, group)
    with group.guard:
        assert group.guard.due_s == math.inf


def test_a_guard_that_an_order_ends_is_never_due(still):
    group = Group()
    with resurge.deadline(LONG_S, group, raise_=False) as guard:
        assert deadlines.obey(Order(1, 0, "a rank has died")) == 1
        assert guard.due_s == math.inf
    assert guard.outcome is Outcome.ORDERED


def test_a_stand_down_brings_the_deadline_nearer_once(still, now):
    with resurge.deadline(LONG_S, Lingering()) as guard:
        guard.stand_down()
        assert (guard.due_s, still.wakes) == (105.0, 1)
        now[0] = 101.0
        guard.stand_down()
        assert (guard.due_s, still.wakes) == (105.0, 1)


def test_a_stand_down_never_puts_the_deadline_off(still):
    with resurge.deadline(GRACE_S / 2, Lingering()) as guard:
        guard.stand_down()
        assert guard.due_s == 102.5


@pytest.mark.parametrize("is_told_before", [False, True])
def test_a_stand_down_before_the_clock_runs_brings_the_deadline_nearer_from_the_entry(still, is_told_before):
    group = Lingering() if is_told_before else LingeringToldMeanwhile()
    group.guard = resurge.deadline(LONG_S, group)
    if is_told_before:
        group.guard.stand_down()
    with group.guard:
        assert group.guard.due_s == 105.0
    assert group.guard.outcome is Outcome.STOOD_DOWN
