"""A journal is read beside its writer and after its end: no lock taken, not a byte changed, what is wrong said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resurge_libs.engine import left_behind as reading
from resurge_libs.engine import sqlite_file
from resurge_libs.engine.left_behind import left_behind
from resurge_libs.engine.ports import JournalUnusable
from resurge_libs.engine.sqlite_journal import SqliteJournal
from tests.integration.libs.journal_writer import entry

FILE = sqlite_file.FILE_NAME
pytestmark = pytest.mark.integration


def everything(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


def filled(directory: Path, count: int = 3) -> SqliteJournal:
    journal = SqliteJournal(directory, "job")
    journal.append([entry(n) for n in range(1, count + 1)]).result()
    return journal


def test_a_journal_that_is_still_written_is_read_beside_its_log_and_left_as_it_is(tmp_path):
    journal = filled(tmp_path)
    assert (tmp_path / f"{FILE}-wal").stat().st_size > 0
    before = everything(tmp_path)
    found = left_behind(tmp_path)
    assert (found.entries, found.damage) == ((entry(1), entry(2), entry(3)), None)
    assert everything(tmp_path) == before
    journal.append([entry(4)]).result()
    assert left_behind(tmp_path).last_seq == 4
    journal.close()
    closed = everything(tmp_path)
    assert left_behind(tmp_path).last_seq == 4
    assert everything(tmp_path) == closed


def test_a_directory_that_may_not_be_written_to_can_be_read(tmp_path):
    filled(tmp_path).close()
    tmp_path.chmod(0o500)
    try:
        assert left_behind(tmp_path).last_seq == 3
    finally:
        tmp_path.chmod(0o700)


def test_what_is_damaged_is_read_to_its_last_whole_record_and_stays_where_it_is(tmp_path):
    journal = filled(tmp_path)
    journal.append([entry(4)]).result()
    log = tmp_path / f"{FILE}-wal"
    kept = {name: (tmp_path / name).read_bytes() for name in (FILE, log.name)}
    journal.close()
    for name, data in kept.items():
        (tmp_path / name).write_bytes(data)
    os.truncate(log, log.stat().st_size - 100)
    before = everything(tmp_path)
    found = left_behind(tmp_path)
    assert found.last_seq == 3
    assert found.damage is not None and "read to its last whole record, entry 3" in found.damage.sentence
    assert everything(tmp_path) == before


def test_garbage_is_told_as_such_and_nothing_there_as_nothing(tmp_path):
    with pytest.raises(JournalUnusable, match="holds no journal"):
        left_behind(tmp_path)
    (tmp_path / FILE).write_bytes(b"no database at all" * 500)
    found = left_behind(tmp_path)
    assert found.last_seq == 0 and found.damage is not None
    assert "is damaged" in found.damage.sentence
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_one_that_changes_with_every_copy_is_not_guessed_at(tmp_path, monkeypatch):
    filled(tmp_path).close()
    copies = []

    def busy(path: Path, copy: Path) -> None:
        copy.write_bytes(path.read_bytes())
        copies.append(path)
        os.utime(tmp_path / FILE, ns=(len(copies), len(copies)))

    monkeypatch.setattr(reading.shutil, "copyfile", busy)
    with pytest.raises(JournalUnusable, match="is being written to"):
        left_behind(tmp_path)
    assert copies
