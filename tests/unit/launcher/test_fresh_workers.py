"""Workers that are forked anew while the others run: those that are lost together do not spoil each other's files."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from resurge_launcher import start_files
from resurge_launcher.core.replacement_state import ReplaceDone, ReplaceFailed, ReplaceWorkers
from resurge_launcher.fresh_workers import FreshWorkers
from resurge_launcher.logs import shipping, spool
from resurge_launcher.settings import LogPlan, LogWay
from resurge_launcher.start_files import LogFiles, StartFiles
from resurge_libs.core.ids import Generation
from resurge_libs.obs import log
from resurge_libs.testing import wait_until_async
from tests.unit.launcher.core_world import run

LIMIT_S = 20.0
SETTINGS: dict[str, Any] = {"job_id": "job", "node_id": "n0", "environ": {}, "job_token": "", "control_environ": {}}


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    log.configure()


class FakeTeam:
    """Takes its files and its places in the spool as a team does, and forks nothing."""

    def __init__(self, logs: shipping.LogShipping | None, generation: int = 3) -> None:
        self.run = run(generation)
        self.logs = logs
        self.forked: list[list[int]] = []
        self.files: dict[int, list[start_files.FileKey]] = {}
        """By local rank, which of its files were open."""
        self.spooled: dict[int, bool] = {}

    @property
    def pids(self) -> tuple[tuple[int, int], ...]:
        return tuple((local_rank, 1000 + local_rank) for local_rank in range(4))

    def replace(self, loop: object, told: object, fork: object, local_ranks: list[int], files: LogFiles) -> bool:
        self.forked.append(list(local_ranks))
        for local_rank in local_ranks:
            rank = self.run.base_rank + local_rank
            self.files[local_rank] = [key for key in files.descriptors if key[0] == rank]
            descriptor = self.logs.open(self.run, rank) if self.logs is not None else None
            self.spooled[local_rank] = descriptor is not None
            if descriptor is not None:
                os.close(descriptor)
        if self.logs is not None:
            self.logs.started()
        files.close()
        return True


class Stage:
    """Fresh workers of a fake team, on a log directory that answers when the test says so."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, logs: shipping.LogShipping | None = None) -> None:
        self.root = folder / "logs"
        self.answers = threading.Event()
        self.looks: list[list[int]] = []
        self.posted: list[Any] = []
        self.team, self.logs = FakeTeam(logs), logs
        real = start_files.made

        def made(root: Path, ranks: list[int]) -> LogFiles:
            self.looks.append(list(ranks))
            self.answers.wait(LIMIT_S)
            return real(root, ranks)

        monkeypatch.setattr(start_files, "made", made)
        monkeypatch.setattr(start_files, "LOGS_WAIT_S", LIMIT_S)
        self.files = StartFiles(None, self.root, "job", 4)
        shop: Any = SimpleNamespace(logs=logs)
        self.fresh = FreshWorkers(shop, self.files, self.posted.append, cast(Any, None))

    def lost(self, *local_ranks: int) -> None:
        self.fresh.replace(ReplaceWorkers(Generation(3), local_ranks), cast(Any, self.team), cast(Any, lambda _: None))

    async def until(self, count: int) -> None:
        await wait_until_async(lambda: len(self.posted) == count, LIMIT_S, "what became of them")

    def error_file(self, rank: int) -> Path:
        path = self.root / "1" / "2" / str(rank) / "error.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the error of the one before")
        return path


def shipping_of(folder: Path) -> shipping.LogShipping:
    settings: Any = SimpleNamespace(**SETTINGS, state_dir=folder, config_path=None)
    return shipping.LogShipping(settings, LogPlan(LogWay.DIRECT, folder / "app.log", folder / "spool"), 1)


async def test_those_that_are_lost_while_files_are_prepared_get_theirs_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: io.StringIO
):
    stage = Stage(tmp_path, monkeypatch)
    errors = [stage.error_file(rank) for rank in (4, 5, 6)]
    stage.lost(0)
    stage.lost(1)
    stage.lost(2)
    await wait_until_async(lambda: stage.looks, LIMIT_S, "the first look")
    stage.answers.set()
    await stage.until(3)
    assert stage.posted == [ReplaceDone(Generation(3), one, 1000 + one) for one in range(3)]
    assert stage.team.forked == [[0], [1, 2]] and stage.looks == [[4], [5, 6]], "those that wait are one batch"
    assert stage.team.files == {one: [(4 + one, False), (4 + one, True)] for one in range(3)}
    assert not any(error.exists() for error in errors), "no error of the one before is left for the fresh one"
    assert "record_not_written" not in said.getvalue()


