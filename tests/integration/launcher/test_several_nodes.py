"""Jobs of several launchers as real processes: who ends, who becomes which rank, and what everybody is told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive
from tests.endurance.job import Shape, SmallJob

TELL = """
import json, os, sys, threading
folder = sys.argv[1]
rank, generation = os.environ["RANK"], os.environ["RESURGE_GENERATION"]
def say(name, value):
    path = os.path.join(folder, name)
    with open(path + ".part", "w") as file:
        json.dump(value, file)
    os.rename(path + ".part", path)
say(f"env-{generation}-{rank}", dict(os.environ, PID=str(os.getpid())))
"""
FOREVER = TELL + "threading.Event().wait()\n"
TWO = Shape(workers=1, max_restarts=3)
END_LIMIT_S = 30.0


class Told(SmallJob):
    """A job whose workers tell their environment."""

    def told(self, generation: int) -> list[dict[str, str]]:
        """What each rank of a generation was told, by rank."""
        files = [self.folder / f"env-{generation}-{rank}" for rank in range(self.shape.world)]
        wait_until(lambda: all(file.exists() for file in files), 40, f"workers of generation {generation}")
        found = [json.loads(file.read_text()) for file in files]
        self._seen |= {int(env["PID"]) for env in found}
        return found

    def exit_codes(self, *names: str) -> list[int]:
        """Of launchers that end by themselves."""
        return [self.processes[name].wait(END_LIMIT_S) for name in names]


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Told]:
    script = tmp_path / "train.py"
    script.write_text(FOREVER)
    made = Told(tmp_path / "job", f"rows-{os.getpid()}", TWO, script)
    try:
        yield made
    finally:
        orphans = made.end()
        print(made.logs(40))
        assert orphans == [], "workers outlived their launchers"


@pytest.mark.users_row(1)
@pytest.mark.parametrize("slow", [0, 1])
def test_a_rank_that_works_on_after_its_peers_have_ended_is_left_in_peace(job: Told, slow: int):
    wait = "import time\nwhile not os.path.exists(os.path.join(folder, 'go')):\n    time.sleep(0.02)\nsay('done', 1)\n"
    job.script.write_text(TELL + f"if rank == '{slow}':\n" + "".join(f"    {line}\n" for line in wait.splitlines()))
    job.start_all()
    quick = int(job.told(1)[1 - slow]["PID"])
    wait_until(lambda: not is_alive(quick), 20, "the quick rank's end")
    wait_until(lambda: "FINISH" in job.logs(200).upper(), 20, "the quick node's word")
    assert is_alive(int(job.told(1)[slow]["PID"]))
    (job.folder / "go").touch()
    assert job.exit_codes("n0", "n1") == [0, 0]
    assert (job.folder / "done").exists()


@pytest.mark.users_row(4)
@pytest.mark.users_row(34)
def test_ranks_follow_the_order_of_nodes_whoever_is_lost(tmp_path: Path):
    """A survivor becomes rank 0, a returned node takes rank 0 from it, a spare becomes the last rank."""
    job = SmallJob(tmp_path / "job", f"rows-{os.getpid()}", Shape(spares=1, workers=1))
    try:
        for name in ("control", "n0", "n1"):
            job.start(name)
        crew = job.training()
        job.start("n2")
        for lost, left in (("n0", ["n1", "n2"]), ("n1", ["n0", "n2"]), ("n2", ["n0", "n1"])):
            job.kill(lost)
            crew = job.training(after=crew.generation, may_end=(lost,))
            assert [(rank.rank, rank.node) for rank in crew.ranks] == list(enumerate(left))
            job.start(lost)  # it waits as a spare, and takes the place of the next one
    finally:
        print(job.logs(30))
        assert job.end() == []


@pytest.mark.users_row(9)
@pytest.mark.users_row(10)
@pytest.mark.users_row(53)
def test_all_workers_hear_the_same_numbers_although_one_launcher_is_new(job: Told):
    job.start_all()
    before = job.told(1)
    job.kill("n1")
    job.start("n1")
    after = job.told(2)
    same = (
        "RESURGE_GENERATION",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_RUN_ID",
        "MASTER_ADDR",
        "MASTER_PORT",
        "WORLD_SIZE",
    )
    for told in (before, after):
        assert [told[0][name] for name in same] == [told[1][name] for name in same]
    assert [env["TORCHELASTIC_RESTART_COUNT"] for env in after] == ["1", "1"]
    assert before[0]["MASTER_PORT"] != after[0]["MASTER_PORT"], "no key of an older generation can be met"


@pytest.mark.users_row(11)
def test_a_launcher_that_comes_back_quickly_does_not_pass_by_the_budget(job: Told):
    job.shape = replace(TWO, max_restarts=1)
    job.start_all()
    job.told(1)
    job.kill("n1")
    job.start("n1")
    os.kill(int(job.told(2)[0]["PID"]), signal.SIGKILL)
    assert job.exit_codes("n0", "n1") == [1, 1]
    assert "1 restarts spent of 1 allowed" in (job.folder / "n1.log").read_text()
    assert not (job.folder / "env-3-0").exists()


@pytest.mark.users_row(33)
@pytest.mark.users_row(52)
@pytest.mark.users_row(55)
@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, 1), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_the_loss_of_one_node_ends_every_launcher_where_no_restart_is_left(job: Told, how: signal.Signals, code: int):
    """A launcher that is told to leave gives notice: that ends the job as preempted, which is no failure of it."""
    job.shape = replace(TWO, max_restarts=0)
    job.start_all()
    pids = [int(env["PID"]) for env in job.told(1)]
    job.processes["n1"].send_signal(how)
    assert job.exit_codes("n0") == [code]
    assert not any(is_alive(pid) for pid in pids)
    assert job.exit_codes("n1")[0] != 0


@pytest.mark.users_row(5)
@pytest.mark.users_row(59)
def test_launchers_may_start_before_their_control_plane(job: Told):
    for name in job.shape.launchers:
        job.start(name)
    logs = [job.folder / f"{name}.log" for name in job.shape.launchers]
    wait_until(lambda: all("control_awaited" in log.read_text() for log in logs), 20, "word of failed tries")
    assert job.endpoint in logs[0].read_text() and "Connection refused" in logs[0].read_text()
    job.start("control")
    assert len(job.told(1)) == 2


@pytest.mark.users_row(12)
def test_ranks_are_where_the_user_put_them_and_stay_there(job: Told):
    job.node_ranks = {"n0": 1, "n1": 0}
    job.start_all()
    for generation in (1, 2):
        told = job.told(generation)
        assert [env["RESURGE_NODE_ID"] for env in told] == ["n1", "n0"]
        assert [env["GROUP_RANK"] for env in told] == ["0", "1"]
        if generation == 1:
            os.kill(int(told[0]["PID"]), signal.SIGKILL)
