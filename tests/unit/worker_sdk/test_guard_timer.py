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
        self.waited, self.asked = [], []
        self._changed.wait = self.waited.append

    def sooner(self, at_s):
        assert not deadlines._DECIDING._is_owned()
        self.asked.append(at_s)


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
    monkeypatch.setattr(deadlines, "ARMED", told.armed)
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
    still.armed.add(due)
    assert still._due() == []
    assert (still.waited, still.wakes_at_s) == ([0.5], 100.5)
    now[0] = 100.5
    assert still._due() == [due]
    assert still.waited == [0.5]


def test_what_was_due_is_called_once_and_waited_for_no_more(still):
    due = Due(99.0)
    still.armed.add(due)
    assert still._due() == [due]
    assert still._due() == []
    assert (due.due_s, still.waited) == (math.inf, [timer._LONGEST_WAIT_S])


@pytest.mark.parametrize("armed", [(), (math.inf,), (1e9,)])
def test_without_an_instant_that_comes_soon_the_thread_still_looks_now_and_then(still, armed):
    still.armed.update(map(Due, armed))
    assert still._due() == []
    assert still.waited == [timer._LONGEST_WAIT_S]
    assert still.wakes_at_s == min(armed, default=math.inf)


def test_the_nearest_instant_of_all_counts_and_what_is_due_comes_in_order(still, now):
    instants = [100.5 + number for number in range(40)]
    all_ = [Due(instant) for instant in random.Random(1).sample(instants, len(instants))]
    still.armed.update(all_)
    assert still._due() == []
    assert (still.waited, still.wakes_at_s) == ([0.5], 100.5)
    now[0] = 119.5
    expected = sorted((one for one in all_ if one.due_s <= now[0]), key=lambda one: one.due_s)
    assert len(expected) == 20
    assert still._due() == expected


def test_a_look_keeps_nothing_alive_that_ends_while_it_waits(still):
    due, found = Due(LONG_S), []
    seen = weakref.ref(due)
    still.armed.add(due)

    def wait(_):
        nonlocal due
        still.armed.clear()
        del due
        found.append(seen())

    still._changed.wait = wait
    still._due()
    assert found == [None]


def test_what_is_armed_while_the_thread_looks_is_not_overlooked(still, monkeypatch):
    """Who arms then finds that it has to ask, whatever was waited for before."""
    found = []

    def looks():
        found.append(still.wakes_at_s)
        return 100.0

    monkeypatch.setattr(timer, "_monotonic", looks)
    still.wakes_at_s = 1.0
    assert still._due() == []
    still.armed.add(Due(99.0))
    still.wakes_at_s = 1.0
    assert still._due() != []
    assert found == [math.inf, math.inf]
    assert still.wakes_at_s == math.inf


def test_an_instant_wakes_the_thread_only_if_it_is_nearer_than_what_is_waited_for(monkeypatch):
    fresh, told = Timer(), []
    fresh.wakes_at_s, fresh._thread = 5.0, object()
    monkeypatch.setattr(fresh._changed, "notify", lambda: told.append(fresh._lock._is_owned()))
    fresh.sooner(5.0)
    assert told == []
    fresh.sooner(4.9)
    assert told == [True]
    assert not fresh._lock._is_owned()


def test_a_guard_asks_the_thread_only_if_it_is_due_before_what_is_waited_for(still):
    with resurge.deadline(LONG_S, Group()):
        assert still.asked == []
    with resurge.deadline(LONG_S - 0.5, Group()) as guard:
        assert still.asked == [guard.due_s] == [699.5]


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


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), KeyboardInterrupt()], ids=repr)
def test_a_thread_that_could_not_be_had_is_asked_for_again(monkeypatch, error):
    refused = []

    def refuse(thread):
        refused.append(thread)
        raise error

    monkeypatch.setattr(timer.threading.Thread, "start", refuse)
    fresh = Timer()
    for _ in range(2):
        with pytest.raises(type(error)):
            fresh.sooner(LONG_S)
    assert len(refused) == 2
    assert not fresh._lock._is_owned()


def test_a_fresh_start_knows_neither_thread_nor_instants():
    fresh = Timer()
    armed = fresh.armed
    armed.add(1)
    fresh.wakes_at_s, fresh._thread = 5.0, object()
    fresh._lock.acquire()
    fresh.forget()
    assert fresh.armed is armed
    assert (armed, fresh.wakes_at_s, fresh._thread) == (set(), math.inf, None)
    assert not fresh._lock._is_owned()


def test_a_guard_that_ends_is_looked_at_no_more(still):
    with resurge.deadline(LONG_S, Group()) as guard:
        assert (still.armed, guard.due_s) == ({guard}, 700.0)
    assert still.armed == set()


def test_a_guard_that_is_stood_down_is_looked_at_no_more(still):
    with resurge.deadline(LONG_S, Group()) as guard:
        guard.stand_down()
        assert (still.armed, guard.outcome) == (set(), Outcome.STOOD_DOWN)


@pytest.mark.parametrize("is_told_before", [False, True])
def test_a_guard_that_is_stood_down_before_the_clock_runs_is_looked_at_no_more(still, is_told_before):
    group = Group() if is_told_before else ToldMeanwhile()
    group.guard = resurge.deadline(LONG_S, group)
    if is_told_before:
        group.guard.stand_down()
        assert group.guard.outcome is Outcome.STOOD_DOWN
    with group.guard:
        assert (still.armed, group.guard.outcome) == (set(), Outcome.STOOD_DOWN)
    assert group.guard.outcome is Outcome.STOOD_DOWN


