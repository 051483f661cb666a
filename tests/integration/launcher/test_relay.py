"""Two launchers behind a relay that is killed: their workers go on, and they come back around it."""

from __future__ import annotations

import os
import re
import signal

import pytest

from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive
from tests.fakes.host import HostProcess
from tests.integration.launcher.launching import FOREVER
from tests.integration.launcher.test_two_nodes import Pair

FLAGS = ("--lease-ttl", "20", "--max-restarts", "3")


@pytest.fixture
def pair(tmp_path):
    pair = Pair(tmp_path)
    try:
        yield pair
    finally:
        pair.end()


def test_a_killed_relay_stops_no_worker_and_its_launchers_go_around_it(pair, tmp_path):
    with HostProcess(tmp_path / "relay", targets="relay", more=("--root", pair.endpoint)) as relay:
        for node in ("n0", "n1"):
            pair.start(node, FOREVER, "--relay", relay.endpoint, *FLAGS, "--warm", "off")
        first = pair.pids(1)
        log = pair.folder / "state" / "control-plane.log"
        wait_until(lambda: "relay_attached" in log.read_text(), 20, "the relay in the root's log")
        before = log.read_text().count("launcher_attached")
        relay.kill()
    # a launcher that came before the relay had its root went to the root at once
    behind = wait_until(lambda: re.search(r"relay_detached .*launchers=(\d+)", log.read_text()), 20, "the relay's end")
    due = before + int(behind.group(1))
    wait_until(lambda: log.read_text().count("launcher_attached") >= due, 40, "the launchers behind it, at the root")
    assert all(is_alive(pid) for pid in first), "the death of a relay is no fault"
    os.kill(first[0], signal.SIGKILL)
    assert set(pair.pids(2)).isdisjoint(first), "what fails now is recovered as ever"
