"""py-spy is asked where it is installed; one that hangs costs its limit, once, and a launcher ends all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from resurge_launcher import effects
from resurge_launcher.processes import inspection
from resurge_launcher.processes.py_spy import PySpy
from resurge_libs.testing import wait_until_async

LIMIT_S = 20.0
SHORT_S = 1.0


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a program of that name, and nothing else that could be it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def install(script: str) -> None:
        program = tmp_path / "py-spy"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)

    return install


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of all children."""
    commands: list[list[str]] = []
    start = subprocess.Popen

    def note(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        commands.append(command)
        return start(command, **options)

    monkeypatch.setattr(subprocess, "Popen", note)
    return commands


async def test_it_is_asked_for_the_process_and_its_answer_is_the_stacks(installed):
    installed('echo "stacks: $*"')
    spy = PySpy()
    assert await spy.dump(4242, LIMIT_S) == "stacks: dump --nonblocking --pid 4242\n"
    assert not spy.pids


async def test_where_it_is_missing_it_is_asked_once(installed, started):
    spy = PySpy()
    assert await spy.dump(1, LIMIT_S) == await spy.dump(2, LIMIT_S) == ""
    assert len(started) == 1, "what is missing is not looked for at every look"


async def test_only_a_child_looks_for_it(installed, started):
    installed("exit 3")
    assert await PySpy().dump(1, LIMIT_S) == ""
    assert [Path(command[0]).is_absolute() for command in started] == [True], "a PATH may be on a disk that hangs"


async def test_one_that_hangs_costs_its_limit_and_until_it_is_gone_nobody_is_asked(installed, started, tmp_path):
    installed(f"sleep 600 & echo $! > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; wait")
    spy = PySpy()
    began = time.monotonic()
    hangs = asyncio.create_task(spy.dump(1, SHORT_S))
    await wait_until_async(lambda: spy.pids, 10, "the child")
    assert await hangs == "" and time.monotonic() - began < LIMIT_S
    assert spy.pids, "it is still there: no stray of the workers"
    assert await spy.dump(1, LIMIT_S) == "" and len(started) == 1
    await wait_until_async((tmp_path / "pid").exists, 10, "the child of it that holds its output open")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    await wait_until_async(lambda: not spy.pids, 10, "its end")
    installed("echo again")
    assert await spy.dump(1, LIMIT_S) == "again\n"


async def test_a_look_at_nobody_and_one_without_time_ask_nobody(started):
    await inspection.inspect([], True, 0.4, PySpy())
    assert await PySpy().dump(1, 0.0) == ""
    assert started == []


async def test_a_launcher_ends_though_a_look_does_not(monkeypatch):
    monkeypatch.setattr(effects, "LAST_WORDS_S", 0.05)
    closed: list[str] = []
    hands = SimpleNamespace(
        strays=SimpleNamespace(leave_to_others=lambda own: None, stop=lambda: closed.append("strays")),
        store=SimpleNamespace(release=lambda: closed.append("store")),
        marker=None,
        gpus=None,
        shop=None,
        files=None,
        post=None,
    )
    made = effects.Effects(cast(effects.Hands, hands))
    never = asyncio.create_task(asyncio.Event().wait())
    made._keep(cast("asyncio.Task[None]", never))
    await asyncio.wait_for(made.close(), LIMIT_S)
    assert closed == ["strays", "store"]
    never.cancel()
