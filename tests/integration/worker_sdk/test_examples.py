"""The examples of the SDK run as they stand, with the real libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.torch, pytest.mark.timeout(180)]
EXAMPLES = Path(__file__).parents[3] / "worker_sdk" / "examples"
pytest.importorskip("torch", reason="the examples train with torch")


def ran(*command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=150, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_two_lines_tell_the_launcher_how_far_the_loop_is(tmp_path: Path):
    # a socket's path must be short, and pytest's folders are not
    run_dir = tempfile.mkdtemp(prefix="resurge-")
    try:
        command = ["-m", "resurge_launcher", "run", "--standalone", "--nproc-per-node", "2", "--rdzv-id", "plain"]
        command += ["--state-dir", str(tmp_path / "state"), "--run-dir", run_dir, "--log-dir", str(tmp_path / "logs")]
        told = ran(*command, str(EXAMPLES / "plain_loop" / "train.py"), "--steps", "5")
        assert "rank 0: 5 steps" in told and "rank 1: 5 steps" in told
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)


def test_the_same_script_runs_under_torchrun():
    told = ran("-m", "torch.distributed.run", "--standalone", str(EXAMPLES / "plain_loop" / "train.py"), "--steps", "3")
    assert "rank 0: 3 steps" in told


def test_a_ray_actor_is_freed_from_a_collective_that_its_peer_does_not_come_to():
    pytest.importorskip("ray", reason="Ray is optional, and not installed here")
    told = ran(str(EXAMPLES / "ray_actor" / "train.py"), RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
    assert "together: [3.0, 3.0]" in told
    assert "guards aborted: 1" in told and "rank 0 is free again: True" in told
