"""The refit watchdog: R9 to R23 of its statements, and the stand-down, R28 to R32."""

import asyncio
import math
import subprocess
import sys
import threading
import time

import pytest

from resurge import refit_watchdog
from resurge.guards import deadlines
from resurge.guards.deadlines import Outcome
from resurge.guards.timer import THREAD_NAME
from resurge.refit_watchdog import RefitAborted, RefitAbortWatchdog, await_off_loop, stand_down_armed_watchdogs
from tests.unit.worker_sdk.abort_fakes import WAIT_S, Group, eventually, guard_threads, until

LONG_S = 600.0
SHORT_S = 0.02


@pytest.mark.parametrize("groups", [None, [], [None, None], ()])
def test_R9_without_a_member_there_is_no_group(groups):
    assert not RefitAbortWatchdog(groups, LONG_S).armed


def test_R9_none_members_are_dropped():
    group = Group()
    with RefitAbortWatchdog([None, group, None], SHORT_S) as guard:
        group.block()
    assert guard.fired
    assert group.aborts == 1


@pytest.mark.parametrize(
    ("groups", "timeout_s", "armed"),
    [(1, 5, True), (1, None, False), (1, 0, False), (1, -3, False), (0, 5, False), (1, float("nan"), False)],
)
def test_R10_armed_needs_a_group_and_a_positive_limit(groups, timeout_s, armed):
    with RefitAbortWatchdog([Group()] * groups, timeout_s) as guard:
        assert guard.armed is armed
    assert guard.armed is armed


@pytest.mark.parametrize(("groups", "timeout_s"), [(1, None), (1, 0), (1, -1), (0, LONG_S)])
def test_R11_not_armed_changes_nothing(groups, timeout_s):
    group = Group()
    before = set(threading.enumerate())
    error = ValueError("mine")
    guard = RefitAbortWatchdog([group] * groups, timeout_s)
    with pytest.raises(ValueError, match="mine") as raised:
        with guard:
            assert set(threading.enumerate()) <= before
            assert set() == refit_watchdog._ARMED
            raise error
    assert raised.value is error
    assert raised.value.__cause__ is None
    assert not guard.fired
    assert guard.outcome is Outcome.NOT_ARMED
    assert group.aborts == 0


