"""Records of cycles of a real job on two nodes and a spare: right in every cycle, whoever was killed in between."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resurge_launcher.cli import main
from resurge_libs.testing import wait_until
from tests.demo.ranks import Crew
from tests.endurance.job import WORKER, Shape, SmallJob

SCRIPT = """
import json, os, runpy, sys
own, newest = (json.load(open(os.environ[name])) for name in ("RESURGE_CURRENT_CYCLE_INFO", "NVRX_CURRENT_CYCLE_INFO"))
me = own["ranks"][int(os.environ["RANK"])]
said = {{"own": own["cycle_number"], "newest": newest["cycle_number"], "me": me, "size": len(own["ranks"])}}
name = os.path.join(sys.argv[1], "seen-%s-%s" % (os.environ["RESURGE_CYCLE"], os.environ["RANK"]))
with open(name, "w") as file:
    json.dump(said, file)
sys.argv[0] = {worker!r}
runpy.run_path({worker!r}, run_name="__main__")
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[SmallJob]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(worker=str(WORKER)))
    flags = ("--warm", "off", "--ft-cycle-info-dir", str(tmp_path / "cycles"))
    job = SmallJob(tmp_path / "job", f"cycles-{os.getpid()}", Shape(spares=1, flags=flags), script)
    job.environ["RESURGE_RENDEZVOUS__CYCLE_INFO_DIR"] = str(tmp_path / "cycles")
    try:
        yield job
    finally:
        left = job.end()
        print(job.logs(60))
        assert left == []


def places(crew: Crew) -> dict[int, tuple[str, int]]:
    """Node and process of each rank, as the ranks' own pages say."""
    return {rank.rank: (rank.node, rank.pid) for rank in crew.ranks}


@pytest.mark.timeout(240)
def test_every_cycle_has_its_places_its_end_and_its_verdict_through_every_death(
    job: SmallJob, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    job.start_all()
    crews = [job.training(limit_s=90)]
    # a rank dies
    os.kill(crews[0].ranks[3].pid, signal.SIGKILL)
    crews.append(job.training(after=crews[-1].generation))
    # a rank dies, and the control plane with it
    os.kill(crews[1].ranks[0].pid, signal.SIGKILL)
    job.kill("control")
    job.start("control")
    crews.append(job.training(after=crews[-1].generation))
    # a node dies: the spare takes its place
    lost = max(crews[2].nodes)
    job.kill(lost)
    crews.append(job.training(after=crews[-1].generation, may_end=(lost,)))
    job.finish()
    for name in crews[3].nodes:
        assert job.processes[name].wait(60) == 0
    wait_until(lambda: cycles(tmp_path, capsys)[-1]["exit_code"] == 0, 20, "the last record's end")
    told = cycles(tmp_path, capsys)
    assert [row["cycle_number"] for row in told] == [0, 1, 2, 3]
    for row, crew in zip(told, crews, strict=True):
        assert row["generation"] == crew.generation
        assert {at["rank"]: (at["node"], at["pid"]) for at in row["ranks"]} == places(crew)
        assert row["cycle_end_time"] > row["cycle_start_time"]
        assert row["restored_iteration"] is not None
    victims = [f"{crews[cycle].ranks[rank].node}/{rank}" for cycle, rank in ((0, 3), (1, 0))]
    assert [row["culprit"] for row in told[:2]] == victims and told[2]["culprit"].startswith(lost)
    assert [row["verdict"] for row in told] == ["RESTART", "RESTART", "RESTART", None]
    assert [row["recovery_of"] for row in told[1:]] == [row["incident"] for row in told[:3]]
    assert {node["node"] for node in told[3]["nodes"]} == crews[3].nodes == set(job.shape.launchers) - {lost}
    assert not list((tmp_path / "cycles").glob("*/*/*earlier*")), "nothing was taken for another start's"
    # what the workers themselves found when they started
    for cycle in range(4):
        for rank in range(4):
            seen = json.loads((job.folder / f"seen-{cycle}-{rank}").read_text())
            assert (seen["own"], seen["newest"], seen["size"], seen["me"]["rank"]) == (cycle, cycle, 4, rank)


def cycles(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What `resurge cycles` prints."""
    capsys.readouterr()
    assert main(["cycles", "--cycle-info-dir", str(folder / "cycles"), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found
