"""A journal that was cut, zeroed or garbled anywhere opens again with a whole beginning of what was written."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from resurge_libs.engine import sqlite_file
from resurge_libs.engine.ports import Snapshot
from resurge_libs.engine.sqlite_journal import SqliteJournal
from tests.integration.libs.journal_writer import entry

FILE = sqlite_file.FILE_NAME
PAGE, COUNT, SNAPSHOT_AT = 4096, 40, 25
WAYS = ("cut", "zeroed", "garbled")


@pytest.fixture(scope="module")
def crashed(tmp_path_factory) -> dict[str, bytes]:
    """The files of a journal whose process died: an older half in the main file, the newer one in its log."""
    directory = tmp_path_factory.mktemp("crashed")
    journal = SqliteJournal(directory, "job")
    for n in range(1, COUNT + 1):
        journal.append([entry(n, 300)]).result()
        if n == SNAPSHOT_AT:
            journal.snapshot(Snapshot(n, b"state", b"digest")).result()
            journal.close()
            journal = SqliteJournal(directory, "job")
    files = {name: (directory / name).read_bytes() for name in (FILE, f"{FILE}-wal")}
    journal.close()
    return files


def offsets(size: int, seed: int) -> list[int]:
    chance = random.Random(seed)
    edges = {edge + by for edge in range(0, size + 1, PAGE) for by in (-1, 0, 1)}
    return sorted(at for at in edges | {chance.randrange(size) for _ in range(60)} if 0 <= at < size)


def harmed(data: bytes, at: int, way: str) -> bytes:
    match way:
        case "cut":
            return data[:at]
        case "zeroed":
            return data[:at] + bytes(min(600, len(data) - at)) + data[at + 600 :]
        case _:
            return data[:at] + bytes([data[at] ^ 0xA5]) + data[at + 1 :]


def opened(directory: Path, files: dict[str, bytes]):
    """Opens it, checks what came back, and that it takes more and opens again without a word."""
    for old in directory.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    journal = SqliteJournal(directory, "job")
    replay = journal.replay()
    first = replay.snapshot.seq + 1 if replay.snapshot else 1
    assert replay.snapshot in (None, Snapshot(SNAPSHOT_AT, b"state", b"digest"))
    assert replay.entries == tuple(entry(n, 300) for n in range(first, first + len(replay.entries)))
    if replay.damage is not None:
        assert replay.damage.last_whole_seq == replay.last_seq
        assert f"last whole record, entry {replay.last_seq}; " in replay.damage.sentence
        assert "lost" in replay.damage.sentence and replay.damage.entries_lost != 0
        assert Path(replay.damage.set_aside).exists()
    journal.append([entry(replay.last_seq + 1, 300)]).result()
    journal.close()
    journal = SqliteJournal(directory, "job")
    again = journal.replay()
    journal.close()
    assert again.damage is None and again.last_seq == replay.last_seq + 1
    return replay


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("harm", [(FILE,), (f"{FILE}-wal",), (FILE, f"{FILE}-wal")], ids=["file", "log", "both"])
def test_harm_anywhere_is_salvaged(tmp_path, crashed, harm, way):
    for at in offsets(max(len(crashed[name]) for name in harm), seed=len(harm)):
        files = dict(crashed)
        for name in harm:
            if at < len(files[name]):
                files[name] = harmed(files[name], at, way)
        replay = opened(tmp_path, files)
        assert replay.last_seq == COUNT or replay.damage is not None or is_silent(files), f"{way} at {at}: not said"


def is_silent(files: dict[str, bytes]) -> bool:
    """A log that ends between two commits, or is empty, looks like one to which nothing more was written."""
    return (len(files[f"{FILE}-wal"]) - 32) % (24 + PAGE) == 0 or not files[f"{FILE}-wal"]


@pytest.mark.parametrize("empty", [(FILE,), (f"{FILE}-wal",), (FILE, f"{FILE}-wal")], ids=["file", "log", "both"])
def test_files_cut_to_nothing_open_again(tmp_path, crashed, empty):
    replay = opened(tmp_path, crashed | dict.fromkeys(empty, b""))
    assert (replay.damage is not None) == (FILE in empty)


@pytest.mark.parametrize("with_log", [True, False])
def test_a_file_whose_schema_row_is_gone_is_salvaged_and_not_taken_for_another_release(tmp_path, crashed, with_log):
    files = crashed if with_log else {FILE: crashed[FILE]}
    replay = opened(tmp_path, files | {FILE: crashed[FILE][:5000]})
    assert replay.damage is not None
