"""Two ranks of a real framework: one is let go of by its guard, or the job is told to leave."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from resurge_libs.testing.wait import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(420)]
PROGRAM = Path(__file__).parent / "programs" / "stuck_framework.py"
EXAMPLES = Path(__file__).parents[3] / "worker_sdk" / "examples"
pytest.importorskip("torch", reason="the frameworks train with torch")
NEEDED = {"lightning": ("lightning",), "transformers": ("transformers", "accelerate")}


def need(framework: str) -> None:
    for module in NEEDED[framework]:
        pytest.importorskip(module, reason=f"{module} is optional, and not installed here")


@pytest.mark.parametrize("framework", NEEDED)
def test_a_rank_whose_peer_does_not_come_leaves_its_step_at_the_deadline(framework, tmp_path):
    need(framework)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(PROGRAM), framework, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.search(r"left after ([0-9.]+) s, told why: True", done.stdout)
    assert found, done.stdout
    assert 1.9 < float(found[1]) < 6.0, "the deadline is 2 s; the rest is a busy machine's"


@pytest.mark.parametrize(
    ("framework", "example", "digits"),
    [("lightning", "lightning_fit", 4), ("transformers", "transformers_trainer", 3)],
)
def test_told_to_leave_both_ranks_save_at_one_step_and_the_job_is_preempted(framework, example, digits, tmp_path):
    """A late checkpoint: a launcher that has not looked yet whether its ranks ask passes the signal on instead."""
    need(framework)
    folder = tmp_path / "out"
    with tempfile.TemporaryDirectory(prefix="resurge-") as run_dir:
        command = [sys.executable, "-m", "resurge_launcher", "run", "--standalone", "--nproc-per-node", "2"]
        command += ["--rdzv-id", example, "--state-dir", str(tmp_path / "state"), "--run-dir", run_dir]
        command += ["--log-dir", str(tmp_path / "logs"), "--drain-grace", "120"]
        command += [str(EXAMPLES / example / "train.py"), "--folder", str(folder), "--steps", "1000000"]
        with (tmp_path / "told").open("w") as told:
            job = subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT)
        try:
            wait_until(
                lambda: folder.exists() and list(folder.glob("*" + "[0-9]" * digits + "*")), 200, "a late checkpoint"
            )
            job.send_signal(signal.SIGTERM)
            code = job.wait(150)
        finally:
            job.kill()
            job.wait(10)
    words = (tmp_path / "told").read_text()
    assert code == 128 + signal.SIGTERM, words[-3000:]
    stopped = re.search(r"stopped at step ([0-9]+)", words)
    assert stopped, words[-3000:]
    assert saved_at(folder) == int(stopped[1])


def saved_at(folder: Path) -> int:
    """The step of the checkpoint that was saved for leaving."""
    if (folder / "last-stopped.ckpt").exists():
        import torch

        return int(torch.load(folder / "last-stopped.ckpt", weights_only=False)["global_step"])
    newest = max(folder.glob("checkpoint-*"), key=lambda child: int(child.name.removeprefix("checkpoint-")))
    return int(json.loads((newest / "trainer_state.json").read_text())["global_step"])
