"""The two lines for a plain loop, and data loaders beside an armed session, with a real torch."""

import os
import subprocess
import sys
import time

import pytest

from resurge import environment
from resurge.page import LauncherCells, PageReader

pytest.importorskip("torch", reason="the helper hooks a torch optimizer")

LOOP = """
import torch
import torch.distributed as dist
import resurge.torch

store = dist.HashStore()
if {group}:
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
same = resurge.torch.wrap(optimizer, step=10)
assert same is optimizer
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""

LOADER = """
import torch
import resurge

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        resurge.session().beat(1000 + index)
        return index * index

if __name__ == "__main__":
    with resurge.session() as session:
        session.beat(1)
        loader = torch.utils.data.DataLoader(Squares(), num_workers=2, multiprocessing_context={context!r})
        assert sum(int(batch) for batch in loader) == sum(n * n for n in range(16))
        session.beat(2)
"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "rank-0.page"
    LauncherCells.create(path, generation=1).set_lease(time.monotonic_ns() + 10**12)
    return path


def run(program, tmp_path, page):
    file = tmp_path / "train.py"
    file.write_text(program)
    variables = {**os.environ, **({environment.PAGE: str(page)} if page else {})}
    return subprocess.run(
        [sys.executable, str(file)], env=variables, capture_output=True, text=True, timeout=50, check=False
    )


@pytest.mark.parametrize("group", [True, False])
def test_two_lines_report_every_step(tmp_path, page, group):
    ended = run(LOOP.format(group=group), tmp_path, page)
    assert ended.returncode == 0, ended.stderr
    view = PageReader(page).read()
    assert (view.first_commit_step, view.committed_step, view.beat_count) == (11, 13, 3)
    assert view.process_group_ready_ns > 0
    assert view.process_group_ready_ns <= view.first_commit_ns


def test_the_two_lines_hook_nothing_without_a_launcher(tmp_path):
    ended = run(LOOP.format(group=False) + "assert not optimizer._optimizer_step_post_hooks\n", tmp_path, None)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_data_loader_workers_do_not_speak_for_their_rank(tmp_path, page, context):
    ended = run(LOADER.format(context=context), tmp_path, page)
    assert ended.returncode == 0, ended.stderr
    view = PageReader(page).read()
    assert (view.beat_step, view.beat_count) == (2, 2)
