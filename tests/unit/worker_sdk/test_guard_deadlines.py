"""Guards under general names, and the timer that all share."""

import logging
import math
import os
import subprocess
import sys
import threading
import time

import pytest

import resurge
from resurge.guards import Outcome, stand_down_all
from resurge.guards.deadlines import ARMED
from resurge.guards.timer import Timer
from tests.unit.worker_sdk.abort_fakes import WAIT_S, Group, eventually

LONG_S = 600.0
SHORT_S = 0.02


def test_a_quiet_return_after_the_deadline_raises_at_the_end():
    group = Group()
    guard = resurge.deadline(SHORT_S, [group], phase="step")
    with pytest.raises(resurge.CollectiveAborted, match=r"step passed its deadline of 0\.02 s") as raised, guard:
        group.block()
    assert resurge.is_aborted(raised.value)
    assert resurge.is_aborted(Exception(str(raised.value)))
    assert guard.outcome is Outcome.ABORTED


def test_without_raise_a_quiet_return_is_told_by_the_flag():
    group = Group()
    with resurge.deadline(SHORT_S, [group], raise_=False) as guard:
        group.block()
    assert guard.fired
    assert guard.partial


@pytest.mark.parametrize("limit_s", [None, 0, -1, math.nan])
def test_without_a_limit_it_is_a_no_op(limit_s):
    with resurge.deadline(limit_s, Group()) as guard:
        pass
    assert not guard.armed
    assert guard.outcome is Outcome.NOT_ARMED


def test_what_is_armed_is_said_to_who_debugs(caplog):
    with caplog.at_level(logging.DEBUG, "resurge"), resurge.deadline(LONG_S, [Group(), Group()], "step"):
        pass
    assert "resurge: guard of step armed: 600.0 s, 2 groups" in caplog.messages


def test_without_groups_it_still_tells_that_it_was_late():
    with pytest.raises(resurge.CollectiveAborted):
        with resurge.deadline(SHORT_S, phase="eval") as guard:
            assert eventually(lambda: guard.fired)


def test_of_nested_guards_the_earliest_wins_and_each_names_its_phase():
    group = Group()
    with pytest.raises(resurge.CollectiveAborted, match="inner") as raised:
        with resurge.deadline(LONG_S, group, "outer") as outer:
            with resurge.deadline(SHORT_S, group, "inner"):
                group.block()
    assert not outer.fired
    group = Group()
    with pytest.raises(resurge.CollectiveAborted, match="outer") as raised:
        with resurge.deadline(SHORT_S, group, "outer"):
            with resurge.deadline(LONG_S, group, "inner") as inner:
                group.block()
                raise ConnectionError("closed")
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert inner.outcome is Outcome.COMPLETED


def test_guards_are_stood_down_by_group():
    one, two = Group(), Group()
    with resurge.deadline(LONG_S, one) as first, resurge.deadline(LONG_S, [one, two]) as second:
        assert stand_down_all(two) == 1
        assert (first.outcome, second.outcome) == (Outcome.OPEN, Outcome.STOOD_DOWN)
        assert stand_down_all() == 2
    assert stand_down_all() == 0


def test_bounded_guards_each_call_of_a_plain_function():
    group = Group()

    @resurge.bounded(SHORT_S, group)
    def evaluate(is_stuck):
        """Evaluates."""
        if is_stuck:
            group.block()
        return "done"

    assert evaluate(is_stuck=False) == "done"
    assert evaluate.__doc__ == "Evaluates."
    with pytest.raises(resurge.CollectiveAborted, match="evaluate"):
        evaluate(True)
    assert group.aborts == 1


async def test_bounded_guards_an_async_function_until_its_end():
    group = Group()

    @resurge.bounded(SHORT_S, group, phase="refit")
    async def refit():
        await resurge.off_loop(group.block)

    with pytest.raises(resurge.CollectiveAborted, match="refit"):
        await refit()


def test_device_context_lost_is_told_apart():
    error = resurge.CollectiveAborted.context_lost("transfer")
    assert isinstance(error, resurge.DeviceContextLost)
    assert resurge.is_context_lost(Exception(str(error)))
    assert not resurge.is_context_lost(resurge.CollectiveAborted("late"))
    assert resurge.is_context_lost(resurge.DeviceContextLost("made by hand"))


