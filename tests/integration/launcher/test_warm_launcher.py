"""Warm start under a whole launcher: who dies with whom, what a lost server costs, orders that come meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until_async
from resurge_libs.testing.process_faults import is_alive, kill, stop
from tests.integration.launcher.launching import FOREVER, PREAMBLE, Launched

pytestmark = pytest.mark.integration
# in the place of the real one, whose import takes seconds
TORCH = """
import types
def initial_seed(): return 0
default_generator = types.SimpleNamespace(seed=lambda: None)
"""


@pytest.fixture
def warm(launched: Launched, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Starts the launcher with a fork server whose torch is quick."""
    (launched.folder / "torch").mkdir()
    (launched.folder / "torch" / "__init__.py").write_text(TORCH)

    def start(program: str, *flags: str, workers: int = 1) -> None:
        launched.start(program, "--warm", "on", *flags, workers=workers)

    return start


def server_pid(launched: Launched) -> int:
    """Of the newest server that was ready."""
    return int(re.findall(r"fork_server_ready .*?pid=(\d+)", launched.output())[-1])


async def test_workers_are_forked_and_die_with_the_launcher(launched: Launched, warm):
    looks = "said('imported-' + me, 'torch' in sys.modules)\nsaid('parent-' + me, os.getppid())\n"
    warm(PREAMBLE + looks + FOREVER, workers=3)
    pids = await launched.running(workers=3)
    server = server_pid(launched)
    assert (launched.folder / "imported-1-2").read_text() == "True\n"
    assert int((launched.folder / "parent-1-2").read_text()) == launched.pid
    assert "cold_start" not in launched.output()
    kill(launched.pid)
    await wait_until_async(lambda: not any(is_alive(pid) for pid in (*pids, server)), 5, "the end of all")


async def test_recovery_is_warm_and_leaves_nothing(launched: Launched, warm):
    warm(FOREVER, workers=2)
    pids = await launched.running(workers=2)
    kill(pids[0])
    told = await launched.rendezvous.until("READY", 1)
    assert {e.rank: e.signal for e in told.exits} == {0: signal.SIGKILL, 1: signal.SIGTERM}
    launched.rendezvous.want_run(2, 2)
    await launched.rendezvous.until("RUNNING", 2)
    await launched.pids(2, 2)
    assert "cold_start" not in launched.output() and is_alive(server_pid(launched))
    launched.rendezvous.want_exit(0)
    assert await launched.exit_code() == 0
    assert not is_alive(server_pid(launched))


async def test_a_killed_server_stops_no_worker_and_comes_back(launched: Launched, warm):
    warm(FOREVER, workers=2)
    pids = await launched.running(workers=2)
    first = server_pid(launched)
    kill(first)
    await wait_until_async(lambda: server_pid(launched) != first, 20, "another server")
    assert all(is_alive(pid) for pid in pids)
    kill(pids[0])
    await launched.rendezvous.until("READY", 1)
    launched.rendezvous.want_run(2, 2)
    await launched.pids(2, 2)
    assert "cold_start" not in launched.output()


async def test_a_frozen_server_is_given_up_and_nothing_runs_twice(launched: Launched, warm):
    warm(FOREVER, workers=2)
    pids = await launched.running(workers=2)
    frozen = server_pid(launched)
    stop(frozen)
    kill(pids[0])
    await launched.rendezvous.until("READY", 1)
    launched.rendezvous.want_run(2, 2)
    await launched.rendezvous.until("RUNNING", 2)
    await launched.pids(2, 2)
    assert "STARTED_COLD" in launched.output() and "no answer within 3 s" in launched.output()
    await wait_until_async(lambda: not is_alive(frozen), 5, "the frozen server's end")
    await wait_until_async(lambda: server_pid(launched) != frozen, 20, "another server")


async def test_a_module_that_starts_a_thread_is_named_and_workers_run_all_the_same(launched: Launched, warm):
    (launched.folder / "early.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait).start()"
    )
    warm(FOREVER, "--preload", "early", workers=2)
    await launched.running(workers=2)
    assert "fork_server_unfit" in launched.output() and "after the import of early" in launched.output()
    assert "cold_start" in launched.output()


async def test_an_order_to_stop_is_obeyed_while_imports_go_on(launched: Launched, warm, tmp_path: Path):
    # opening a pipe that nobody writes to blocks, as an import from a slow file system does
    os.mkfifo(launched.folder / "slow")
    (launched.folder / "early.py").write_text(f"open({str(launched.folder / 'slow')!r}).read()")
    warm(FOREVER, "--preload", "early", workers=2)
    await launched.rendezvous.until("READY")
    launched.rendezvous.want_run(1, 2)
    await launched.rendezvous.until("STARTING", 1)
    launched.rendezvous.want_down(1)
    told = await launched.rendezvous.until("READY", 1)
    assert not told.exits and not list(launched.folder.glob("pid-*"))
    (launched.folder / "slow").open("w").close()
    launched.rendezvous.want_run(2, 2)
    await launched.rendezvous.until("RUNNING", 2)
    await launched.pids(2, 2)
    assert "cold_start" not in launched.output()
    assert not list(launched.folder.glob("pid-1-*"))


def test_what_cannot_be_forked_is_refused_where_it_was_asked_for():
    command = [sys.executable, "-m", "resurge_launcher", "run", "--warm", "on", "--no-python", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert "--warm: is on, and a program that is not Python's cannot be forked" in done.stderr
