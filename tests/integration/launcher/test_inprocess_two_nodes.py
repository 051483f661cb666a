"""Ranks of two launchers that restart in place together, over gloo: none of the others is started anew."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive
from tests.integration.launcher.launching import PREAMBLE
from tests.integration.launcher.test_two_nodes import Pair

pytest.importorskip("torch", reason="the ranks reduce by torch")
pytestmark = [pytest.mark.integration, pytest.mark.torch, pytest.mark.timeout(240)]
WORLD = 4
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
said('pid-' + me, os.getpid())

@inprocess.Wrapper(limit_s=LIMIT)
def train(call):
    call.init_process_group("gloo")
    while True:
        s.beat()
        value = torch.ones(1) * (call.initial_rank + 1)
        dist.all_reduce(value)
        name = f'sum-{call.iteration}-{first}'
        if not os.path.exists(os.path.join(folder, name)):
            said(name, f'{int(value.item())} {call.rank}/{call.world_size} {os.getpid()}')
        time.sleep(0.02)
        ends = torch.tensor([1.0 if os.path.exists(os.path.join(folder, 'end')) else 0.0])
        dist.all_reduce(ends)
        if ends.item():
            break
    dist.destroy_process_group()
    return call.iteration
said(f'end-{first}', train())
"""
)


class Job(Pair):
    """Nodes n0 and n1, two ranks each."""

    def begin(self, limit_s: float, *flags: str) -> list[int]:
        """Start both; the ranks' pids when all have reduced."""
        for node in ("n0", "n1"):
            self.start(node, PROGRAM.replace("LIMIT", str(limit_s)), "--nproc-per-node", "2", *flags)
        files = [self.folder / f"pid-1-{rank}" for rank in range(WORLD)]
        wait_until(lambda: all(file.exists() for file in files), START_S, "all ranks")
        pids = [int(file.read_text()) for file in files]
        self._pids |= set(pids)
        if "rank 0 would serve their store" in self.log():
            pytest.skip("the fork servers were ready too late for the first start: the machine is too busy")
        assert self.sums(0, range(WORLD)) == [f"10 {rank}/4 {pids[rank]}" for rank in range(WORLD)]
        return pids

    def sums(self, iteration: int, ranks: range | list[int], limit_s: float = START_S) -> list[str]:
        """What these ranks reduced first in the iteration."""
        files = [self.folder / f"sum-{iteration}-{rank}" for rank in ranks]
        wait_until(lambda: all(file.exists() for file in files), limit_s, f"the sums of iteration {iteration}")
        return [file.read_text().strip() for file in files]

    def over(self) -> list[int]:
        """Let the function end everywhere; the launchers' exit codes."""
        (self.folder / "end").touch()
        return [process.wait(60) for process in self.nodes.values()]

    def log(self) -> str:
        """Of both launchers."""
        return "".join((self.folder / f"{node}.log").read_text() for node in self.nodes)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    try:
        yield job
    finally:
        job.end()


def test_the_others_go_on_in_place_on_both_nodes_when_one_is_killed_on_each(job: Job):
    pids = job.begin(60.0, "--ft-rank-heartbeat-timeout", "none")
    os.kill(pids[0], signal.SIGKILL)
    assert job.sums(1, [1, 2, 3]) == [f"9 {rank - 1}/3 {pids[rank]}" for rank in (1, 2, 3)]
    os.kill(pids[3], signal.SIGKILL)
    assert job.sums(2, [1, 2]) == [f"5 {rank - 1}/2 {pids[rank]}" for rank in (1, 2)]
    assert job.over() == [0, 0]
    assert not (job.folder / "pid-2-0").exists(), "no generation was started anew"


def test_the_others_go_on_in_place_when_rank_0_is_stopped(job: Job):
    pids = job.begin(20.0, "--ft-rank-heartbeat-timeout", "3")
    os.kill(pids[0], signal.SIGSTOP)
    assert job.sums(1, [1, 2, 3]) == [f"9 {rank - 1}/3 {pids[rank]}" for rank in (1, 2, 3)]
    wait_until(lambda: not is_alive(pids[0]), 20, "the end of the stopped rank")
    assert job.over() == [0, 0]
    assert "is stopped (SIGSTOP" in job.log()
    assert not (job.folder / "pid-2-0").exists(), "no generation was started anew"
