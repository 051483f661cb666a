"""A launcher that is started without some of its standard streams, as a daemon's child may be, ends as any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_rerun import run_dir as run_dir

SCRIPT = """
import sys
print("said on both", flush=True)
print("said on both", file=sys.stderr, flush=True)
open(sys.argv[1], "a").write("done\\n")
"""


@pytest.mark.parametrize("closed", ["2>&-", "1>&-", "0<&- 1>&- 2>&-"])
def test_the_job_ends_with_its_own_code(tmp_path: Path, run_dir: Path, closed: str):
    script, proof, state = tmp_path / "train.py", tmp_path / "proof", tmp_path / "state"
    script.write_text(SCRIPT)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RESURGE_", "PET_", "SLURM"))}
    where = ["--job-id", "closed", "--state-dir", str(state), "--run-dir", str(run_dir), "--warm", "off"]
    command = [sys.executable, "-m", "resurge_launcher", "run", *where, str(script), str(proof)]
    shell = ["bash", "-c", f'exec "$@" {closed}', "bash", *command]
    done = subprocess.run(shell, env=environ, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert proof.read_text() == "done\n"
    told = subprocess.run(
        [sys.executable, "-m", "resurge_launcher", "verdict", "--state-dir", str(state), "--exit-code"],
        env=environ, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert told.stdout.split() == ["0"], told.stdout + told.stderr
