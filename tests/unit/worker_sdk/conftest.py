"""A worker's page with a launcher's hand on it; crashes that end no process."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from resurge import crashing, environment, world_kill
from resurge.environment import WorkerEnvironment
from resurge.page import LauncherCells, PageReader, PageView
from resurge.worker_session import Session
from tests.unit.worker_sdk.crash_stage import VARIABLES, Kills, Watchdogs, armed_killers

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


@pytest.fixture
def kills(monkeypatch):
    """No test here can end this process: all three ends are stubs for its whole time."""
    counted = Kills()
    monkeypatch.setattr(crashing, "arm_dead_man", counted.arm_dead_man)
    monkeypatch.setattr(crashing, "end_recorded", lambda: counted.end("recorded"))
    monkeypatch.setattr(crashing, "end_unrecorded", lambda: counted.end("unrecorded"))
    monkeypatch.setattr(world_kill, "FLUSH_LIMIT_S", 5.0)
    for name in (*VARIABLES, environment.ERROR_FILE):
        monkeypatch.delenv(name, raising=False)
    yield counted
    assert armed_killers() == [], "an armed killer outlives its stub"


@pytest.fixture
def virtual(kills, monkeypatch):
    """The same on a virtual clock, with watchdogs that never fire by themselves."""
    made = Watchdogs(kills)
    monkeypatch.setattr(world_kill, "_monotonic", lambda: kills.now_s)
    monkeypatch.setattr(world_kill.time, "sleep", kills.sleep)
    monkeypatch.setattr(crashing.time, "monotonic", lambda: kills.now_s)
    monkeypatch.setattr(crashing, "KillWatchdog", made.make)
    return made
