"""`resurge report` of a real job: every second in one account, and the replayed steps are called lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# 40 steps of 30 ms; the one crash comes after step 25, and the checkpoint to go on from holds step 15
SCRIPT = """
import os, pathlib, signal, sys, time
import resurge

crashed = pathlib.Path(sys.argv[1])
with resurge.session(beat_limit=60) as session:
    session.process_group_ready()
    first = 15 if crashed.exists() else 0
    session.checkpoint_restored(first)
    for step in range(first + 1, 41):
        time.sleep(0.03)
        session.step_committed(step)
        if step == 25 and first == 0:
            if session.rank == 1:
                crashed.touch()
                os.kill(os.getpid(), signal.SIGSEGV)
            signal.pause()
"""


def test_a_report_accounts_for_every_second_and_names_the_lost_steps(tmp_path):
    run_dir = Path(tempfile.mkdtemp(prefix="rs-"))  # short, for sockets
    (tmp_path / "train.py").write_text(SCRIPT)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RESURGE_", "PET_", "SLURM"))}

    def resurge(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "resurge_launcher", *words, "--state-dir", str(tmp_path / "state")]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)

    words = ["run", "--nproc-per-node", "2", "--max-restarts", "1", "--run-dir", str(run_dir), "--warm", "off"]
    train = ["--", str(tmp_path / "train.py"), str(tmp_path / "crashed")]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "resurge_launcher", *words, "--state-dir", str(tmp_path / "state"), *train],
        env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    took_s = time.monotonic() - began
    shutil.rmtree(run_dir, ignore_errors=True)
    assert done.returncode == 0, done.stderr

    told = json.loads(resurge("report", "--json").stdout)
    accounts_s = told["accounts_s"]
    assert abs(sum(accounts_s.values()) - told["wall_s"]) <= 0.001 * told["wall_s"]
    assert 0 < told["wall_s"] <= took_s
    assert told["lost_steps"] == 10
    assert accounts_s["lost"] >= 10 * 0.03 * 0.9, "ten steps of 30 ms were done twice"
    assert accounts_s["productive"] >= 40 * 0.03 * 0.9
    assert accounts_s["start"] > 0 and accounts_s["teardown"] > 0
    assert (told["unmeasured_s"], told["doing"]) == (0, "ended")
    assert "10 steps" in resurge("report").stdout
