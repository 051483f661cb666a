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
    with HostProcess(tmp_path / "root", listen=pair.endpoint) as root:
        with HostProcess(tmp_path / "relay", targets="relay", more=("--root", pair.endpoint)) as relay:
            # a launcher that finds the relay without its root goes around it at once: then nothing would be shown
            wait_until(lambda: root.events("relay_attached"), 20, "the relay at the root")
            for node in ("n0", "n1"):
                pair.start(node, FOREVER, "--relay", relay.endpoint, *FLAGS, "--warm", "off")
            first = pair.pids(1)
            wait_until(lambda: len(root.events("launcher_attached")) == 2, 20, "both launchers")
            relay.kill()
        wait_until(lambda: len(root.events("launcher_attached")) >= 4, 40, "both launchers at the root itself")
        for node in ("n0", "n1"):  # the root may hear of a new stream before it hears of the relay's end
            log = (pair.folder / f"{node}.log").read_text()
            assert re.search(rf"control_lost .*{re.escape(relay.endpoint)}", log), f"{node} was behind the relay"
        assert all(is_alive(pid) for pid in first), "the death of a relay is no fault"
        os.kill(first[0], signal.SIGKILL)
        assert set(pair.pids(2)).isdisjoint(first), "what fails now is recovered as ever"
