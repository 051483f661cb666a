"""The faults that `resurge.testing` injects."""

import subprocess
import sys
import threading
import time

import pytest

import resurge
from resurge.testing import FakeGroup, HoldFiles, SlowGroup, StuckGroup, frozen, hold_gil, kill
from tests.unit.worker_sdk.abort_fakes import WAIT_S, eventually


@pytest.fixture
def process():
    started = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
    yield started
    started.kill()
    started.wait(WAIT_S)


def state_of(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def test_a_frozen_process_is_stopped_inside_the_block_only(process):
    with frozen(process.pid):
        assert eventually(lambda: state_of(process) == "T")
    assert eventually(lambda: state_of(process) != "T")


def test_a_process_that_is_killed_while_frozen_is_no_trouble(process):
    with frozen(process.pid):
        kill(process.pid)
        assert process.wait(WAIT_S) == -9


def test_no_thread_runs_while_the_interpreter_is_held():
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    assert eventually(lambda: ticks)
    started = time.monotonic()
    hold_gil(0.3)
    ended = time.monotonic()
    stop.set()
    thread.join(WAIT_S)
    assert ended - started >= 0.3
    assert not [at for at in ticks if started + 0.05 < at < started + 0.25]


def test_a_phase_is_held_by_its_file_and_others_are_not(tmp_path):
    files = HoldFiles(tmp_path)
    assert files.here("step")
    files.hold("step")
    assert not files.is_held("step")
    passed = []
    thread = threading.Thread(target=lambda: passed.append(files.here("step")))
    thread.start()
    assert eventually(lambda: files.is_held("step"))
    assert files.here("checkpoint")
    files.release("step")
    thread.join(WAIT_S)
    assert passed == [True]
    assert not files.is_held("step")


def test_a_hold_has_a_limit(tmp_path):
    files = HoldFiles(tmp_path)
    files.hold("step")
    assert files.here("step", limit_s=0.05) is False


def test_groups_that_are_never_aborted_or_abort_slowly():
    with pytest.raises(AssertionError, match="not aborted"):
        FakeGroup().block(limit_s=0.01)
    slow, stuck = SlowGroup(0.05), StuckGroup()
    with resurge.deadline(0.02, [stuck, slow], raise_=False) as guard:
        slow.block()
        assert stuck.aborts == 1
        assert not stuck.aborted.is_set()
        stuck.let_go.set()
    assert guard.fired
