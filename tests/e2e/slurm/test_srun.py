"""`srun resurge run` in a real Slurm of several slurmd on this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from resurge_api.policy.v1 import policy_pb2, policy_pb2_grpc
from resurge_libs.rpc.retry import call_sync
from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive

ROOT = Path(__file__).parents[3]
LOCKSTEP = ROOT / "tests" / "netns" / "lockstep.py"
CLUSTER = ROOT / "scripts" / "slurm.sh"


def why_not() -> str | None:
    """Why there is no Slurm here; None when one can be started."""
    if os.geteuid() != 0:
        return "a cluster of one's own needs root"
    missing = [program for program in ("slurmctld", "slurmd", "srun") if shutil.which(program) is None]
    return f"not installed (make slurm installs them): {', '.join(missing)}" if missing else None


REASON = why_not()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(150),
    pytest.mark.skipif(REASON is not None, reason=f"no Slurm here: {REASON}"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which srun finds a cluster of two nodes."""
    environment = os.environ | {"SLURM_SIM_DIR": str(tmp_path_factory.mktemp("slurm"))}
    try:
        up = subprocess.run(
            [CLUSTER, "up", "2"], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert up.returncode == 0, up.stderr
        yield environment | {"SLURM_CONF": up.stdout.strip().rpartition("=")[2]}
    finally:
        subprocess.run([CLUSTER, "down"], env=environment, capture_output=True, timeout=60, check=True)


class Step:
    """One `srun resurge run` on two nodes with a rank each."""

    def __init__(self, folder: Path, cluster: dict[str, str], *words: str, kill_on_bad_exit: int = 0) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            endpoint = self.endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
        command = ["srun", "-N2", "--ntasks-per-node=1", f"--kill-on-bad-exit={kill_on_bad_exit}"]
        command += [sys.executable, "-m", "resurge_launcher", "run", "--nnodes", "2", "--warm", "off"]
        command += ["--rdzv-endpoint", endpoint]
        command += ["--state-dir", str(folder / "state"), "--log-dir", str(folder / "logs"), *words]
        self.log = folder / "srun.log"
        with self.log.open("wb") as output:
            self.srun = subprocess.Popen(command, env=cluster, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def pid(self, generation: int, rank: int) -> int:
        """The process of a rank, once it has met the others."""
        file = self.folder / f"pid-{generation}-{rank}"
        text = wait_until(lambda: file.exists() and file.read_text(), 60, f"rank {rank} of generation {generation}")
        return int(text)

    def trains(self) -> bool:
        """Whether each rank has written that it has committed a step."""
        return all((self.folder / f"commits-{rank}").exists() for rank in range(2))

    def ends(self) -> list[tuple[str, int, str]]:
        """Node, exit code and cause in each launcher's last line."""
        found = re.findall(r"launcher_exits .*?node=(\S+) .*?exit_code=(\d+) cause=(\w+)", self.log.read_text())
        return sorted((node, int(code), cause) for node, code, cause in found)

    def end(self) -> None:
        """Whatever is left of it; srun ends its tasks."""
        if self.srun.poll() is None:
            self.srun.terminate()
            self.srun.wait(30)
        print(self.log.read_text(errors="replace"))


def test_a_killed_rank_under_srun_costs_no_requeue(cluster: dict[str, str], tmp_path: Path):
    step = Step(tmp_path, cluster, "--max-restarts", "2", str(LOCKSTEP), str(tmp_path), "0.05")
    try:
        before = [step.pid(1, rank) for rank in range(2)]
        wait_until(lambda: (tmp_path / "checkpoint").exists(), 30, "a checkpoint")
        os.kill(before[1], signal.SIGKILL)
        after = [step.pid(2, rank) for rank in range(2)]
        assert not any(map(is_alive, before)) and all(map(is_alive, after))
        (tmp_path / "stop").touch()
        assert step.srun.wait(60) == 0
        log = step.log.read_text()
        assert "node=node0-0" in log and "node=node1-1" in log, "nodes are not named by Slurm"
    finally:
        step.end()


def test_a_job_without_restarts_left_fails_the_step_with_its_own_code(cluster: dict[str, str], tmp_path: Path):
    script = tmp_path / "fails.py"
    script.write_text("import os, sys\nsys.exit(7 if os.environ['RANK'] == '1' else 0)\n")
    step = Step(tmp_path, cluster, str(script))
    try:
        assert step.srun.wait(90) == 1
        verdict = [sys.executable, "-m", "resurge_launcher", "verdict", "--exit-code", "--state-dir"]
        state = str(tmp_path / "state")
        assert subprocess.run([*verdict, state], capture_output=True, timeout=30, check=True).stdout == b"1\n"
    finally:
        step.end()


# --- endings: srun reports the largest code, and may kill the others at the first bad one ---

PROGRAM = """
import os, sys, time
import resurge
folder, rank = sys.argv[1], os.environ["RANK"]
with resurge.session(beat_limit=60, quick_exit=True) as session:
    step = 0
    while True:
        time.sleep(0.01)
        step += 1
        session.step_committed(step)
        open(os.path.join(folder, f"commits-{rank}"), "w").close()
        if rank == "1" and os.path.exists(os.path.join(folder, "crash")):
            sys.exit(7)
        if rank == "0" and os.path.exists(os.path.join(folder, "shutdown")):
            session.stop_restarting("the loss is not a number")
            raise RuntimeError("the loss is not a number")
"""


def spend_the_budget(step: Step) -> None:
    (step.folder / "crash").touch()


def ask_to_stop(step: Step) -> None:
    (step.folder / "shutdown").touch()


def stop_by_attribution(step: Step) -> None:
    said = policy_pb2.Recommendation(kind=policy_pb2.RECOMMENDATION_KIND_STOP, sentence="the same assert again")
    with grpc.insecure_channel(step.endpoint) as channel:
        method = policy_pb2_grpc.RestartPolicyServiceStub(channel).ReportRecommendation
        request = policy_pb2.ReportRecommendationRequest(request_id=str(uuid.uuid4()), recommendation=said)
        call_sync(method, request, 10.0)


ENDINGS = {
    "budget": (spend_the_budget, 1),
    "attribution_stop": (stop_by_attribution, 93),
    "workload_shutdown": (ask_to_stop, 0),
}


@pytest.mark.parametrize(("cause", "kill_on_bad_exit"), [*((cause, 1) for cause in ENDINGS), ("attribution_stop", 0)])
def test_every_task_ends_with_the_jobs_code_whether_or_not_slurm_kills_at_the_first_bad_one(
    cluster: dict[str, str], tmp_path: Path, cause: str, kill_on_bad_exit: int
):
    act: Callable[[Step], None]
    act, code = ENDINGS[cause]
    (tmp_path / "train.py").write_text(PROGRAM)
    words = ("--ft-attribution-stop-action", "no-restart", str(tmp_path / "train.py"), str(tmp_path))
    step = Step(tmp_path, cluster, *words, kill_on_bad_exit=kill_on_bad_exit)
    try:
        wait_until(step.trains, 60, "both ranks")
        act(step)
        assert step.srun.wait(60) == code
        assert step.ends() == [("node0-0", code, cause), ("node1-1", code, cause)]
    finally:
        step.end()
