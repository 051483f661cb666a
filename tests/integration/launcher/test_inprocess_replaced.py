"""Real ranks over gloo: one is killed, a fresh warm process takes its place in the next iteration, nobody else ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive
from tests.integration.launcher.launching import PREAMBLE
from tests.integration.launcher.test_two_nodes import Pair

pytest.importorskip("torch", reason="the ranks reduce by torch")
pytestmark = [pytest.mark.integration, pytest.mark.torch, pytest.mark.timeout(240)]
START_S = 120.0
PROGRAM = (
    PREAMBLE
    + """
import torch, torch.distributed as dist
import resurge
from resurge import inprocess
torch.set_num_threads(1)
s = resurge.session()
first = int(os.environ["RANK"])
said(f'pid-{first}-{os.getpid()}', os.getpid())
model = torch.nn.Linear(4, 4)
saved = os.path.join(folder, 'saved.pt')

@inprocess.Wrapper(min_world_size=MIN_WORLD, replace_limit_s=REPLACE, limit_s=60)
def train(call):
    call.init_process_group("gloo")
    if os.path.exists(saved):
        model.load_state_dict(torch.load(saved))
    else:
        for each in model.parameters():
            dist.broadcast(each.data, 0)
    while True:
        s.beat()
        for each in model.parameters():
            each.data += 0.01
            dist.all_reduce(each.data)
            each.data /= call.world_size
        if call.rank == 0:
            with call.atomic():
                torch.save(model.state_dict(), saved + '.part')
                os.rename(saved + '.part', saved)
        name = f'sum-{call.iteration}-{first}'
        if not os.path.exists(os.path.join(folder, name)):
            now = time.monotonic()
            print(f'rank {first} is {os.getpid()}', flush=True)
            said(name, f'{now} {call.rank}/{call.world_size} {os.getpid()}')
        time.sleep(0.02)
        ends = torch.tensor([1.0 if os.path.exists(os.path.join(folder, 'end')) else 0.0])
        dist.all_reduce(ends)
        if ends.item():
            break
    values = [round(x.item(), 6) for each in model.parameters() for x in each.flatten()]
    said(f'parameters-{first}', ' '.join(map(str, values)))
    dist.destroy_process_group()
    return call.iteration
