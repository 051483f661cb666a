"""A launcher that meets a control plane which is not of its own state directory uses it, and says so."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import signal
import socket
from pathlib import Path

import pytest

from resurge_launcher import control_plane
from resurge_launcher.control_plan import ControlPlan
from resurge_launcher.control_plane import ControlPlane
from resurge_launcher.processes import kernel
from resurge_launcher.processes.kernel import ProcessStat
from resurge_libs.obs import log
from resurge_libs.rpc.endpoint import Endpoint
from resurge_libs.testing import wait_until_async


def test_a_state_directory_that_is_not_used_is_named(tmp_path: Path):
    path, said, calls = str(tmp_path / "c.sock"), io.StringIO(), []
    log.configure(stream=said)

    async def meet() -> None:
        plan = ControlPlan("job", Endpoint(path=path), tmp_path / "mine", {})
        plane = ControlPlane(plan, lambda: calls.append("answered"), calls.append)
        await asyncio.wait_for(plane.start(), 20)
        assert plane.pids == set(), "no second one is started"
        await plane.stop(end_it=False)

    try:
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            other.listen()
            asyncio.run(meet())
    finally:
        log.configure()
    assert calls == ["answered"]
    assert f"started elsewhere: nothing is kept in {tmp_path / 'mine'}" in said.getvalue()


def test_of_two_state_directories_for_one_address_the_first_stays(tmp_path: Path):
    """After a kill the other, with its empty journal, must not be the one that comes back."""
    said = io.StringIO()
    log.configure(stream=said)
    useless: list[str] = []

    async def rival() -> None:
        listen = Endpoint(host="127.0.0.1", port=free_port())
        planes = [
            ControlPlane(ControlPlan("job", listen, tmp_path / name, dict(os.environ)), lambda: None, useless.append)
            for name in ("one", "two")
        ]
        tasks = [plane.start() for plane in planes]
        try:
            await wait_until_async(lambda: any(task.done() for task in tasks), 40, "one to stand back")
            first = next(plane for plane, task in zip(planes, tasks, strict=True) if not task.done())
            (before,) = await wait_until_async(lambda: first.pids, 20, "the other's process")
            os.kill(before, signal.SIGKILL)
            await wait_until_async(lambda: first.pids - {before}, 20, "its start anew")
            assert [task.done() for task in tasks].count(True) == 1
        finally:
            for plane in planes:
                await plane.stop(end_it=True)

    try:
        asyncio.run(rival())
    finally:
        log.configure()
    assert said.getvalue().count("started elsewhere: nothing is kept in") == 1
    assert useless == []


def test_one_that_worked_before_is_tried_again_whoever_held_its_port_meanwhile(tmp_path: Path):
    async def meet_a_squatter() -> None:
        port = free_port()
        answered = asyncio.Event()
        plan = ControlPlan("job", Endpoint(host="127.0.0.1", port=port), tmp_path / "state", dict(os.environ))
        plane = ControlPlane(plan, answered.set, pytest.fail)
        task = plane.start()
        try:
            await asyncio.wait_for(answered.wait(), 30)
            (before,) = plane.pids
            with socket.socket() as squatter:
                squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                os.kill(before, signal.SIGKILL)
                await wait_until_async(lambda: _has_bound(squatter, port), 5, "the port")
                squatter.listen(64)
                (refused,) = await wait_until_async(lambda: plane.pids - {before}, 20, "one that finds it taken")
                await wait_until_async(lambda: refused not in plane.pids, 20, "its end")
            await wait_until_async(lambda: plane.pids - {before, refused}, 20, "another try")
            assert not task.done()
        finally:
            await plane.stop(end_it=True)

    asyncio.run(meet_a_squatter())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _has_bound(squatter: socket.socket, port: int) -> bool:
    with contextlib.suppress(OSError):
        squatter.bind(("127.0.0.1", port))
        return True
    return False


def test_one_whose_number_cannot_be_read_now_is_replaced_when_it_can_and_has_been_stopped_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reads = [OSError(errno.EMFILE, "too many open files"), 7]
    killed: list[int] = []

    def pid_of(pidfd: int) -> int:
        found = reads.pop(0) if len(reads) > 1 else reads[0]
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(control_plane, "STOPPED_LOOK_S", 0.0)
    monkeypatch.setattr(kernel, "pid_of", pid_of)
    monkeypatch.setattr(kernel, "stat_of", lambda pid: ProcessStat("T", 1, 1) if pid == 7 else None)
    monkeypatch.setattr(kernel, "send", lambda pidfd, number: killed.append(number))
    listen = Endpoint(host="127.0.0.1", port=1)
    plane = ControlPlane(ControlPlan("job", listen, tmp_path, {}), lambda: None, lambda why: None)
    asyncio.run(asyncio.wait_for(plane._replace_when_stopped(99), 20))
    assert killed == [signal.SIGKILL]
