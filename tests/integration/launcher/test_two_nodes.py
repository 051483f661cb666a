"""Two launchers on one machine and one endpoint: one of them starts the control plane, neither owns it alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_launcher.pages import remove_pages
from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive, kill
from tests.integration.launcher.launching import FOREVER, SAY_PID, end_control_plane


class Pair:
    """Nodes n0 and n1 of one job, one worker each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.run_dirs: list[str] = []
        self._pids: set[int] = set()

    def start(self, node: str, program: str, *flags: str) -> None:
        script = self.folder / "train.py"
        script.write_text(program)
        self.run_dirs.append(tempfile.mkdtemp(prefix="resurge-"))
        command = [sys.executable, "-m", "resurge_launcher", "run", "--rdzv-endpoint", self.endpoint, "--nnodes", "2"]
        command += ["--rdzv-id", "job", "--node-id", node, "--state-dir", str(self.state_dir)]
        command += ["--run-dir", self.run_dirs[-1], *flags, str(script), str(self.folder)]
        with (self.folder / f"{node}.log").open("ab") as output:
            self.nodes[node] = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def pids(self, generation: int) -> list[int]:
        files = [self.folder / f"pid-{generation}-{rank}" for rank in range(2)]
        wait_until(lambda: all(file.exists() for file in files), 40, f"generation {generation}")
        pids = [int(file.read_text()) for file in files]
        self._pids |= set(pids)
        return pids

    def control_pid(self) -> int:
        pid = int(json.loads((self.state_dir / "control.json").read_text())["pid"])
        self._pids.add(pid)
        return pid

    def end(self) -> None:
        living = [process.pid for process in self.nodes.values() if process.poll() is None]
        for pid in (*living, *self._pids):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        for process in self.nodes.values():
            process.wait(10)
        end_control_plane(self.state_dir)
        for run_dir in self.run_dirs:
            remove_pages(Path(run_dir))  # a killed launcher leaves them to its successor
            shutil.rmtree(run_dir, ignore_errors=True)
        for file in (*self.folder.glob("n*.log"), *self.state_dir.glob("*.log")):
            print(f"-- {file.name}\n{file.read_text(errors='replace')}")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    try:
        yield pair
    finally:
        pair.end()


def test_two_nodes_succeed_together(pair: Pair):
    for node in ("n0", "n1"):
        pair.start(node, SAY_PID)
    for process in pair.nodes.values():
        wait_until(lambda process=process: process.poll() is not None, 40, "the end")
    assert [process.returncode for process in pair.nodes.values()] == [0, 0]


@pytest.mark.users_row(2)
@pytest.mark.users_row(3)
def test_the_control_plane_outlives_the_launcher_that_started_it(pair: Pair):
    for node in ("n0", "n1"):
        pair.start(node, FOREVER, "--max-restarts", "3")
    pair.pids(1)
    control = pair.control_pid()
    log = {node: (pair.folder / f"{node}.log").read_text() for node in pair.nodes}
    starter = next(node for node, text in log.items() if "control_plane_started" in text)
    other = next(node for node in pair.nodes if node != starter)
    kill(pair.nodes[starter].pid)
    pair.nodes[starter].wait(10)
    assert is_alive(control)
    pair.start(starter, FOREVER, "--max-restarts", "3")
    assert all(is_alive(pid) for pid in pair.pids(2))
    assert is_alive(control) and pair.nodes[other].poll() is None
    kill(control)
    fresh = wait_until(lambda: _control(pair, control), 20, "a new control plane")
    assert is_alive(fresh) and all(is_alive(pid) for pid in pair.pids(2))


def _control(pair: Pair, other_than: int) -> int:
    try:
        pid = pair.control_pid()
    except (OSError, ValueError):
        return 0
    return pid if pid != other_than and is_alive(pid) else 0
