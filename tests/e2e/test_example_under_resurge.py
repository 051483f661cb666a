"""`resurge run` on the example and on a plain loop with two added lines: a killed rank, the same end."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from resurge_launcher.pages import page_homes
from resurge_libs.testing import wait_until
from tests.demo.ranks import crew

pytest.importorskip("torch", reason="the scripts train with torch")
pytest.importorskip("sklearn", reason="the example trains on scikit-learn's digits")

TRAIN = Path(__file__).parents[2] / "worker_sdk" / "examples" / "digits" / "train.py"
STEPS = 60

PLAIN = """
import os
import torch
import torch.distributed as dist
import resurge.torch

dist.init_process_group("gloo")
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = resurge.torch.wrap(optimizer)
for step in range(10):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    dist.all_reduce(model.weight.grad)
    optimizer.step()
    if step == 4 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
        raise ValueError("once")
print("cycle", os.environ["TORCHELASTIC_RESTART_COUNT"], "done", flush=True)
dist.destroy_process_group()
"""


class Job:
    """One node with two ranks, and everything it leaves in one folder."""

    def __init__(self, folder, run_dir, script, *arguments):
        folder.mkdir()
        self.folder, self.run_dir = folder, run_dir / folder.name
        own = ["--run-dir", str(self.run_dir), "--state-dir", str(folder / "s"), "--log-dir", str(folder / "logs")]
        command = [sys.executable, "-m", "resurge_launcher", "run", "--standalone", "--nproc-per-node", "2", *own]
        command += ["--max-restarts", "2", "--rdzv-id", folder.name, str(script), *arguments]
        with self.log.open("wb") as log:
            self.launcher = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    @property
    def log(self):
        return self.folder / "launcher.log"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.launcher.poll() is None:
            self.launcher.terminate()
            self.launcher.wait(30)

    def crew(self):
        assert self.launcher.poll() is None, self.log.read_text()
        return crew({"n0": self.run_dir})

    def finish(self):
        code = self.launcher.wait(90)
        return code, self.log.read_text()


@pytest.fixture
def run_dir():
    """Sockets need a short path, and pytest's own folders are long."""
    with tempfile.TemporaryDirectory(prefix="rsg-") as folder:
        yield Path(folder)


def digits(folder):
    return ["--steps", str(STEPS), "--checkpoint-every", "10", "--checkpoint-dir", str(folder / "checkpoints")]


def fingerprint(text):
    return re.search(r"parameters ([0-9a-f]{64})", text).group(1)


@pytest.mark.timeout(240)
@pytest.mark.slow
def test_a_killed_rank_costs_time_and_nothing_else(tmp_path, run_dir):
    with Job(tmp_path / "peace", run_dir, TRAIN, *digits(tmp_path / "peace")) as job:
        code, undisturbed = job.finish()
    assert code == 0, undisturbed

    with Job(tmp_path / "fault", run_dir, TRAIN, *digits(tmp_path / "fault"), "--step-seconds", "0.05") as job:
        before = wait_until(lambda: now if (now := job.crew()).trains(2) and now.step >= 25 else None, limit_s=60)
        os.kill(before.ranks[1].pid, signal.SIGKILL)
        code, disturbed = job.finish()
    assert code == 0, disturbed
    assert "start at step 20" in disturbed or "start at step 30" in disturbed, disturbed
    assert fingerprint(disturbed) == fingerprint(undisturbed)
    assert not any(home.exists() for home in page_homes(job.run_dir)), "nothing is left in shared memory"


@pytest.mark.timeout(240)
@pytest.mark.slow
def test_two_added_lines_are_enough_for_a_whole_recovery(tmp_path, run_dir):
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    with Job(tmp_path / "job", run_dir, script) as job:
        code, text = job.finish()
    assert code == 0, text
    assert "ValueError: once" in text
    assert text.count("cycle 1 done") == 2, text