async def test_those_that_are_lost_while_places_in_the_spool_are_prepared_get_theirs_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    open_before = len(os.listdir("/proc/self/fd"))
    stage = Stage(tmp_path, monkeypatch, shipping_of(tmp_path))
    stage.answers.set()
    stage.lost(0)
    stage.lost(1)
    await wait_until_async(lambda: stage.looks, LIMIT_S, "places for the first")
    stage.lost(2)
    await stage.until(3)
    assert stage.team.spooled == dict.fromkeys(range(3), True)
    assert len(os.listdir("/proc/self/fd")) <= open_before, "nothing stays open"


async def test_none_is_forked_after_the_generation_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stage = Stage(tmp_path, monkeypatch)
    open_before = len(os.listdir("/proc/self/fd"))
    stage.lost(0)
    stage.lost(1)
    stage.fresh.call_off(Generation(3))
    assert [(type(one), one.local_rank) for one in stage.posted] == [(ReplaceFailed, 0), (ReplaceFailed, 1)]
    stage.answers.set()
    await wait_until_async(lambda: not stage.fresh._batch, LIMIT_S, "the look")
    assert stage.team.forked == [] and stage.looks == [[4]] and len(stage.posted) == 2
    assert len(os.listdir("/proc/self/fd")) <= open_before, "nothing stays open"


async def test_a_start_gets_its_files_while_those_of_fresh_workers_are_still_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: io.StringIO
):
    stage = Stage(tmp_path, monkeypatch)
    stage.lost(0)
    stage.fresh.call_off(Generation(3))
    got: asyncio.Future[LogFiles] = asyncio.get_running_loop().create_future()
    stage.files.prepare(run(4), got.set_result)
    stage.answers.set()
    files = await asyncio.wait_for(got, LIMIT_S)
    assert len(files.descriptors) == 8 and "record_not_written" not in said.getvalue()
    files.close()
    await wait_until_async(lambda: not stage.fresh._batch, LIMIT_S, "the look")


async def test_two_that_prepare_places_at_once_both_have_them(tmp_path: Path):
    here = shipping_of(tmp_path)
    open_before = len(os.listdir("/proc/self/fd"))
    done: list[int] = []
    for rank in (4, 5, 5):
        here.prepare(run(3), [rank], lambda rank=rank: done.append(rank))  # type: ignore[misc]
    await wait_until_async(lambda: len(done) == 3, LIMIT_S, "the places")
    for rank in (4, 5):
        descriptor = here.open(run(3), rank)
        assert descriptor is not None
        os.close(descriptor)
    here.started()
    assert len(os.listdir("/proc/self/fd")) <= open_before, "nothing stays open"
    assert sorted(note.rank for note in spool.notes(tmp_path / "spool")) == [4, 5]


@pytest.mark.parametrize("is_over", [True, False])
async def test_places_that_nobody_takes_end_with_their_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_over: bool
):
    open_before = len(os.listdir("/proc/self/fd"))
    here = shipping_of(tmp_path)
    stage = Stage(tmp_path, monkeypatch, here)
    stage.lost(0)
    stage.fresh.call_off(Generation(3))
    if is_over:
        here.ended(3)
    await wait_until_async(lambda: stage.looks, LIMIT_S, "a place for it")
    stage.answers.set()
    await wait_until_async(lambda: not stage.fresh._batch, LIMIT_S, "files for it")
    async with asyncio.timeout(LIMIT_S):
        await here._desk.ask(lambda: None, LIMIT_S)  # the desk has files open while it ends a generation
    assert len(os.listdir("/proc/self/fd")) <= open_before, "nothing stays open"
    [note] = spool.notes(tmp_path / "spool")
    assert spool.has_ended(tmp_path / "spool", note) == is_over, "others of the generation may still write"
