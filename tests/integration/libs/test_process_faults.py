"""The fault injectors do to real processes what they say."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from resurge_libs.testing import process_faults, wait_until
from resurge_libs.testing.wait import NeverHappened


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "import signal; print(1, flush=True); signal.pause()"], stdout=-1)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("fault", "number"),
    [
        (process_faults.kill, signal.SIGKILL),
        (process_faults.terminate, signal.SIGTERM),
        (process_faults.segfault, signal.SIGSEGV),
    ],
)
def test_a_fatal_fault_ends_the_process_by_its_signal(child, fault, number):
    assert process_faults.is_alive(child.pid)
    fault(child.pid)
    assert child.wait(10) == -number
    assert process_faults.state_of(child.pid) == "" and not process_faults.is_alive(child.pid)


def test_a_stopped_process_stands_still_inside_the_block(child):
    with process_faults.stopped(child.pid):
        assert process_faults.state_of(child.pid) == "T"
    wait_until(lambda: process_faults.state_of(child.pid) == "S")


def test_descendants_are_found():
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=-1)
    wait_until(lambda: len(process_faults.descendants_of(parent.pid)) == 1)
    (grandchild,) = process_faults.children_of(parent.pid)
    assert process_faults.children_of(grandchild) == ()
    parent.communicate(b"\n", timeout=10)


def test_waiting_in_vain_names_what_was_awaited_and_the_last_value():
    with pytest.raises(NeverHappened, match=r"not within 0\.01 s: the moon \(last value 0\)"):
        wait_until(lambda: 0, limit_s=0.01, what="the moon")
