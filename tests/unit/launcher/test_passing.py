"""Signals that are passed on: to each worker once it would not end by them, and never by a start that is called off."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from signal import SIGUSR1
from types import SimpleNamespace
from typing import Any, cast

import pytest

from resurge_launcher import passing
from resurge_launcher.core import happenings as h
from resurge_launcher.effects import Effects
from resurge_launcher.passing import Passing
from resurge_launcher.processes import kernel
from resurge_libs.core.ids import Generation
from resurge_libs.obs import log
from resurge_libs.testing import wait_until_async
from tests.unit.launcher.core_world import run

LIMIT_S = 20.0
ORDER = h.PassOn(Generation(1), SIGUSR1)


class FakeTeam:
    """Workers that handle a signal when the test says so."""

    def __init__(self, *ready: int) -> None:
        self.local_ranks = self.living_ranks = frozenset({0, 1})
        self.ready = frozenset(ready)
        self.got: list[int] = []
        self.looks = 0

    def pass_on(self, number: int, local_ranks: frozenset[int]) -> frozenset[int]:
        assert number == SIGUSR1
        self.looks += 1
        got = local_ranks & self.ready & self.living_ranks
        self.got += sorted(got)
        return got


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    monkeypatch.setattr(passing, "LOOK_EVERY_S", 0.001)
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    log.configure()


def passing_to(team: FakeTeam | None) -> tuple[Passing, dict[int, Any]]:
    teams = {} if team is None else {1: team}
    return Passing(lambda generation: cast(Any, teams.get(generation))), teams


async def test_those_that_handle_it_get_it_at_once_and_the_others_when_they_do(said: io.StringIO):
    team = FakeTeam(1)
    here, _ = passing_to(team)
    here.pass_on(ORDER)
    assert team.got == [1] and "signal_waits" in said.getvalue()
    looks = team.looks
    await wait_until_async(lambda: team.looks > looks + 1, LIMIT_S, "two more looks")
    assert team.got == [1], "nobody gets it twice"
    team.ready = frozenset({0, 1})
    await wait_until_async(lambda: team.got == [1, 0], LIMIT_S, "the late one")
    assert not here._waits and "signal_not_passed_on" not in said.getvalue()


async def test_a_fresh_process_in_the_place_of_a_lost_one_gets_it(said: io.StringIO):
    team = FakeTeam(0, 1)
    team.living_ranks = frozenset({0})
    here, _ = passing_to(team)
    here.pass_on(ORDER)
    assert team.got == [0] and not said.getvalue(), "whoever does not live is not waited for aloud"
    team.living_ranks = frozenset({0, 1})
    await wait_until_async(lambda: team.got == [0, 1], LIMIT_S, "the fresh one")


async def test_a_second_one_reaches_those_that_got_the_first(said: io.StringIO):
    team = FakeTeam(1)
    here, _ = passing_to(team)
    here.pass_on(ORDER)
    here.pass_on(ORDER)
    assert team.got == [1, 1]
    team.ready = frozenset({0, 1})
    await wait_until_async(lambda: not here._waits, LIMIT_S, "the late one")
    assert team.got == [1, 1, 0], "as the kernel does, which keeps one of each kind"


@pytest.mark.parametrize("lives", [True, False])
async def test_it_is_given_up_after_the_limit(said: io.StringIO, monkeypatch: pytest.MonkeyPatch, lives: bool):
    monkeypatch.setattr(passing, "HANDLER_LIMIT_S", 0.0)
    team = FakeTeam(1)
    team.living_ranks = frozenset({0, 1}) if lives else frozenset({1})
    here, _ = passing_to(team)
    here.pass_on(ORDER)
    await wait_until_async(lambda: not here._waits, LIMIT_S, "the end of the wait")
    assert team.got == [1] and ("signal_not_passed_on" in said.getvalue()) is lives


async def test_a_generation_that_is_over_is_forgotten(said: io.StringIO):
    here, teams = passing_to(FakeTeam())
    here.pass_on(ORDER)
    teams.clear()
    await wait_until_async(lambda: not here._waits, LIMIT_S, "the end of the wait")
    here.pass_on(ORDER)
    assert not here._waits


async def test_a_start_that_waits_for_its_files_is_not_called_off():
    asked: list[Any] = []
    posted: list[Any] = []
    hands = SimpleNamespace(
        shop=SimpleNamespace(logs=None, facts=SimpleNamespace(local_world_size=2)),
        files=SimpleNamespace(prepare=lambda run, then: asked.append(run)),
        strays=SimpleNamespace(leave_to_others=lambda spared: None),
        warm=None,
        post=posted.append,
    )
    effects = Effects(cast(Any, hands))
    wanted = run(1)
    effects.run(h.SpawnWorkers(wanted))
    effects.run(ORDER)
    assert asked == [wanted] and not posted and effects._ordered is wanted
    effects.run(h.SignalWorkers(Generation(1), signal.SIGTERM))
    assert isinstance(posted[-1], h.SpawnFailed) and effects._ordered is None


HANDLES = "signal.signal(signal.SIGUSR1, lambda *_: None)"
IGNORES = "signal.signal(signal.SIGUSR1, signal.SIG_IGN)"
BLOCKS = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})"


@pytest.mark.parametrize("line, outlives", [(HANDLES, True), (IGNORES, True), (BLOCKS, True), ("", False)])
def test_who_outlives_a_signal(line: str, outlives: bool):
    program = f"import signal, sys\n{line}\nprint('up', flush=True)\nsys.stdin.read()\n"
    command = [sys.executable, "-I", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        assert kernel.outlives(child.pid, SIGUSR1) is outlives
        assert kernel.outlives(child.pid, signal.SIGCONT)
        if outlives:
            os.kill(child.pid, SIGUSR1)
        child.communicate("")
        assert child.returncode == 0
    assert not kernel.outlives(child.pid, SIGUSR1), "it is gone"
