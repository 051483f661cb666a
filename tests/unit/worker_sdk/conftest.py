"""A worker's page with a launcher's hand on it."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from resurge.environment import WorkerEnvironment
from resurge.page import LauncherCells, PageReader, PageView
from resurge.worker_session import Session

HOUR_NS = 3600 * 1_000_000_000


@dataclass
class Worker:
    path: Path
    launcher: LauncherCells

    def session(self, **told) -> Session:
        return Session(WorkerEnvironment(page=str(self.path), generation=7, rank=3, world_size=4, **told))

    def view(self) -> PageView:
        return PageReader(self.path).read()


@pytest.fixture
def worker(tmp_path):
    path = tmp_path / "rank-3.page"
    launcher = LauncherCells.create(path, generation=7)
    launcher.set_lease(time.monotonic_ns() + HOUR_NS)
    return Worker(path, launcher)
