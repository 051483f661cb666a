"""What the demo concludes from pages."""

import pytest

from resurge.page import LauncherCells, PageWriter
from resurge_launcher.pages import PAGES_NAME
from tests.demo.ranks import crew


@pytest.fixture
def run_dirs(tmp_path):
    return {node: tmp_path / node for node in ("n0", "n1")}


def worker(run_dirs, node, rank, generation, pid=1, steps=()):
    folder = run_dirs[node] / PAGES_NAME / f"g{generation}"
    folder.mkdir(parents=True, exist_ok=True)
    LauncherCells.create(folder / f"rank-{rank}.page", generation=generation)
    page = PageWriter(folder / f"rank-{rank}.page")
    page.attached(pid, 1)
    for step in steps:
        page.first_committed(step, 2)
    return page


def test_nothing_runs_yet(run_dirs):
    empty = crew(run_dirs)
    assert (empty.generation, empty.ranks, empty.step) == (0, (), 0)
    assert not empty.trains(2)


def test_only_the_newest_generation_counts(run_dirs):
    worker(run_dirs, "n0", 0, 1, pid=10, steps=[5])
    worker(run_dirs, "n1", 0, 2, pid=20, steps=[6])
    now = crew(run_dirs)
    assert (now.generation, now.pids, now.nodes) == (2, {20}, {"n1"})


def test_all_ranks_have_to_commit_before_they_train(run_dirs):
    worker(run_dirs, "n0", 0, 1, steps=[1])
    worker(run_dirs, "n1", 1, 1)
    assert not crew(run_dirs).trains(2)
    worker(run_dirs, "n0", 0, 2, steps=[1])
    worker(run_dirs, "n1", 1, 2, steps=[1])
    assert crew(run_dirs).trains(2)
    assert not crew(run_dirs).trains(3)


def test_a_page_that_is_being_made_is_left_out(run_dirs):
    worker(run_dirs, "n0", 0, 1, steps=[1])
    (run_dirs["n0"] / PAGES_NAME / "rank-1.page").write_bytes(b"")
    assert len(crew(run_dirs).ranks) == 1
