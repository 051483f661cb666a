"""The example resumes exactly: killed ranks, a fenced generation, no launcher at all."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resurge import environment
from resurge.page import LauncherCells, PageReader
from resurge_libs.testing import wait_until

TRAIN = Path(__file__).parents[2] / "worker_sdk" / "examples" / "digits" / "train.py"
STEPS = 60

pytest.importorskip("torch", reason="the example trains with torch")
pytest.importorskip("sklearn", reason="the example trains on scikit-learn's digits")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Run:
    """All ranks of one run, without a launcher."""

    def __init__(self, checkpoints, ranks, *arguments, output, **more):
        shared = {
            "WORLD_SIZE": ranks,
            "LOCAL_WORLD_SIZE": ranks,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": free_port(),
        }
        self.output = output
        command = [sys.executable, str(TRAIN), "--steps", str(STEPS), "--checkpoint-every", "10", *arguments]
        command += ["--checkpoint-dir", str(checkpoints)]
        variables = {
            **os.environ,
            **{name: str(value) for name, value in shared.items()},
            "OMP_NUM_THREADS": "1",
            **more,
        }
        self.ranks = [
            subprocess.Popen(
                command,
                env={**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=output.open("wb") if rank == 0 else subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
            )
            for rank in range(ranks)
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        for rank in self.ranks:
            rank.kill()
        for rank in self.ranks:
            rank.wait()

    def finish(self):
        codes = [rank.wait(timeout=90) for rank in self.ranks]
        return codes, self.output.read_text()


def fingerprint(text):
    return re.search(r"parameters ([0-9a-f]{64})", text).group(1)


@pytest.mark.timeout(240)
@pytest.mark.slow
def test_ranks_killed_in_the_middle_end_with_the_same_parameters(tmp_path):
    """Four ranks: the number at which other ways to average gradients were seen to differ over a restart."""
    with Run(tmp_path / "a", 4, output=tmp_path / "a.txt") as run:
        codes, undisturbed = run.finish()
    assert codes == [0, 0, 0, 0], undisturbed

    with Run(tmp_path / "b", 4, "--step-seconds", "0.02", output=tmp_path / "b.txt") as run:
        wait_until(lambda: "step 30 " in run.output.read_text(), limit_s=90)
        run.kill()
        interrupted = run.output.read_text()
    assert "accuracy" not in interrupted

    with Run(tmp_path / "b", 4, output=tmp_path / "c.txt") as run:
        codes, resumed = run.finish()
    assert codes == [0, 0, 0, 0], resumed
    start = int(re.search(r"start at step (\d+)", resumed).group(1))
    assert 20 <= start < STEPS, "it went on from a checkpoint"
    assert fingerprint(resumed) == fingerprint(undisturbed)


def page_of(tmp_path, lease_s=3600.0):
    path = tmp_path / "rank-0.page"
    cells = LauncherCells.create(path, generation=7)
    cells.set_lease(time.monotonic_ns() + int(lease_s * 1e9))
    return path, cells


def test_a_fenced_generation_leaves_the_checkpoint_alone(tmp_path):
    path, cells = page_of(tmp_path)
    cells.set_fenced()
    error_file = tmp_path / "error.json"
    told = {environment.PAGE: str(path), environment.GENERATION: "7", environment.ERROR_FILE: str(error_file)}
    with Run(tmp_path / "a", 1, output=tmp_path / "a.txt", **told) as run:
        codes, text = run.finish()
    assert codes == [1]
    assert "GENERATION_FENCED" in text
    assert not (tmp_path / "a" / "checkpoint.pt").exists()
    assert "FenceLost" in error_file.read_text()


def test_what_the_launcher_sees_of_a_whole_run(tmp_path):
    path, _cells = page_of(tmp_path)
    with Run(tmp_path / "a", 1, output=tmp_path / "a.txt", **{environment.PAGE: str(path)}) as run:
        codes, text = run.finish()
    assert codes == [0], text
    view = PageReader(path).read()
    starts = [view.started_ns, view.process_group_ready_ns, view.checkpoint_restored_ns, view.first_commit_ns]
    assert starts == sorted(starts)
    assert starts[0] > 0
    assert (view.checkpoint_restored_step, view.first_commit_step, view.committed_step) == (0, 1, STEPS)
    assert view.closed_ns >= view.commit_ns
    assert view.phase is None
