"""A real run with one crash, read afterwards by every command: the record, not the process, tells the story."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = """
import os, pathlib, signal, sys
crashed = pathlib.Path(sys.argv[1])
if os.environ["RANK"] == "1" and not crashed.exists():
    crashed.touch()
    os.kill(os.getpid(), signal.SIGSEGV)
if not crashed.exists() or os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    signal.pause()  # the healthy peer waits to be torn down
"""


def resurge(*words: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RESURGE_", "PET_", "SLURM"))}
    return subprocess.run(
        [sys.executable, "-m", "resurge_launcher", *words],
        env=environ, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """State directory of a job that recovered once and succeeded."""
    folder = tmp_path_factory.mktemp("job")
    run_dir = Path(tempfile.mkdtemp(prefix="rs-"))  # short, for sockets
    (folder / "train.py").write_text(SCRIPT)
    words = ["--nproc-per-node", "2", "--max-restarts", "1", "--job-id", "read-me", "--lease-ttl", "2"]
    where = ["--state-dir", str(folder / "state"), "--run-dir", str(run_dir)]
    done = resurge("run", *words, *where, str(folder / "train.py"), str(folder / "crashed"))
    shutil.rmtree(run_dir, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    return str(folder / "state")


@pytest.mark.users_row(38)
def test_recoveries_tell_what_happened_and_explain_all_of_the_time(ended):
    rows = json.loads(resurge("recoveries", "--state-dir", ended, "--json").stdout)
    assert [(row["reason"], row["verdict"], row["generation_from"]) for row in rows] == [
        ("WORKER_SIGNAL", "restart", 1)
    ]
    assert rows[0]["culprit"].endswith("rank 1")
    assert rows[0]["outcome"] == "started_only"
    assert rows[0]["coverage"] >= 0.95
    assert {"detect", "decide", "teardown", "rendezvous", "spawn"} <= set(rows[0]["phases_s"])
    assert "1 recovery" in resurge("recoveries", "--state-dir", ended).stdout


def test_status_verdict_and_explain_tell_the_end(ended):
    assert "SUCCEEDED" in resurge("status", "--state-dir", ended).stdout
    assert resurge("verdict", "--exit-code", "--state-dir", ended).stdout == "0\n"
    told = resurge("explain", "--state-dir", ended).stdout
    assert "=> restart" in told
    assert "0 of 1 restarts spent before it" in told