def test_R12_arming_has_one_daemon_thread_for_all_named_for_its_purpose():
    program = (
        "import threading, resurge\n"
        "from resurge.refit_watchdog import RefitAbortWatchdog\n"
        "class Group:\n"
        "    def abort(self): pass\n"
        "for _ in range(3):\n"
        "    with RefitAbortWatchdog(Group(), 600), RefitAbortWatchdog(Group(), 60), resurge.deadline(6, Group()):\n"
        "        pass\n"
        "print([(thread.name, thread.daemon) for thread in threading.enumerate()][1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.splitlines()[-1] == f"[('{THREAD_NAME}', True)]"


def test_R13_it_is_registered_before_the_clock_runs(monkeypatch):
    group = Group()
    found = []
    guard = RefitAbortWatchdog(group, LONG_S)

    def told_in_that_instant(at_s):
        found.append(stand_down_armed_watchdogs())

    monkeypatch.setattr(deadlines.TIMER, "sooner", told_in_that_instant)
    monkeypatch.setattr(deadlines.TIMER, "wakes_at_s", math.inf)
    with guard:
        assert guard.outcome is Outcome.STOOD_DOWN
    assert found == [1]
    assert not guard.fired
    assert group.aborts == 0


def test_R13_a_clock_that_cannot_be_started_leaves_nothing_registered(monkeypatch):
    def no_thread(at_s):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(deadlines.TIMER, "sooner", no_thread)
    monkeypatch.setattr(deadlines.TIMER, "wakes_at_s", math.inf)
    with pytest.raises(RuntimeError, match="new thread"):
        with RefitAbortWatchdog(Group(), LONG_S):
            pass
    assert set() == refit_watchdog._ARMED


@pytest.mark.parametrize("error", [None, ValueError("the transfer failed")])
def test_R14_a_block_that_ends_first_aborts_nothing(error):
    group = Group()
    guard = RefitAbortWatchdog(group, SHORT_S * 20)
    try:
        with guard:
            if error:
                raise error
    except ValueError as raised:
        assert raised is error
    assert not group.aborted.wait(SHORT_S * 30)
    assert not guard.fired
    assert guard.outcome is Outcome.COMPLETED


def test_R15_fired_stands_before_the_first_abort_each_is_aborted_once_in_order(capsys):
    seen = []
    guard = None
    groups = [Group(lambda i=i: seen.append((i, guard.fired, "fired" in capsys.readouterr().out))) for i in range(3)]
    guard = RefitAbortWatchdog(groups, SHORT_S)
    with guard:
        groups[2].block()
    assert seen == [(0, True, True), (1, True, False), (2, True, False)]
    assert [group.aborts for group in groups] == [1, 1, 1]


def test_R15_the_line_names_deadline_and_number_of_groups(capsys):
    group = Group()
    with RefitAbortWatchdog([group, Group()], SHORT_S):
        group.block()
    assert "deadline of 0.02 s passed, aborting 2 groups" in capsys.readouterr().out


def test_R16_a_failing_abort_stops_no_other_and_the_timer_lives():
    def fails():
        raise SystemExit("in the abort")

    bad, good = Group(fails), Group()
    with RefitAbortWatchdog([bad, good], SHORT_S):
        good.block()
    assert (bad.aborts, good.aborts) == (1, 1)
    after = Group()
    with RefitAbortWatchdog(after, SHORT_S):
        after.block()


def test_R16_a_stuck_abort_delays_no_other_group_and_no_other_guard():
    let_go = threading.Event()
    stuck, other = Group(lambda: let_go.wait(WAIT_S)), Group()
    neighbour = Group()
    inner = RefitAbortWatchdog(neighbour, SHORT_S * 2)
    outer = RefitAbortWatchdog([stuck, other], SHORT_S)
    with outer:
        with inner:
            other.block()
            neighbour.block()
        assert not stuck.aborted.is_set()
        let_go.set()
    assert outer.fired
    assert inner.fired


def test_R17_fired_stays_readable_after_a_quiet_return():
    group = Group()
    with RefitAbortWatchdog(group, SHORT_S) as guard:
        group.block()
    assert guard.fired
    assert guard.partial
    assert guard.outcome is Outcome.ABORTED


def test_R18_leaving_unregisters_and_lets_go_of_the_groups():
    guard = RefitAbortWatchdog(Group(), LONG_S)
    with guard:
        assert {guard} == refit_watchdog._ARMED
    assert set() == refit_watchdog._ARMED
    assert guard._groups == ()


def test_R18_leaving_waits_for_this_guards_own_aborts_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(deadlines, "JOIN_LIMIT_S", 0.2)
    assert eventually(lambda: "resurge-abort" not in guard_threads())
    let_go = threading.Event()
    stuck = Group(lambda: let_go.wait(WAIT_S))
    started = time.monotonic()
    with RefitAbortWatchdog([stuck], SHORT_S) as guard:
        assert eventually(lambda: stuck.aborts == 1)
    assert guard.fired
    assert not stuck.aborted.is_set()
    assert 0.2 <= time.monotonic() - started < WAIT_S
    let_go.set()
    assert stuck.aborted.wait(WAIT_S)


def test_R18_the_limit_is_five_seconds():
    assert deadlines.JOIN_LIMIT_S == 5.0


def test_R18_leaving_waits_until_an_abort_that_is_under_way_has_ended():
    ended = []

    def slow():
        threading.Event().wait(0.2)
        ended.append(True)

    group = Group(slow)
    with RefitAbortWatchdog(group, SHORT_S):
        assert eventually(lambda: group.aborts == 1)
    assert ended == [True]


def test_R18_fifty_guards_leave_at_most_one_thread_more():
    before = threading.active_count()
    for _ in range(50):
        with RefitAbortWatchdog(Group(), LONG_S):
            pass
    assert threading.active_count() <= before + 1


def test_R19_an_error_after_the_abort_becomes_refit_aborted_with_its_cause():
    group = Group()
    inner = AttributeError("'NoneType' object has no attribute 'broadcast'")
    with pytest.raises(RefitAborted, match="consequence") as raised:
        with RefitAbortWatchdog(group, SHORT_S):
            group.block()
            raise inner
    assert raised.value.__cause__ is inner


def test_R20_a_refit_aborted_goes_through_as_the_same_object():
    group = Group()
    inner = RefitAborted("from the group")
    with pytest.raises(RefitAborted) as raised:
        with RefitAbortWatchdog(group, SHORT_S):
            group.block()
            raise inner
    assert raised.value is inner
    assert inner.__cause__ is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_R21_what_is_no_exception_is_never_translated(kind):
    group = Group()
    with pytest.raises(kind):
        with RefitAbortWatchdog(group, SHORT_S) as guard:
            group.block()
            raise kind
    assert guard.fired


def test_R22_an_error_without_firing_is_never_translated():
    error = RuntimeError("Connection closed by peer")
    with pytest.raises(RuntimeError) as raised:
        with RefitAbortWatchdog(Group(), LONG_S):
            raise error
    assert raised.value is error


@pytest.mark.parametrize(
    ("groups", "timeout_s", "line"),
    [
        (2, LONG_S, "armed: 600 s, 2 groups"),
        (1, None, "NOT armed: no deadline"),
        (1, 0, "NOT armed: no deadline"),
        (0, LONG_S, "NOT armed: no groups"),
        (0, 0.5, "NOT armed: no groups"),
        (0, None, "NOT armed: no deadline"),
    ],
)
def test_R23_entering_says_armed_or_why_not(groups, timeout_s, line, capsys):
    with RefitAbortWatchdog([Group()] * groups, timeout_s):
        assert line in capsys.readouterr().out
    assert capsys.readouterr().out == ""


def test_R28_a_stand_down_aborts_nothing():
    group = Group()
    with RefitAbortWatchdog(group, SHORT_S * 5) as guard:
        guard.stand_down()
        assert not group.aborted.wait(SHORT_S * 10)
    assert not guard.fired
    assert guard.outcome is Outcome.STOOD_DOWN


def test_R28_a_stand_down_before_the_block_holds_for_it():
    group = Group()
    guard = RefitAbortWatchdog(group, SHORT_S)
    guard.stand_down()
    with guard:
        assert not group.aborted.wait(SHORT_S * 5)
    assert not guard.fired


def test_R29_a_late_stand_down_is_harmless_and_fired_stays():
    group = Group()
    with RefitAbortWatchdog(group, SHORT_S) as guard:
        group.block()
        guard.stand_down()
        guard.stand_down()
    assert guard.fired
    assert guard.outcome is Outcome.LATE_STAND_DOWN
    assert group.aborts == 1


def test_R29_racing_threads_agree_on_one_outcome():
    for _ in range(200):
        group = Group()
        with RefitAbortWatchdog(group, 1e-4) as guard:
            guard.stand_down()
        assert group.aborts == (1 if guard.fired else 0)
        assert guard.outcome is (Outcome.LATE_STAND_DOWN if guard.fired else Outcome.STOOD_DOWN)


def test_R30_all_armed_are_stood_down_and_counted_from_any_thread():
    assert stand_down_armed_watchdogs() == 0
    groups = [Group(), Group()]
    counted = []
    with RefitAbortWatchdog(groups[0], LONG_S) as one, RefitAbortWatchdog(groups[1], LONG_S) as two:
        for _ in range(2):
            thread = threading.Thread(target=lambda: counted.append(stand_down_armed_watchdogs()))
            thread.start()
            thread.join(WAIT_S)
    assert counted == [2, 2]
    assert {one.outcome, two.outcome} == {Outcome.STOOD_DOWN}


def test_R30_they_are_told_outside_the_lock(monkeypatch):
    held = []

    def looks(guard):
        held.append(refit_watchdog._ARMED_LOCK._is_owned())

    monkeypatch.setattr(RefitAbortWatchdog, "stand_down", looks)
    with RefitAbortWatchdog(Group(), LONG_S):
        assert stand_down_armed_watchdogs() == 1
    assert held == [False]


def test_R31_neither_exited_nor_unarmed_guards_are_in_the_registry():
    with RefitAbortWatchdog(Group(), LONG_S):
        pass
    with pytest.raises(ValueError, match="x"), RefitAbortWatchdog(Group(), LONG_S):
        raise ValueError("x")
    with RefitAbortWatchdog(Group(), None):
        assert stand_down_armed_watchdogs() == 0


async def test_R32_the_stand_down_reaches_a_call_that_is_off_the_loop():
    """The transport errors by itself at the peer's death: told of it, the guard does not fire."""
    transport_errors = threading.Event()
    group = Group()
    guard = RefitAbortWatchdog(group, LONG_S)

    def transfer():
        with guard:
            assert transport_errors.wait(WAIT_S)
            raise ConnectionError("closed by peer")

    call = asyncio.ensure_future(await_off_loop(transfer))
    assert await until(stand_down_armed_watchdogs) == 1
    transport_errors.set()
    with pytest.raises(ConnectionError):
        await call
    assert guard.outcome is Outcome.STOOD_DOWN
    assert group.aborts == 0


def test_a_guard_is_entered_once():
    guard = RefitAbortWatchdog(Group(), LONG_S)
    with guard:
        pass
    with pytest.raises(RuntimeError, match="entered once"), guard:
        pass


def test_a_refit_that_is_late_is_told_to_no_other_rank(monkeypatch):
    told = []
    monkeypatch.setattr(deadlines.EAR, "tell_fired", told.append)
    with RefitAbortWatchdog(Group(), 600.0) as guard:
        guard.expire()
    assert guard.fired
    assert told == []
