"""The journal on a real disk: kill -9, cut files, full disks, wrong directories."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from resurge_libs.engine import sqlite_file
from resurge_libs.engine.ports import FactRecord, JournalFailed, JournalUnusable, Snapshot
from resurge_libs.engine.sqlite_journal import SqliteJournal
from resurge_libs.engine.state_directory import StateDirectory, file_system_of
from tests.integration.libs.journal_writer import entry

FILE = sqlite_file.FILE_NAME


def filled(directory: Path, count: int, size: int = 200) -> None:
    journal = SqliteJournal(directory, "job")
    journal.append([entry(n, size) for n in range(1, count + 1)]).result()
    journal.close()


def reopened(directory: Path):
    journal = SqliteJournal(directory, "job")
    replay = journal.replay()
    return journal, replay


def test_what_was_appended_is_replayed(tmp_path):
    filled(tmp_path, 3)
    journal, replay = reopened(tmp_path)
    assert replay.entries == (entry(1), entry(2), entry(3))
    assert replay.damage is None and replay.last_seq == 3
    journal.append([entry(4)]).result()
    assert journal.history(2, 2) == (entry(2), entry(3))
    journal.close()


def test_many_appends_are_committed_in_groups_and_in_order(tmp_path):
    journal = SqliteJournal(tmp_path, "job")
    futures = [journal.append([entry(n)]) for n in range(1, 301)]
    for future in futures:
        future.result()
    journal.close()
    assert [e.seq for e in reopened(tmp_path)[1].entries] == list(range(1, 301))


def test_a_snapshot_shortens_the_replay_and_keeps_the_history(tmp_path):
    journal = SqliteJournal(tmp_path, "job")
    journal.append([entry(n) for n in range(1, 8)]).result()
    journal.snapshot(Snapshot(5, b"state", b"digest", 2)).result()
    journal.close()
    journal, replay = reopened(tmp_path)
    assert replay.snapshot == Snapshot(5, b"state", b"digest", 2)
    assert [e.seq for e in replay.entries] == [6, 7]
    assert [e.seq for e in journal.history(1, 10)] == [1, 2, 3, 4, 5, 6, 7]
    journal.close()


def test_a_long_job_keeps_a_bounded_journal_that_can_still_start_from_its_older_snapshot(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "ENTRIES_KEPT", 5)
    journal = SqliteJournal(tmp_path, "job")
    for first in range(1, 60, 3):
        journal.append([entry(n) for n in range(first, first + 3)]).result()
        journal.snapshot(Snapshot(first + 2, b"state", b"digest", 2)).result()
    assert [e.seq for e in journal.history(1, 100)] == [56, 57, 58, 59, 60]
    journal.close()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE snapshots SET body = x'00' WHERE seq = 60")
    journal, replay = reopened(tmp_path)
    assert replay.snapshot == Snapshot(57, b"state", b"digest", 2)
    assert [e.seq for e in replay.entries] == [58, 59, 60] and replay.damage is None
    journal.close()


def test_large_entries_are_kept_by_their_bytes_and_the_file_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "ENTRY_BYTES_KEPT", 400_000)
    journal = SqliteJournal(tmp_path, "job")
    sizes = []
    for n in range(1, 241):
        journal.append([replace(entry(n), facts=(FactRecord("Big", bytes(50_000)),))]).result()
        journal.snapshot(Snapshot(n, b"state", b"digest", 2)).result()
        sizes.append(journal.path.stat().st_size + journal.path.with_name(FILE + "-wal").stat().st_size)
    assert [e.seq for e in journal.history(1, 100)] == list(range(234, 241)), "seven of 50,000 bytes fit"
    assert max(sizes[160:]) <= max(sizes[80:160]) * 1.05
    journal.close()


def test_free_room_in_the_file_goes_back_to_the_disk_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "FREE_BYTES_MAX", 1_000_000)
    journal = SqliteJournal(tmp_path, "job")
    journal.append([replace(entry(n), facts=(FactRecord("Big", bytes(50_000)),)) for n in range(1, 61)]).result()
    for n in (59, 60):
        journal.snapshot(Snapshot(n, b"state", b"digest", 2)).result()
    journal.close()
    db = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    db.execute("DELETE FROM entries WHERE seq < 50")  # as one huge record leaves the file once it is forgotten
    db.close()
    before = (tmp_path / FILE).stat().st_size
    journal, replay = reopened(tmp_path)
    journal.close()
    assert replay.snapshot.seq == 60 and replay.damage is None
    assert before > 3_000_000 and (tmp_path / FILE).stat().st_size < 1_000_000


def test_a_journal_of_which_a_snapshot_alone_is_left_takes_the_next_snapshot_too(tmp_path):
    journal = SqliteJournal(tmp_path, "job")
    journal.append([entry(n) for n in range(1, 6)]).result()
    journal.snapshot(Snapshot(5, b"state", b"digest", 1)).result()
    journal.close()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("DELETE FROM entries")
    journal = reopened(tmp_path)[0]
    journal.snapshot(Snapshot(5, b"state", b"digest", 2)).result()  # as at a start under newer rules
    journal.append([entry(6)]).result()
    journal.close()
    assert [e.seq for e in reopened(tmp_path)[1].entries] == [6]


def test_a_gap_in_the_numbers_is_a_failure_for_good(tmp_path):
    journal = SqliteJournal(tmp_path, "job")
    with pytest.raises(JournalFailed, match="entry 2 cannot follow 0"):
        journal.append([entry(2)]).result()
    with pytest.raises(JournalFailed):
        journal.append([entry(1)]).result()
    journal.close()


def test_kill_9_loses_nothing_that_was_durable(tmp_path):
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.libs.journal_writer", str(tmp_path)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        for _ in range(20):
            durable = int(writer.stdout.readline())
        writer.kill()
        printed = writer.stdout.read().split()
        writer.wait()
        durable = int(printed[-1]) if printed else durable
        journal, replay = reopened(tmp_path)
        journal.close()
        assert replay.last_seq >= durable
        assert replay.damage is None or replay.damage.entries_lost is None
        assert replay.entries == tuple(entry(n) for n in range(1, replay.last_seq + 1))


def cut_log(directory: Path, keep: float) -> None:
    """The directory as after a crash of the machine that lost the end of the write-ahead log."""
    wal = directory / f"{FILE}-wal"
    os.truncate(wal, int(wal.stat().st_size * keep))


def crashed_copy(directory: Path, copy: Path, count: int) -> None:
    """A copy of the files of a journal that was never closed."""
    journal = SqliteJournal(directory, "job")
    for n in range(1, count + 1):
        journal.append([entry(n)]).result()
    copy.mkdir()
    for name in (FILE, f"{FILE}-wal"):
        shutil.copyfile(directory / name, copy / name)
    journal.close()


def test_a_log_cut_inside_a_record_recovers_to_the_last_whole_one_and_says_so(tmp_path):
    copy = tmp_path / "copy"
    crashed_copy(tmp_path / "live", copy, 20)
    cut_log(copy, 0.5)
    journal, replay = reopened(copy)
    assert replay.damage is not None
    last = replay.damage.last_whole_seq
    assert 1 <= last < 20
    assert f"entry {last}" in replay.damage.sentence and str(copy) in replay.damage.sentence
    assert replay.entries == tuple(entry(n) for n in range(1, last + 1))
    journal.append([entry(last + 1)]).result()
    journal.close()
    assert reopened(copy)[1].last_seq == last + 1


def test_a_file_cut_in_the_middle_is_salvaged_and_kept_aside(tmp_path):
    filled(tmp_path, 400)
    path = tmp_path / FILE
    os.truncate(path, path.stat().st_size // 2)
    journal, replay = reopened(tmp_path)
    assert replay.damage is not None
    last = replay.damage.last_whole_seq
    assert 50 < last < 400
    assert replay.entries == tuple(entry(n) for n in range(1, last + 1))
    assert Path(replay.damage.set_aside).name == f"{FILE}.damaged-1"
    assert replay.damage.set_aside in replay.damage.sentence
    journal.append([entry(last + 1)]).result()
    journal.close()
    journal, replay = reopened(tmp_path)
    assert replay.damage is None and replay.last_seq == last + 1
    journal.close()


def test_an_early_page_destroyed_leaves_the_snapshot_and_what_followed(tmp_path):
    journal = SqliteJournal(tmp_path, "job")
    journal.append([entry(n) for n in range(1, 301)]).result()
    journal.snapshot(Snapshot(300, b"state" * 10, b"digest")).result()
    journal.append([entry(n) for n in range(301, 401)]).result()
    journal.close()
    path = tmp_path / FILE
    at = path.read_bytes().index(b"entry 40")
    with open(path, "r+b") as file:
        file.seek(at // 4096 * 4096)
        file.write(b"\xff" * 4096)
    journal, replay = reopened(tmp_path)
    assert replay.snapshot is not None and replay.snapshot.seq == 300
    assert replay.last_seq == 400
    journal.close()


@pytest.mark.parametrize("content", [b"", b"this is no database " * 400])
def test_a_file_that_is_nothing_is_kept_aside_and_begun_anew(tmp_path, content):
    filled(tmp_path, 3)
    (tmp_path / FILE).write_bytes(content)
    journal, replay = reopened(tmp_path)
    assert replay.last_seq == 0
    assert replay.damage is not None and replay.damage.last_whole_seq == 0
    assert Path(replay.damage.set_aside).read_bytes() == content
    journal.close()


def test_a_changed_row_ends_the_replay_before_it(tmp_path):
    filled(tmp_path, 10)
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE entries SET body = (SELECT body FROM entries WHERE seq = 3) WHERE seq = 7")
    journal, replay = reopened(tmp_path)
    assert replay.last_seq == 6
    assert replay.damage is not None and replay.damage.entries_lost == 4
    assert "entry 7 is not as it was written" in replay.damage.sentence
    journal.close()


def test_a_directory_of_another_job_is_refused_and_unharmed(tmp_path):
    filled(tmp_path, 2)
    with pytest.raises(JournalUnusable, match="belongs to job 'job', not 'other'") as refused:
        SqliteJournal(tmp_path, "other")
    assert str(refused.value).count("give another directory") == 1
    assert reopened(tmp_path)[1].last_seq == 2


def test_a_directory_of_another_schema_is_refused(tmp_path):
    filled(tmp_path, 2)
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    with pytest.raises(JournalUnusable, match="schema 99"):
        SqliteJournal(tmp_path, "job")


def test_a_second_process_is_refused_and_told_the_first_ones_pid(tmp_path):
    journal = SqliteJournal(tmp_path, "job")
    with pytest.raises(JournalUnusable, match=f"in use by process {os.getpid()}"):
        SqliteJournal(tmp_path, "job")
    journal.close()
    SqliteJournal(tmp_path, "job").close()


def test_a_path_that_cannot_be_a_directory_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalUnusable, match=f"{tmp_path}/file/state cannot be made: Not a directory"):
        SqliteJournal(tmp_path / "file" / "state", "job")


def test_a_directory_that_is_not_writable_is_named():
    with pytest.raises(JournalUnusable, match="state directory /proc/self cannot be written"):
        SqliteJournal(Path("/proc/self"), "job")


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "fuse.glusterfs"])
def test_a_remote_file_system_is_refused(tmp_path, kind):
    mounts = tmp_path / "mounts"
    shared = tmp_path / "shared dir"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {str(shared).replace(' ', chr(92) + '040')} {kind} rw 0 0\n")
    with pytest.raises(JournalUnusable, match=f"is on {kind}"):
        StateDirectory(shared / "job", mounts=str(mounts))
    assert file_system_of(tmp_path, str(mounts)) == "ext4"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {made.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_a_named_failure_and_keeps_what_was_durable(small_disk):
    journal = SqliteJournal(small_disk, "job")
    durable = 0
    with pytest.raises(JournalFailed, match="full"):
        for n in range(1, 2000):
            journal.append([entry(n, size=4000)]).result()
            durable = n
    with pytest.raises(JournalFailed):
        journal.append([entry(durable + 1)]).result()
    journal.close()
    assert durable > 10
    journal, replay = reopened(small_disk)
    assert replay.last_seq == durable
    journal.close()


def test_a_successor_waits_for_the_directory_of_a_process_that_is_just_ending(tmp_path):
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.libs.journal_writer", str(tmp_path)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    writer.stdout.readline()
    with pytest.raises(JournalUnusable, match=f"in use by process {writer.pid}"):
        SqliteJournal(tmp_path, "job", wait_for_lock_s=0.05)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(SqliteJournal, tmp_path, "job", 20.0)
        writer.kill()
        journal = opening.result(30)
    assert journal.replay().last_seq >= 1
    journal.close()
    writer.communicate()
