"""The short forms of `make soak` and `make chaos`, and that their judges see what they are there for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endurance import chaos
from tests.endurance.answers import Answered, audit
from tests.endurance.footprint import Tolerance
from tests.endurance.job import Shape, SmallJob
from tests.endurance.soak import grown, soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

RESTARTS, BASE = 16, 6
"""Ten restarts are compared, once the first few have filled the allocators."""
KILL_POINTS = 6


@pytest.fixture
def soaked(tmp_path: Path) -> Iterator[SmallJob]:
    job = SmallJob(tmp_path / "job", f"soak-{os.getpid()}", Shape())
    try:
        yield job
    finally:
        assert job.end() == [], "workers outlived their launchers"
        print(job.logs())


def test_ten_restarts_leave_nothing_behind(soaked: SmallJob):
    result = soak(soaked, RESTARTS, BASE, seed=1)
    assert result["failed"] == 0, result["grown"]


def test_growth_beyond_its_tolerance_is_found():
    tolerances = {"descriptors": Tolerance(2), "log_files": Tolerance(0, per_restart=7)}
    base = {"n0 descriptors": 30.0, "n0 log_files": 28.0}
    assert grown(base, {"n0 descriptors": 32.0, "n0 log_files": 98.0}, 10, tolerances) == {}
    found = grown(base, {"n0 descriptors": 33.0, "n0 log_files": 99.0}, 10, tolerances)
    assert found == {"n0 descriptors": (3.0, 2.0), "n0 log_files": (71.0, 70.0)}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallJob, chaos.Run]:
    """One job with its kill points, ended."""
    job = SmallJob(tmp_path_factory.mktemp("chaos") / "job", f"chaos-{os.getpid()}", chaos.SPLIT)
    run = chaos.Run(job, 1, chaos.Tally())
    try:
        run.play(KILL_POINTS)
    finally:
        run.tally.unfinished += [f"orphan {pid}" for pid in job.end()]
        print(job.logs())
    return job, run


def test_kills_at_any_moment_lose_no_answer_and_stop_no_healthy_worker(killed: tuple[SmallJob, chaos.Run]):
    job, run = killed
    found = audit(job.state_dir, run.answered)
    assert run.tally.kill_points >= KILL_POINTS
    assert (run.tally.stopped, run.tally.unfinished) == ([], [])
    assert (found.lost, found.doubled, found.open_incident) == ((), (), "")
    assert chaos.commit_faults(job) == []
    assert len(run.answered.added) > 10 and len(run.answered.put) > 5


def test_an_answer_that_the_journal_lacks_or_has_twice_is_found(killed: tuple[SmallJob, chaos.Run]):
    job, run = killed
    request, value = next(iter(run.answered.added.items()))
    promised = Answered(
        added={request: value + 1, "nobody": 1},
        put={"nothing": ("key", b"value")},
        refused=[request],
        verdicts={"inc-unknown": "RESTART"},
    )
    found = audit(job.state_dir, promised)
    assert len(found.lost) == 4, found.lost
    assert found.doubled == (f"{request} was refused for sure, and done",)


def test_a_step_committed_twice_or_late_is_found(tmp_path: Path):
    job = SmallJob(tmp_path, "commits", chaos.SPLIT)
    (tmp_path / "commits-0").write_text("1 1 7\n1 2 7\n2 2 8\n")
    (tmp_path / "commits-1").write_text("2 1 9\n1 2 6\n")
    found = chaos.commit_faults(job)
    assert [sentence.partition(" committed ")[0] for sentence in found] == ["rank 0", "rank 1"]
    job.end()
