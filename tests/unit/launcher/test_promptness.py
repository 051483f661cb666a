"""A thread that asks to be woken soon gets a short slice, and what it starts has the usual one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from resurge_launcher.processes import promptness

TELL = "from resurge_launcher.processes import promptness; print(promptness.slice_ns())"


def in_a_thread(work):
    told = []
    thread = threading.Thread(target=lambda: told.append(work()))
    thread.start()
    thread.join(30)
    return told[0]


@pytest.fixture
def usual_ns():
    usual_ns = promptness.slice_ns()
    if not usual_ns:
        pytest.skip("this kernel tells of no slices")
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:
        pytest.skip("a thread with a raised priority is left as it is")
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER:
        pytest.skip("a thread of another policy, as chrt gives, is left as it is")
    return usual_ns


def test_only_the_thread_that_asks_gets_short_slices(usual_ns):
    def asked():
        was_done = promptness.wake_soon()
        child = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, timeout=50, check=True)
        return was_done, promptness.slice_ns(), in_a_thread(promptness.slice_ns), int(child.stdout)

    was_done, own_ns, threads_ns, childs_ns = in_a_thread(asked)
    assert was_done and own_ns == promptness.SLICE_NS
    assert threads_ns == childs_ns == usual_ns, "workers are not to run in short slices"
    assert promptness.slice_ns() == usual_ns


def test_niceness_and_policy_stay(usual_ns):
    def asked():
        own = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, own, 7)
        was_done = promptness.wake_soon()
        return was_done, os.getpriority(os.PRIO_PROCESS, own), os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK

    assert in_a_thread(asked) == (True, 7, os.SCHED_OTHER)


def test_a_thread_of_another_policy_is_left_as_it_is(usual_ns):
    def asked():
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return promptness.wake_soon(), os.sched_getscheduler(0)

    assert in_a_thread(asked) == (False, os.SCHED_BATCH)


def test_on_an_unknown_machine_nothing_is_done(monkeypatch):
    monkeypatch.setattr(promptness, "_CALLS", {})
    assert not promptness.wake_soon() and promptness.slice_ns() == 0
