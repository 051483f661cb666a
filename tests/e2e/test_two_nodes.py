"""The example on two nodes: what a newcomer tries second."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until
from tests.endurance.job import Shape, SmallJob

pytest.importorskip("torch", reason="the example trains with torch")
pytest.importorskip("sklearn", reason="the example trains on scikit-learn's digits")

TRAIN = Path(__file__).parents[2] / "worker_sdk" / "examples" / "digits" / "train.py"
SCRIPT = """
import os, runpy, sys
sys.argv = [{train!r}, "--steps", "40", "--checkpoint-every", "10", "--step-seconds", "0.05",
            "--checkpoint-dir", os.path.join(sys.argv[1], "checkpoints")]
runpy.run_path({train!r}, run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.users_row(44)
def test_the_example_trains_on_two_nodes_through_a_fault(tmp_path: Path):
    script = tmp_path / "two_nodes.py"
    script.write_text(SCRIPT.format(train=str(TRAIN)))
    job = SmallJob(tmp_path / "job", f"two-nodes-{os.getpid()}", Shape(workers=1), script)
    try:
        job.start_all()
        crew = job.training(limit_s=90)
        wait_until(lambda: job.crew().step >= 12, 60, "a checkpoint")
        os.kill(crew.ranks[1].pid, signal.SIGKILL)
        codes = [job.processes[name].wait(120) for name in job.shape.launchers]
        said = "".join((job.folder / f"{name}.log").read_text() for name in job.shape.launchers)
    finally:
        print(job.logs(40))
        assert job.end() == []
    assert codes == [0, 0]
    assert re.search(r"parameters [0-9a-f]{64}", said), "it has trained to its end"
