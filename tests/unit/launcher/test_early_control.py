"""A control plane that is begun before it is wanted: it waits, serves at the word, and else leaves nothing behind."""

from __future__ import annotations

import asyncio
import io
import json
import os
import select
import signal
import socket
from contextlib import contextmanager
from pathlib import Path

import pytest

from resurge_launcher import control_plane, early_control
from resurge_launcher.control_plan import ControlPlan
from resurge_launcher.control_plane import ControlPlane
from resurge_launcher.probe import answers
from resurge_libs.hosting.own_log import LOG_NAME
from resurge_libs.obs import log
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.testing import wait_until, wait_until_async


@pytest.fixture
def plan(tmp_path: Path) -> ControlPlan:
    (tmp_path / "state").mkdir()
    return ControlPlan("job", Endpoint(path=str(tmp_path / "c.sock")), tmp_path / "state", dict(os.environ))


@pytest.fixture
def early(plan: ControlPlan):
    begun = early_control.start(plan)
    yield begun
    begun.end()


def has_ended(pid: int) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(pidfd):
        return bool(select.select([pidfd], [], [], 0)[0])


def test_it_serves_at_the_word_and_writes_its_log_there(plan, early, tmp_path):
    assert not list(plan.state_dir.iterdir()) and not answers(plan.listen)
    with (tmp_path / "log").open("wb") as output:
        popen = early.begin(output.fileno())
    assert popen is not None and popen.pid == early.pid
    try:
        early.end()  # as a command does at its end with all that nobody wanted
        wait_until(lambda: answers(plan.listen), 40, "the control plane")
        wait_until(lambda: "host_ready" in (tmp_path / "log").read_text(), 10, "its log")
        assert list(plan.state_dir.iterdir())
    finally:
        popen.terminate()
        popen.wait(20)


def test_one_that_is_not_wanted_leaves_nothing_behind(plan, early):
    early.end()
    early.end()
    assert has_ended(early.pid) and not list(plan.state_dir.iterdir()) and not answers(plan.listen)


def test_it_ends_with_a_launcher_that_is_killed(plan, early):
    early._channel.close()  # as the kernel does with all that the launcher had open
    wait_until(lambda: has_ended(early.pid), 40, "its end")
    assert not list(plan.state_dir.iterdir())


def test_where_it_has_died_another_is_started(plan, early):
    os.kill(early.pid, signal.SIGKILL)
    wait_until(lambda: has_ended(early.pid), 20, "its end")

    async def launched() -> None:
        answered = asyncio.Event()
        plane = ControlPlane(plan, answered.set, pytest.fail, early)
        plane.start()
        try:
            await asyncio.wait_for(answered.wait(), 40)
            assert early.pid not in plane.pids and len(plane.pids) == 1
        finally:
            await plane.stop(end_it=True)

    asyncio.run(launched())


def test_a_launcher_has_its_early_one_serve(plan, early):
    async def launched() -> None:
        answered = asyncio.Event()
        plane = ControlPlane(plan, answered.set, pytest.fail, early)
        assert plane.pids == {early.pid}, "it is no stray while it waits"
        plane.start()
        try:
            await asyncio.wait_for(answered.wait(), 40)
            assert plane.pids == {early.pid}
            path = plan.state_dir / LOG_NAME
            await wait_until_async(lambda: "host_ready" in path.read_text(), 20, "its log in its place")
        finally:
            await plane.stop(end_it=True)

    asyncio.run(launched())
    assert has_ended(early.pid)


def test_a_journal_that_it_had_to_set_aside_is_told_by_the_launcher_that_started_it(plan, early):
    plan.state_dir.mkdir(exist_ok=True)
    (plan.state_dir / "journal.sqlite").write_bytes(b"no database at all" * 500)
    told = io.StringIO()

    async def launched() -> None:
        answered = asyncio.Event()
        plane = ControlPlane(plan, answered.set, pytest.fail, early)
        plane.start()
        try:
            await asyncio.wait_for(answered.wait(), 40)
            await wait_until_async(lambda: "journal_damaged" in told.getvalue(), 20, "the word of it")
        finally:
            await plane.stop(end_it=True)

    log.configure(as_json=True, stream=told)
    try:
        asyncio.run(launched())
    finally:
        log.configure()
    (said,) = [line for line in map(json.loads, told.getvalue().splitlines()) if line["event"] == "journal_damaged"]
    assert f"kept as {plan.state_dir}/journal.sqlite.damaged-1" in said["sentence"]
    assert "charged to the budget" in said["sentence"] and said["log"] == str(plan.log_path)


def test_where_another_serves_it_is_ended(plan, early):
    async def met() -> None:
        plane = ControlPlane(plan, lambda: None, pytest.fail, early)
        await asyncio.wait_for(plane.start(), 20)
        await wait_until_async(lambda: not plane.pids, 20, "its reaping")
        await plane.stop(end_it=False)

    with another_that_listens(plan):
        asyncio.run(met())
    assert has_ended(early.pid)


@contextmanager
def another_that_listens(plan):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(plan.listen.path)
        other.listen()
        yield


@pytest.fixture
def held(early, monkeypatch):
    """As the kernel holds one whose disk does not answer: no signal ends it, until it is let go of by `undo`."""
    os.kill(early.pid, signal.SIGSTOP)
    monkeypatch.setattr(early._waiting, "kill", lambda: None)
    yield monkeypatch
    monkeypatch.undo()


def test_one_that_does_not_end_when_it_is_killed_holds_no_launcher(plan, early, held):
    async def met() -> None:
        plane = ControlPlane(plan, lambda: None, pytest.fail, early)
        await asyncio.wait_for(plane.start(), 20)
        assert plane.pids == {early.pid}, "it is no stray, and no teardown waits for it"
        held.undo()
        os.kill(early.pid, signal.SIGKILL)
        await wait_until_async(lambda: not plane.pids, 20, "its reaping")
        await plane.stop(end_it=False)

    with another_that_listens(plan):
        asyncio.run(met())
    assert early.is_gone()


def test_one_that_does_not_end_when_it_is_killed_is_left_at_the_end(plan, early, held):
    held.setattr(control_plane, "EARLY_LIMIT_S", 0.05)
    held.setattr(early_control, "END_LIMIT_S", 0.05)

    async def met() -> None:
        plane = ControlPlane(plan, lambda: None, pytest.fail, early)
        await asyncio.wait_for(plane.start(), 20)
        await asyncio.wait_for(plane.stop(end_it=True), 20)

    with another_that_listens(plan):
        asyncio.run(met())
    early.end()
    assert not early.is_gone() and not has_ended(early.pid)


@pytest.mark.parametrize(
    ("processors", "beside_a_fork_server", "alone"), [(1, False, True), (2, False, True), (3, True, True)]
)
def test_a_fork_server_is_not_slowed(monkeypatch, processors, beside_a_fork_server, alone):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    assert early_control.is_worth_it(with_fork_server=True) is beside_a_fork_server
    assert early_control.is_worth_it(with_fork_server=False) is alone
