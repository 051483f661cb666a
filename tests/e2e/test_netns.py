"""The short form of `make netns`: a pulled cable, and packets lost one way, with network namespaces as nodes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.netns import namespaces

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_a_cut_off_node_is_replaced_in_time():
    reason = namespaces.why_not() or namespaces.why_no_loss()
    if reason:
        pytest.skip(f"no network namespaces as nodes: {reason}")
    command = [sys.executable, "-m", "tests.netns", "--short"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=140, check=False)
    told = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert told["cells"] == 2 and told["failed"] == 0, told
    assert told["figures"]["link_down"]["node_lost_s"] <= 8