@pytest.mark.parametrize("what", ["resurge", "resurge.guards", "resurge.refit_watchdog", "resurge.guards.recovery"])
def test_importing_starts_nothing_and_brings_no_heavy_module(what):
    program = (
        f"import sys, threading, {what}\n"
        "heavy = {'torch', 'grpc', 'google.protobuf', 'asyncio', 'numpy'} & set(sys.modules)\n"
        "print(sorted(heavy), threading.active_count())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[] 1"


class Due:
    """Something that a timer calls."""

    def __init__(self, timer, due_s, expire):
        self.due_s, self.expire = due_s, expire
        timer.armed.add(self)
        timer.sooner(due_s)


def test_calls_come_in_the_order_of_their_instants():
    timer, seen, last = Timer(), [], threading.Event()
    now = time.monotonic()
    Due(timer, now + 0.06, last.set)
    Due(timer, now + 0.04, lambda: seen.append("later"))
    Due(timer, now + 0.02, lambda: seen.append("sooner"))
    Due(timer, now - 1.0, lambda: seen.append("past"))
    assert last.wait(WAIT_S)
    assert seen == ["past", "sooner", "later"]


def test_an_instant_earlier_than_all_others_wakes_the_thread():
    timer, ended = Timer(), threading.Event()
    Due(timer, time.monotonic() + LONG_S, pytest.fail)
    assert eventually(lambda: timer.wakes_at_s < math.inf)
    Due(timer, math.inf, pytest.fail)
    Due(timer, time.monotonic() + 0.01, ended.set)
    assert ended.wait(WAIT_S)


def test_a_call_may_arm_another_and_one_that_fails_stops_no_other():
    timer, ended = Timer(), threading.Event()

    def fails():
        Due(timer, time.monotonic(), ended.set)
        raise ValueError("a bad call")

    Due(timer, time.monotonic(), fails)
    assert ended.wait(WAIT_S)


def test_guards_leave_nothing_behind_that_the_timer_would_have_to_pass_over():
    before = len(ARMED)
    for _ in range(5000):
        with resurge.deadline(LONG_S, Group()):
            pass
    assert len(ARMED) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
def test_a_forked_child_has_no_guard_of_its_parent_and_can_arm_its_own():
    program = (
        "import os, sys, threading, resurge\n"
        "from resurge.guards import deadlines\n"
        "class Group:\n"
        "    def __init__(self): self.aborted = threading.Event()\n"
        "    def abort(self): self.aborted.set()\n"
        "outer = Group()\n"
        "with resurge.deadline(600, outer), resurge.deadline(600, outer) as told:\n"
        "    told.stand_down()\n"
        "    assert deadlines.EAR.begun and deadlines._DECIDING.acquire() and deadlines.TIMER._lock.acquire()\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        assert not deadlines.ARMED | deadlines._DECIDED\n"
        "        held = deadlines._DECIDING._is_owned() or deadlines.TIMER._lock._is_owned()\n"
        "        if held or deadlines.EAR.begun: os._exit(2)\n"
        "        group = Group()\n"
        "        with resurge.deadline(0.01, group, raise_=False) as guard: group.aborted.wait(20)\n"
        "        os._exit(0 if guard.fired and not outer.aborted.is_set() else 1)\n"
        "    deadlines._DECIDING.release(); deadlines.TIMER._lock.release()\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr


def test_a_script_without_guards_does_not_import_them_and_all_names_are_there():
    program = (
        "import sys, resurge\n"
        "assert not [name for name in sys.modules if name.startswith(('resurge.guards', 'resurge.crashing'))]\n"
        "assert all(getattr(resurge, name) is not None for name in resurge.__all__)\n"
        "try: resurge.no_such_name\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "module 'resurge' has no attribute 'no_such_name'", done.stderr


def test_what_cannot_be_aborted_is_refused_at_once_and_only_where_it_is_to_be_guarded():
    with pytest.raises(TypeError, match="object cannot be guarded"):
        resurge.deadline(0.5, [object()])
    assert not resurge.deadline(None, [object()]).armed
