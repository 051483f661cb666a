"""A user runs an ended job again: it is a new attempt and trains again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def run_dir():
    path = Path(tempfile.mkdtemp(prefix="rs-"))  # short, for sockets
    yield path
    shutil.rmtree(path, ignore_errors=True)


def resurge(*words: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RESURGE_", "PET_", "SLURM"))}
    return subprocess.run(
        [sys.executable, "-m", "resurge_launcher", *words],
        env=environ, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip


def test_a_rerun_of_an_ended_job_trains_again(tmp_path, run_dir):
    script = tmp_path / "train.py"
    script.write_text("import sys\nwith open(sys.argv[1], 'a') as file: file.write('trained\\n')\n")
    proof, state = tmp_path / "proof", str(tmp_path / "state")
    limits = ["--lease-ttl", "1", "--fault-grace", "0.2"]
    where = ["--job-id", "again", "--state-dir", state, "--run-dir", str(run_dir)]
    for attempt in (1, 2):
        done = resurge("run", *where, *limits, str(script), str(proof))
        assert done.returncode == 0, done.stderr
        assert proof.read_text() == "trained\n" * attempt
        job = json.loads(resurge("status", "--state-dir", state, "--json").stdout)
        assert job["token"]["attempt"] == str(attempt)
