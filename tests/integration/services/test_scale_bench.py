"""The scale bench in its short form: a hundred launchers with a connection each, direct and behind two relays."""

from __future__ import annotations

import json
import subprocess
import sys


def test_a_hundred_launchers_lose_no_join_directly_and_behind_relays(tmp_path):
    command = [sys.executable, "-m", "tests.bench.scale", "--sizes", "100", "--relays", "100/2", "--faults", "2"]
    command += ["--idle-s", "1", "--settle-s", "0.5", "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["lost_joins"] == 0
    assert figures["connections"] == {"100": 100, "100 by 2 relays": 100}
    assert set(figures["fanout_ms_p99"]) == set(figures["formed_s"]) == {"100", "100 by 2 relays"}
    assert figures["rss_mib"]["100"] < 150
