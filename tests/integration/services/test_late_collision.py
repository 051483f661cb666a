"""A port that is taken between the look at it and its use: exit 2 with the reason, whatever the host runs."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

BLIND = """
import sys
from resurge_libs.hosting import run
run.check_free = lambda _listen: None  # as if the port had been free a moment ago
from resurge_host.targets import TARGETS
from resurge_libs.hosting.command import host_command
host_command("resurge-host", TARGETS, "")()
"""


@pytest.mark.parametrize("targets", ["all", "restart_policy", "log_aggregator", "relay", "log_leaf"])
def test_a_port_that_is_taken_at_the_last_moment_is_wrong_input(tmp_path: Path, targets: str):
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        listen = f"127.0.0.1:{squatter.getsockname()[1]}"
        words = ["--listen", listen, "--targets", targets, "--state-dir", str(tmp_path), "--job-id", "job"]
        if targets == "relay":
            words += ["--root", "127.0.0.1:1"]
        if targets == "log_leaf":
            words += ["--log-root", "127.0.0.1:1"]
        ended = subprocess.run(
            [sys.executable, "-c", BLIND, *words], capture_output=True, text=True, timeout=60, check=False
        )
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False), ended.stderr
    assert "--listen" in ended.stderr
