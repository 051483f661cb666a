"""Strays are looked for without stopping the event loop, and a sweep ends what it finds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from resurge_launcher.node_environment import marks
from resurge_launcher.processes import kernel
from resurge_launcher.processes.strays import Strays
from resurge_libs.testing import wait_until_async

MARKS = marks("job-of-the-strays-test", "n0")


@pytest.fixture
def stray() -> Iterator[subprocess.Popen[bytes]]:
    """A process that an earlier launcher of the node left behind."""
    env = dict(mark.decode().split("=", 1) for mark in MARKS)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env) as process:
        yield process
        process.kill()


def strays_beside(*pids: int) -> Strays:
    """What looks for strays; other children of this process are none of its business."""
    before = set(kernel.children_of(os.getpid())) - set(pids)
    return Strays(asyncio.get_running_loop(), MARKS, lambda: before)


async def test_a_sweep_reads_the_other_processes_in_a_thread_and_ends_the_marked(stray, monkeypatch):
    read_in_loop: set[int] = set()
    environ_of = kernel.environ_of

    def noting(pid: int) -> bytes:
        if threading.current_thread() is threading.main_thread():
            read_in_loop.add(pid)
        return environ_of(pid)

    monkeypatch.setattr(kernel, "environ_of", noting)
    gone: list[str] = []
    strays = strays_beside(stray.pid)
    strays.sweep(signal.SIGKILL, lambda: gone.append("gone"))
    await wait_until_async(lambda: gone, 10, "the end of the sweep")
    assert kernel.process_name(stray.pid) == ""
    assert read_in_loop <= {stray.pid}
    strays.stop()


async def test_a_second_sweep_replaces_the_first_also_while_that_looks(stray):
    gone: list[str] = []
    strays = strays_beside(stray.pid)
    strays.sweep(signal.SIGCONT, lambda: gone.append("first"))
    strays.sweep(signal.SIGKILL, lambda: gone.append("second"))
    await wait_until_async(lambda: gone, 10, "the end of the sweep")
    assert gone == ["second"]
    strays.stop()


async def test_a_sweep_that_was_stopped_tells_nothing(stray):
    strays = strays_beside(stray.pid)
    strays.sweep(signal.SIGKILL, lambda: pytest.fail("it was stopped"))
    strays.stop()
    await asyncio.to_thread(strays.marked)
    assert stray.poll() is None


def test_a_look_that_the_kernel_holds_does_not_hold_the_launchers_end(monkeypatch):
    began, answers = threading.Event(), threading.Event()

    def held() -> frozenset[int]:
        began.set()
        answers.wait()
        return frozenset()

    async def launcher() -> None:
        strays = strays_beside()
        monkeypatch.setattr(strays, "marked", held)
        strays.sweep(signal.SIGKILL, lambda: pytest.fail("nobody knows what is left"))
        await wait_until_async(began.is_set, 10, "the look")
        strays.stop()

    # where the end waited for the look it would come only then
    late = threading.Timer(20, answers.set)
    late.start()
    try:
        asyncio.run(launcher())
        assert not answers.is_set()
    finally:
        late.cancel()
        answers.set()


async def test_a_look_that_fails_is_told(monkeypatch):
    told: list[dict[str, object]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context))
    strays = strays_beside()
    monkeypatch.setattr(strays, "marked", lambda: os.listdir("/nowhere"))
    strays.sweep(signal.SIGKILL, lambda: pytest.fail("nobody knows what is left"))
    await wait_until_async(lambda: told, 10, "the complaint")
    assert isinstance(told[0]["exception"], FileNotFoundError)
    strays.stop()
