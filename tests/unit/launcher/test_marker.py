"""Every state that a marker file can be in, read by the real child; and a child that does not answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resurge_launcher.marker import MarkerReader
from resurge_launcher.processes import marker_program
from resurge_libs.core.progress import MarkerReading
from resurge_libs.testing import wait_until_async
from resurge_libs.testing.process_faults import is_alive

LIMIT_S = 5.0


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "latest_checkpointed_iteration.txt"


@pytest.fixture
async def reader(marker: Path) -> Iterator[MarkerReader]:
    made = MarkerReader(marker, LIMIT_S, sys.executable, os.environ)
    yield made
    made.close()


def put(path: Path, text: str) -> None:
    path.write_text(text)


def forbid(path: Path) -> None:
    path.chmod(0)


async def looked(reader: MarkerReader) -> MarkerReading:
    answer: asyncio.Future[MarkerReading] = asyncio.get_running_loop().create_future()
    reader.look(answer.set_result)
    return await asyncio.wait_for(answer, 20)


def a_directory(path: Path) -> None:
    path.mkdir()


def under_a_file(path: Path) -> None:
    """No path leads through a file: unreadable for root too."""
    path.parent.joinpath("file").write_text("1")
    path.symlink_to(path.parent / "file" / "marker")


def a_circle(path: Path) -> None:
    path.symlink_to(path)


def a_pipe(path: Path) -> None:
    """Nobody ever writes to it: who opens it plainly waits for ever."""
    os.mkfifo(path)


CASES: list[tuple[str, Callable[[Path], object], int | None, str]] = [
    ("as Megatron writes it", lambda path: path.write_text("1200"), 1200, ""),
    ("with a newline", lambda path: path.write_text(" 1200\n"), 1200, ""),
    ("zero", lambda path: path.write_text("0"), 0, ""),
    ("missing", lambda path: None, None, "does not exist"),
    ("empty", lambda path: path.write_text(""), None, "is empty"),
    ("blank", lambda path: path.write_text("\n"), None, "is empty"),
    ("abc", lambda path: path.write_text("abc"), None, "holds 'abc', which is no iteration"),
    ("-1", lambda path: path.write_text("-1"), None, "holds '-1', which is no iteration"),
    ("release", lambda path: path.write_text("release"), None, "which is no iteration"),
    ("1e3", lambda path: path.write_text("1e3"), None, "which is no iteration"),
    ("other digits", lambda path: path.write_text("١٢"), None, "which is no iteration"),
    ("binary", lambda path: path.write_bytes(b"\x00\xff12"), None, "which is no iteration"),
    ("tabs and lines", lambda path: path.write_text("a\tb\nc"), None, "which is no iteration"),
    ("huge", lambda path: path.write_text("9" * 30), None, "which no iteration reaches"),
    ("long", lambda path: path.write_text("1" * 5000), None, "which is no iteration"),
    ("a directory", a_directory, None, "is a directory"),
    ("unreadable", under_a_file, None, "cannot be read: Not a directory"),
    ("a circle of links", a_circle, None, "cannot be read: Too many levels"),
    ("a pipe", a_pipe, None, "is no file with a content of its own"),
]


@pytest.mark.parametrize(("make", "value", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_what_is_read(reader: MarkerReader, marker: Path, make, value, why):
    make(marker)
    reading = await looked(reader)
    assert reading.value == value
    assert why in reading.skipped and bool(reading.skipped) == (value is None)
    assert value is not None or str(marker) in reading.skipped


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
async def test_a_file_of_somebody_elses(reader: MarkerReader, marker: Path):
    put(marker, "7")
    forbid(marker)
    assert "cannot be read: Permission denied" in (await looked(reader)).skipped


async def test_a_file_that_is_truncated_while_it_is_written_is_read_when_it_is_whole(
    reader: MarkerReader, marker: Path
):
    put(marker, "")
    asyncio.get_running_loop().call_later(0.03, put, marker, "1300")
    assert await looked(reader) in (MarkerReading(1300), MarkerReading(skipped=f"{marker} is empty"))
    assert await looked(reader) == MarkerReading(1300)


def test_a_number_that_grows_while_it_is_read_is_read_again(marker: Path, monkeypatch: pytest.MonkeyPatch):
    texts = [b"1", b"13", b"1300", b"1300", b"1300"]
    now = time.time()
    monkeypatch.setattr(marker_program, "_read", lambda path: (texts.pop(0), now))
    monkeypatch.setattr(marker_program.time, "sleep", lambda _: None)
    monkeypatch.setattr(marker_program.time, "time", lambda: now)
    assert marker_program.look(str(marker)) == 1300


async def test_the_file_is_read_anew_each_time(reader: MarkerReader, marker: Path):
    for step in (5, 9, 4):
        put(marker, str(step))
        assert await looked(reader) == MarkerReading(step)


async def test_why_nothing_is_read_is_said_once(reader: MarkerReader, marker: Path, capsys: pytest.CaptureFixture[str]):
    for _ in range(3):
        await looked(reader)
    put(marker, "5")
    await looked(reader)
    os.unlink(marker)
    await looked(reader)
    assert capsys.readouterr().err.count("marker_skipped") == 2


async def hanging(marker: Path) -> MarkerReader:
    """A reader whose file system has just begun to hang."""
    put(marker, "5")
    reader = MarkerReader(marker, 0.3, sys.executable, os.environ)
    assert await looked(reader) == MarkerReading(5)
    (child,) = reader.pids
    os.kill(child, signal.SIGSTOP)
    return reader


async def test_a_file_system_that_hangs_costs_the_limit_and_no_more(marker: Path):
    reader = await hanging(marker)
    (child,) = reader.pids
    try:
        reading = await looked(reader)
        assert "was not read within 0.3 s" in reading.skipped
        await wait_until_async(lambda: not is_alive(child), 5, "the end of the child")
        assert await looked(reader) == MarkerReading(5), "a new child reads once the old one is gone"
    finally:
        reader.close()


async def test_while_a_child_cannot_die_looks_are_answered_at_once(marker: Path, monkeypatch: pytest.MonkeyPatch):
    reader = await hanging(marker)
    (child,) = reader.pids
    monkeypatch.setattr("subprocess.Popen.kill", lambda self: None)  # as in uninterruptible sleep
    try:
        await looked(reader)
        began = time.monotonic()
        assert "hangs still" in (await looked(reader)).skipped
        assert time.monotonic() - began < 0.2
        assert reader.pids == {child}, "no second child hangs beside the first"
    finally:
        monkeypatch.undo()
        os.kill(child, signal.SIGKILL)
        reader.close()


async def test_two_looks_at_once_are_both_answered(reader: MarkerReader, marker: Path):
    put(marker, "8")
    assert await asyncio.gather(looked(reader), looked(reader)) == [MarkerReading(8)] * 2


async def test_a_child_that_ended_is_replaced(reader: MarkerReader, marker: Path):
    put(marker, "8")
    await looked(reader)
    (child,) = reader.pids
    os.kill(child, signal.SIGKILL)
    await wait_until_async(lambda: child not in reader.pids, 5, "news of the end")
    assert await looked(reader) == MarkerReading(8)


async def test_nothing_is_left_after_close(marker: Path):
    reader = MarkerReader(marker, LIMIT_S, sys.executable, os.environ)
    reader.start()
    (child,) = reader.pids
    reader.close()
    assert not is_alive(child)
