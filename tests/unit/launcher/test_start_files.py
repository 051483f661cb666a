"""What a start wants of disks: there in time, late, never, in the way, or hanging. It goes on in every case."""

from __future__ import annotations

import asyncio
import io
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_launcher import start_files
from resurge_launcher.start_files import LOGS_WAIT_S, NO_FILES, RECORD_WAIT_S, LogFiles, StartFiles
from resurge_libs.obs import cycle_files, log
from tests.unit.launcher.core_world import run


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    log.configure()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "records"


@pytest.fixture
def files(tmp_path: Path, records: Path) -> StartFiles:
    return StartFiles(records, tmp_path / "logs" / "job", "job", 2)


async def prepared(files: StartFiles, generation: int = 3) -> tuple[LogFiles, float]:
    """What a start gets, and how long it took."""
    got: asyncio.Future[LogFiles] = asyncio.get_running_loop().create_future()
    began = time.monotonic()
    files.prepare(run(generation), got.set_result)
    return await asyncio.wait_for(got, 20), time.monotonic() - began


def put_record(records: Path) -> None:
    path = cycle_files.record_path(records, "job", 1, 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    cycle_files.point_current(path)


async def test_a_record_that_is_there_costs_no_wait(
    files: StartFiles, records: Path, said: io.StringIO, tmp_path: Path
):
    put_record(records)
    got, took_s = await prepared(files)
    assert took_s < RECORD_WAIT_S
    assert got.root == tmp_path / "logs" / "job" / "1" / "2"
    assert sorted(got.descriptors) == [(4, False), (4, True), (5, False), (5, True)]
    os.write(got.descriptors[(5, True)], b"x")
    assert (got.root / "5" / "stderr.log").read_text() == "x"
    assert "not_there" not in said.getvalue()
    got.close()


async def test_a_record_that_comes_a_little_later_is_waited_for(files: StartFiles, records: Path, said: io.StringIO):
    asyncio.get_running_loop().call_later(0.05, put_record, records)
    got, took_s = await prepared(files)
    assert took_s >= 0.05 and "not_there" not in said.getvalue()
    got.close()


async def test_a_record_that_never_comes_is_waited_for_once_and_said_once(files: StartFiles, said: io.StringIO):
    got, took_s = await prepared(files)
    got.close()
    assert RECORD_WAIT_S * 0.9 <= took_s < RECORD_WAIT_S + LOGS_WAIT_S
    for _ in range(3):
        got, took_s = await prepared(files)
        got.close()
        assert took_s < RECORD_WAIT_S * 0.9, "the next starts only look"
    assert said.getvalue().count("cycle_record_not_there") == 1
    assert "RESURGE_RENDEZVOUS__CYCLE_INFO_DIR" in said.getvalue() and "cycle_2.json" in said.getvalue()


async def test_after_a_record_was_there_again_a_start_waits_for_one(
    files: StartFiles, records: Path, said: io.StringIO
):
    (await prepared(files))[0].close()
    put_record(records)
    (await prepared(files))[0].close()
    cycle_files.record_path(records, "job", 1, 2).unlink()
    got, took_s = await prepared(files)
    got.close()
    assert took_s >= RECORD_WAIT_S * 0.9 and said.getvalue().count("cycle_record_not_there") == 2


async def test_a_look_that_ends_just_after_its_limit_is_not_taken_for_a_directory_that_hangs(
    files: StartFiles, records: Path, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(start_files, "LOOK_EVERY_S", RECORD_WAIT_S * 0.6)
    (await prepared(files))[0].close()
    put_record(records)
    (await prepared(files))[0].close()
    cycle_files.record_path(records, "job", 1, 2).unlink()
    got, took_s = await prepared(files)
    got.close()
    assert took_s >= RECORD_WAIT_S * 0.9, "the second start saw the record, so the third waits for it"


async def test_a_file_in_the_place_of_the_log_directory_costs_the_files_alone(tmp_path: Path, said: io.StringIO):
    (tmp_path / "logs").write_text("in the way")
    files = StartFiles(None, tmp_path / "logs", "job", 2)
    for _ in range(2):
        got, _ = await prepared(files)
        assert got == NO_FILES
    lines = [line for line in said.getvalue().splitlines() if "record_not_written" in line]
    assert len(lines) == 1 and str(tmp_path / "logs") in lines[0] and "--log-dir" in lines[0]


async def test_a_log_directory_that_hangs_delays_one_start_and_no_other(
    tmp_path: Path, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(start_files, "LOGS_WAIT_S", 0.1)
    back, closed = threading.Event(), threading.Event()

    class Late(LogFiles):
        def close(self) -> None:
            closed.set()

    def hangs(root: Path, ranks: range) -> LogFiles:
        back.wait(20)
        return Late(root)

    monkeypatch.setattr(start_files, "made", hangs)
    files = StartFiles(None, tmp_path / "logs", "job", 2)
    got, took_s = await prepared(files)
    assert got == NO_FILES and 0.09 <= took_s < 5
    got, took_s = await prepared(files)
    assert got == NO_FILES and took_s < 0.09, "a thread still hangs there: this one does not wait"
    assert said.getvalue().count("record_not_written") == 1 and "no answer for 0.1 s" in said.getvalue()
    back.set()
    assert await asyncio.to_thread(closed.wait, 5), "what came too late is given up"


async def test_a_record_directory_that_hangs_delays_one_start_and_no_other(
    files: StartFiles, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
):
    back = threading.Event()
    monkeypatch.setattr(start_files, "_is_there", lambda _path: back.wait(20))
    got, took_s = await prepared(files)
    got.close()
    assert RECORD_WAIT_S * 0.9 <= took_s < 5
    got, took_s = await prepared(files)
    got.close()
    assert took_s < RECORD_WAIT_S * 0.9
    back.set()
    assert said.getvalue().count("cycle_record_not_there") == 1


def test_an_error_half_way_leaves_nothing_open(tmp_path: Path):
    (tmp_path / "5").write_text("in the way")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError):
        start_files.made(tmp_path, (4, 5))
    assert len(os.listdir("/proc/self/fd")) == before
