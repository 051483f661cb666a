"""When one worker is killed and another fails for want of it, the killed one is told of first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from resurge_launcher import effects
from resurge_launcher.core import happenings as h
from resurge_launcher.core import struck
from resurge_launcher.processes import kernel
from resurge_launcher.processes.kernel import ExitStatus
from resurge_launcher.processes.worker import Dying, WorkerProcess
from resurge_launcher.team import Team
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant
from resurge_libs.testing import wait_until


@pytest.fixture
def started():
    """Starts a process that waits; none of them is reaped before the end."""
    processes = []

    def start() -> WorkerProcess:
        process = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
        processes.append(process)
        return WorkerProcess.adopt(process.pid, os.pidfd_open(process.pid))

    yield start
    for process in processes:
        process.kill()
        process.wait(20)


def team_of(*workers: WorkerProcess) -> Team:
    team: Any = object.__new__(Team)
    team._workers = dict(enumerate(workers))
    team.run = SimpleNamespace(generation=Generation(1), base_rank=0)
    team.readings = lambda: ()
    team.error_of = lambda local_rank: ""
    return team


def killed(worker: WorkerProcess, number: int) -> WorkerProcess:
    os.kill(worker.pid, number)
    wait_until(lambda: kernel.end_of(worker.pid), 20, "its end")
    return worker


def told(team: Team, status: ExitStatus) -> list[tuple[int, float, int | None]]:
    """Local rank, moment and signal of each end that the effects tell of, by its moment, when worker 0 ends at 4 s."""
    posted: list[object] = []
    hands = SimpleNamespace(post=posted.append, shop=SimpleNamespace(logs=None), now=lambda: Instant(4.0))
    made = object.__new__(effects.Effects)
    made._hands = cast(effects.Hands, hands)
    made._dying(team, 0, team._workers[0], Dying(status, Instant(4.0)))
    early = sorted((one.end for one in posted if isinstance(one, h.WorkerDying)), key=lambda end: end.at)
    posted.clear()
    team._workers[0].status = status
    made._exited(team, 0, team._workers[0])
    late = [one.end if isinstance(one, h.WorkerDying) else one for one in posted if not isinstance(one, h.PagesRead)]
    assert [end.local_rank for end in late] == [end.local_rank for end in early], "by the pidfd alone it is the same"
    return [(end.local_rank, end.at, end.signal) for end in early]


def test_who_was_killed_comes_before_who_failed(started):
    victim, gave_up, lives = killed(started(), signal.SIGKILL), killed(started(), signal.SIGTERM), started()
    failed = ExitStatus(exit_code=1)
    ends = told(team_of(started(), lives, victim, gave_up), failed)
    assert ends == [(2, pytest.approx(4.0), signal.SIGKILL), (0, 4.0, None)] and ends[0][1] < 4.0
    victim.status = ExitStatus(signal=signal.SIGKILL)
    assert told(team_of(started(), victim), failed) == [(0, 4.0, None)], "told of when it was reaped"


def test_whose_memory_is_at_fault_has_its_own_turn(started):
    team = team_of(started(), killed(started(), signal.SIGSEGV))
    assert told(team, ExitStatus(exit_code=1)) == [(0, 4.0, None)], "its peer's end may be why"


AT = Instant(100.0)


def test_only_a_kill_seen_beside_a_failure_goes_before_it():
    signals = {number: number for number in signal.valid_signals()} | {1_000: None}
    found = struck.struck_before(1, AT, signals)
    assert [local_rank for local_rank, _ in found] == [signal.SIGKILL]
    assert all(AT - 0.001 < at < AT for _, at in found)


def test_of_several_that_were_killed_each_goes_before_the_failure():
    found = struck.struck_before(7, AT, {3: signal.SIGKILL, 0: None, 1: signal.SIGKILL})
    assert {local_rank for local_rank, _ in found} == {1, 3}


@pytest.mark.parametrize("exit_code", [0, None])
def test_nobody_goes_before_one_that_did_not_fail(exit_code):
    assert struck.struck_before(exit_code, AT, {1: signal.SIGKILL}) == ()


@pytest.mark.parametrize("status", [ExitStatus(exit_code=0), ExitStatus(signal=signal.SIGABRT)])
def test_who_ended_well_or_by_a_signal_is_told_of_alone(started, status):
    team = team_of(started(), killed(started(), signal.SIGKILL))
    assert [rank for rank, _, _ in told(team, status)] == [0]