def test_a_guard_that_an_order_ends_is_looked_at_no_more(still):
    group = Group()
    with resurge.deadline(LONG_S, group, raise_=False) as guard:
        assert deadlines.obey(Order(1, 0, "a rank has died")) == 1
        assert still.armed == set()
    assert guard.outcome is Outcome.ORDERED


def test_a_stand_down_brings_the_deadline_nearer_once(still, now):
    with resurge.deadline(LONG_S, Lingering()) as guard:
        guard.stand_down()
        assert (guard.due_s, still.asked) == (105.0, [105.0])
        now[0] = 101.0
        guard.stand_down()
        assert (guard.due_s, still.asked) == (105.0, [105.0])
        assert still.armed == {guard}


def test_a_stand_down_never_puts_the_deadline_off(still):
    with resurge.deadline(GRACE_S / 2, Lingering()) as guard:
        guard.stand_down()
        assert guard.due_s == 102.5


@pytest.mark.parametrize("is_told_before", [False, True])
def test_a_stand_down_before_the_clock_runs_brings_the_deadline_nearer_from_the_entry(still, now, is_told_before):
    group = Lingering() if is_told_before else LingeringToldMeanwhile()
    group.guard = resurge.deadline(LONG_S, group)
    if is_told_before:
        group.guard.stand_down()
        now[0] = 200.0
    with group.guard:
        assert group.guard.due_s == now[0] + GRACE_S
    assert group.guard.outcome is Outcome.STOOD_DOWN


def test_a_stand_down_after_the_end_changes_nothing(still):
    for group in (Group(), Lingering()):
        with resurge.deadline(LONG_S, group) as guard:
            pass
        guard.stand_down()
        assert (guard.outcome, guard.due_s, still.asked) == (Outcome.COMPLETED, 700.0, [])
    unarmed = resurge.deadline(None, Group())
    unarmed.stand_down()
    assert unarmed.outcome is Outcome.NOT_ARMED


def test_the_end_of_a_block_waits_until_who_decided_first_has_written_that_down(still, monkeypatch):
    with resurge.deadline(LONG_S, Group()) as guard:
        assert guard._take()
        assert {guard} == deadlines._DECIDED

        class Held:
            """The lock, which is let go of once the outcome stands."""

            def __enter__(self):
                guard._outcome = Outcome.STOOD_DOWN

            def __exit__(self, *_):
                pass

        monkeypatch.setattr(deadlines, "_DECIDING", Held())
    assert (guard.outcome, deadlines._DECIDED) == (Outcome.STOOD_DOWN, set())


def test_an_outcome_is_taken_once_and_only_between_entry_and_end(still):
    guard = resurge.deadline(LONG_S, Group())
    assert not guard._take()
    with guard:
        assert guard._take()
        assert not guard._take()
        assert resurge.guards.stand_down_all() == 1, "it is entered still"
    assert not guard._take()
    assert set() == deadlines._DECIDED


def test_what_comes_after_the_decision_did_nothing(still, monkeypatch):
    told = []
    monkeypatch.setattr(deadlines.EAR, "tell_fired", told.append)
    group = Group()
    with resurge.deadline(LONG_S, group, "step") as guard:
        guard.stand_down()
        assert not guard.order("a rank has died")
        guard.expire()
    assert not guard.order("a rank has died")
    assert (guard.outcome, guard.fired, group.aborts, told) == (Outcome.STOOD_DOWN, False, 0, [])


def test_in_a_forked_child_the_parents_guard_ends_quietly(still):
    with resurge.deadline(LONG_S, Group()) as guard:
        still.armed.clear()
    assert guard.outcome is Outcome.COMPLETED


def test_a_deadline_in_the_instant_of_entering_does_not_abort_what_was_stood_down_before(still, monkeypatch):
    group = Group()
    guard = resurge.deadline(LONG_S / 2, group)
    guard.stand_down()
    monkeypatch.setattr(still, "sooner", lambda at_s: guard.expire())
    with guard:
        pass
    assert (guard.outcome, guard.fired, group.aborts) == (Outcome.STOOD_DOWN, False, 0)


def test_a_look_in_the_instant_of_entering_does_not_abort_what_is_stood_down_meanwhile(still, monkeypatch, now):
    class Looked(set):
        """The armed, which the timer looks at as soon as one is added."""

        def add(self, guard):
            super().add(guard)
            if guard.due_s <= now[0]:
                guard.expire()

    monkeypatch.setattr(deadlines, "ARMED", Looked())
    group = ToldMeanwhile()
    group.guard = resurge.deadline(LONG_S, group)
    with group.guard:
        pass
    assert (group.guard.outcome, group.guard.fired, group.aborts) == (Outcome.STOOD_DOWN, False, 0)


def test_a_guard_whose_deadline_cannot_be_brought_nearer_is_not_entered(still, monkeypatch):
    def no_thread(at_s):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(still, "sooner", no_thread)
    guard = resurge.deadline(LONG_S, Lingering())
    guard.stand_down()
    with pytest.raises(RuntimeError, match="new thread"):
        guard.__enter__()
    assert still.armed == set()


def test_an_entry_that_is_interrupted_behind_a_stand_down_leaves_nothing_armed_and_nothing_decided():
    class Interrupted(deadlines.Deadline):
        def stand_down(self):
            super().stand_down()
            if self._entered_until_s:
                raise KeyboardInterrupt

    with Interrupted(Group(), LONG_S, "step", True, True) as guard:
        with pytest.raises(KeyboardInterrupt):
            guard.stand_down()
        assert {guard} == deadlines._DECIDED
    told = Interrupted(Group(), LONG_S, "step", True, True)
    told._was_told = True
    with pytest.raises(KeyboardInterrupt), told:
        pytest.fail("it was entered")
    assert set() == deadlines.ARMED | deadlines._DECIDED