said(f'end-{first}', train())
"""
)


class Job(Pair):
    """Nodes of one job, with two ranks each; or one node."""

    def begin(self, nodes: int, ranks: int, *flags: str, min_world: int = 1, replace_s: float = 30.0) -> list[int]:
        """Start all; the ranks' pids when all have reduced."""
        self.ranks = ranks
        program = PROGRAM.replace("MIN_WORLD", str(min_world)).replace("REPLACE", str(replace_s))
        each = [
            "--nproc-per-node",
            str(ranks // nodes),
            "--ft-rank-heartbeat-timeout",
            "none",
            "--max-restarts",
            "3",
            *flags,
        ]
        for number in range(nodes):
            self.start(f"n{number}", program, *(each if nodes > 1 else ["--nnodes", "1", *each]))
        if "off" not in flags:
            self.is_warm()
        return self.reduced(0)

    def is_warm(self) -> None:
        """Wait for the fork servers; a machine that is too busy for them starts workers without, as it should."""
        wait_until(lambda: self.log().count("fork_server_ready") == len(self.nodes), START_S, "the fork servers")
        if "rank 0 would serve their store" in self.log():
            pytest.skip("the fork servers were ready too late for the first start: the machine is too busy")

    def log(self) -> str:
        """Of all launchers."""
        return "".join((self.folder / f"{node}.log").read_text() for node in self.nodes)

    def sums(self, iteration: int, ranks: list[int] | None = None) -> list[list[str]]:
        """What these ranks said of their first reduction in the iteration."""
        of = range(self.ranks) if ranks is None else ranks
        files = [self.folder / f"sum-{iteration}-{rank}" for rank in of]
        wait_until(lambda: all(file.exists() for file in files), START_S, f"the sums of iteration {iteration}")
        return [file.read_text().split() for file in files]

    def reduced(self, iteration: int) -> list[int]:
        """The pids of all ranks, of which each has its first rank."""
        rows = self.sums(iteration)
        assert [row[1] for row in rows] == [f"{rank}/{self.ranks}" for rank in range(self.ranks)]
        pids = [int(row[2]) for row in rows]
        self._pids |= set(pids)
        return pids

    def over(self) -> None:
        """Let the function end everywhere, and with equal parameters."""
        (self.folder / "end").touch()
        assert [process.wait(60) for process in self.nodes.values()] == [0] * len(self.nodes)
        texts = {(self.folder / f"parameters-{rank}").read_text() for rank in range(self.ranks)}
        assert len(texts) == 1, "parameters are equal everywhere"

    def explained(self) -> str:
        """What `resurge explain` says of the job."""
        command = [sys.executable, "-m", "resurge_launcher", "explain", "--state-dir", str(self.state_dir)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    try:
        yield job
    finally:
        job.end()


@pytest.mark.parametrize(("nodes", "ranks"), [(1, 4), (2, 4)])
def test_a_fresh_process_takes_the_place_of_a_rank_that_is_killed(job: Job, nodes: int, ranks: int):
    before = job.begin(nodes, ranks, min_world=ranks)
    at = time.monotonic()
    os.kill(before[1], signal.SIGKILL)
    after = job.reduced(1)
    took_s = max(float(row[0]) for row in job.sums(1)) - at
    print(f"fault to the last rank's next all-reduce, {ranks} ranks on {nodes} nodes: {took_s:.3f} s")
    assert [pid for pid in after if pid not in before] == [after[1]], "all others are the processes of before"
    assert all(is_alive(pid) for pid in after) and not is_alive(before[1])
    job.over()
    wait_until(lambda: f"pid {after[1]} took part in iteration 1" in job.explained(), 30, "what resurge explain says")


def test_rank_0_and_one_elsewhere_are_replaced_one_after_the_other(job: Job):
    before = job.begin(2, 4)
    os.kill(before[0], signal.SIGKILL)
    middle = job.reduced(1)
    os.kill(middle[3], signal.SIGKILL)
    after = job.reduced(2)
    assert after[1:3] == before[1:3] and after[0] == middle[0] != before[0] and after[3] != before[3]
    job.over()


@pytest.mark.parametrize("has_prefix", [False, True])
def test_two_of_one_node_that_are_killed_together_both_have_their_log_files(job: Job, has_prefix: bool):
    flags = ["--log-dir", str(job.folder / "logs")]
    flags += ["--applog-prefix", str(job.folder / "app.log")] if has_prefix else []
    before = job.begin(1, 4, *flags)
    folders = [file.parent for rank in (1, 2) for file in (job.folder / "logs").rglob(f"{rank}/stdout.log")]
    assert len(folders) == 2
    for folder in folders:
        (folder / "error.json").write_text("the error of the process before")
    for rank in (1, 2):
        os.kill(before[rank], signal.SIGKILL)
    # on a busy machine the end of one may be found only after the other's: the next iteration is the one of all four
    last = wait_until(lambda: _iteration_of_all(job), START_S, "an iteration of all four")
    after = job.reduced(last)
    assert [after[0], after[3]] == [before[0], before[3]] and not {after[1], after[2]} & set(before)
    job.over()
    assert not any((folder / "error.json").exists() for folder in folders)
    files = [job.folder / "app_cycle0.log"] * 2 if has_prefix else [folder / "stdout.log" for folder in folders]
    for rank, file in zip((1, 2), files, strict=True):
        text = file.read_text()
        assert f"rank {rank} is {before[rank]}" in text and f"rank {rank} is {after[rank]}" in text
    assert "record_not_written" not in job.log() and "spool_not_written" not in job.log()


def _iteration_of_all(job: Job) -> int:
    """The first iteration after the first one in which all ranks have reduced; 0 where there is none yet."""
    of = [{int(file.name.split("-")[1]) for file in job.folder.glob(f"sum-*-{rank}")} for rank in range(job.ranks)]
    return min(set.intersection(*of) - {0}, default=0)


@pytest.mark.parametrize("why", ["cold", "off", "no budget"])
def test_the_others_go_on_without_it_where_it_is_not_replaced(job: Job, why: str):
    flags = {"cold": ["--warm", "off"], "off": [], "no budget": ["--max-restarts", "0"]}[why]
    before = job.begin(1, 3, *flags, replace_s=0.0 if why == "off" else 30.0)
    os.kill(before[2], signal.SIGKILL)
    rows = job.sums(1, [0, 1])
    assert [row[1:] for row in rows] == [["0/2", str(before[0])], ["1/2", str(before[1])]]
    job.ranks = 2
    job.over()
