"""The rank that opens the store of torch.distributed becomes its program before the others are started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from resurge_launcher.core.goals import RunGoal
from resurge_launcher.processes import worker as workers
from resurge_launcher.processes.worker import Command, WorkerProcess
from resurge_launcher.team import Team

HELD = "import os, sys; sys.exit(len([fd for fd in os.listdir('/proc/self/fd') if int(fd) > 2]) - 1)"


@pytest.fixture
def start():
    """Starts one worker that begins first; ends it at the end of the test."""
    begun: list[WorkerProcess] = []

    def started(*argv: str, begins_first: bool = True) -> WorkerProcess:
        null = os.open(os.devnull, os.O_RDWR)
        try:
            begun.append(WorkerProcess.start(Command(argv, dict(os.environ), null, null), begins_first))
        finally:
            os.close(null)
        return begun[-1]

    yield started
    for one in begun:
        one._popen.kill()
        one._popen.wait()
        os.close(one._pidfd)


def test_it_is_its_program_when_the_call_returns(start, monkeypatch):
    monkeypatch.setattr(workers, "BEGIN_LIMIT_S", 40.0)
    one = start("/bin/sleep", "600")
    assert Path(f"/proc/{one.pid}/cmdline").read_bytes() == b"/bin/sleep\x00600\x00"


def test_the_program_gets_no_descriptor_of_it(start, monkeypatch):
    monkeypatch.setattr(workers, "BEGIN_LIMIT_S", 40.0)
    assert start(sys.executable, "-c", HELD)._popen.wait(40) == 0


def test_a_program_that_is_not_there_is_waited_for_no_longer_than_its_end(start, monkeypatch):
    monkeypatch.setattr(workers, "BEGIN_LIMIT_S", 40.0)
    began_at = time.monotonic()
    assert start("/no/such/program")._popen.wait(40) == 127
    assert time.monotonic() - began_at < 30


def test_one_that_does_not_begin_is_waited_for_a_bounded_time(start, monkeypatch):
    monkeypatch.setattr(workers, "SHIM", Path(__file__).with_name("never_begins.py"))
    began_at = time.monotonic()
    one = start("/bin/true")
    assert time.monotonic() - began_at >= workers.BEGIN_LIMIT_S and one._popen.poll() is None


@pytest.mark.parametrize(("local_rank", "base_rank", "world_size", "served", "first"), [
    (0, 0, 4, False, True),
    (1, 0, 4, False, False),
    (0, 4, 8, False, False),  # of another node: rank 0 is not here
    (0, 0, 1, False, False),  # nobody else comes to the store
    (0, 0, 4, True, False),  # it is there already
])  # fmt: skip
def test_only_the_rank_that_opens_the_store_begins_first(monkeypatch, local_rank, base_rank, world_size, served, first):
    asked = []
    monkeypatch.setattr(WorkerProcess, "start", lambda command, begins_first=False: asked.append(begins_first))
    run = RunGoal.__new__(RunGoal)
    for name, value in (("base_rank", base_rank), ("world_size", world_size), ("store_is_served", served)):
        object.__setattr__(run, name, value)
    team = Team.__new__(Team)
    team.run = run
    team._executed(local_rank, Command((), {}, 1, 2))
    assert asked == [first]
