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


def ran(*command: str, limit_s: float = 150, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=limit_s, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ran_under_resurge(tmp_path: Path, name: str, *arguments: str, limit_s: float = 150) -> str:
    # a socket's path must be short, and pytest's folders are not
    run_dir = tempfile.mkdtemp(prefix="resurge-")
    try:
        command = ["-m", "resurge_launcher", "run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
        command += ["--rdzv-id", name, "--state-dir", str(tmp_path / "state"), "--run-dir", run_dir]
        command += ["--log-dir", str(tmp_path / "logs"), str(EXAMPLES / name / "train.py"), *arguments]
        return ran(*command, limit_s=limit_s)
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)


def test_the_two_lines_tell_the_launcher_how_far_the_loop_is(tmp_path: Path):
    told = ran_under_resurge(tmp_path, "plain_loop", "--steps", "5")
    assert "rank 0: 5 steps" in told and "rank 1: 5 steps" in told


def test_the_same_script_runs_under_torchrun():
    told = ran("-m", "torch.distributed.run", "--standalone", str(EXAMPLES / "plain_loop" / "train.py"), "--steps", "3")
    assert "rank 0: 3 steps" in told


def test_a_ray_actor_is_freed_from_a_collective_that_its_peer_does_not_come_to():
    pytest.importorskip("ray", reason="Ray is optional, and not installed here")
    told = ran(str(EXAMPLES / "ray_actor" / "train.py"), RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
    assert "together: [3.0, 3.0]" in told
    assert "guards aborted: 1" in told and "rank 0 is free again: True" in told


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    ("name", "modules", "checkpoint"),
    [
        ("lightning_fit", ("lightning",), "last.ckpt"),
        ("transformers_trainer", ("transformers", "accelerate"), "checkpoint-10"),
    ],
)
def test_a_rank_of_a_framework_that_dies_costs_the_steps_since_the_checkpoint(
    tmp_path: Path, name: str, modules: tuple[str, ...], checkpoint: str
):
    for module in modules:
        pytest.importorskip(module, reason=f"{module} is optional, and not installed here")
    folder = tmp_path / "out"
    arguments = ("--folder", str(folder), "--steps", "20", "--die-at", "12")
    told = ran_under_resurge(tmp_path, name, *arguments, limit_s=400)
    assert "completed at step 20" in told
    assert f"begun from {folder / checkpoint}" in told, "the second run went on where the first had saved"
