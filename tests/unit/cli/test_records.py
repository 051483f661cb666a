"""Records for people survive a cut-off write, and the newest version of an incident holds."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from resurge_api.common.v1 import ids_pb2
from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_libs.engine import sqlite_file
from resurge_libs.rpc import records
from resurge_libs.rpc.records import (
    JOURNAL_NAME,
    RECOVERIES_BYTES_MAX,
    RECOVERIES_NAME,
    RECOVERIES_OLDER_MAX,
    append_recovery,
    job_record,
    read_job,
    read_recoveries,
    recorded_incidents,
    write_job,
)
from resurge_rendezvous.core.remembered import RECORD_PARTS_MAX, RECORDS_MAX


def test_the_last_version_of_an_incident_holds_in_first_order(tmp_path):
    for incident, step in (("a", 1), ("b", 2), ("a", 3)):
        append_recovery(tmp_path, rendezvous_pb2.Recovery(incident_id=incident, restored_step=step))
    found = read_recoveries(tmp_path)
    assert [(item.incident_id, item.restored_step) for item in found.recoveries] == [("a", 3), ("b", 2)]
    assert found.unreadable_lines == 0


def test_a_line_cut_off_is_counted_and_the_rest_is_read(tmp_path):
    append_recovery(tmp_path, rendezvous_pb2.Recovery(incident_id="a"))
    with (tmp_path / RECOVERIES_NAME).open("ab") as file:
        file.write(b'{"incident_id": "b", "outc')
    append_recovery(tmp_path, rendezvous_pb2.Recovery(incident_id="c"))
    found = read_recoveries(tmp_path)
    assert [item.incident_id for item in found.recoveries] == ["a", "c"]
    assert found.unreadable_lines == 1


def test_older_files_are_read_first_and_the_newest_version_holds_across_them(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RECOVERIES_BYTES_MAX", 100)
    for incident, step in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        append_recovery(tmp_path, rendezvous_pb2.Recovery(incident_id=incident, restored_step=step))
    assert (tmp_path / f"{RECOVERIES_NAME}.1").exists()
    found = [(item.incident_id, item.restored_step) for item in read_recoveries(tmp_path).recoveries]
    assert found == [("a", 3), ("b", 2), ("c", 4)]


def test_the_incidents_of_whole_lines_are_known_without_reading_the_records(tmp_path):
    for incident in ("a", "b", "a"):
        append_recovery(tmp_path, rendezvous_pb2.Recovery(incident_id=incident))
    with (tmp_path / RECOVERIES_NAME).open("ab") as file:
        file.write(b'7\n{"outcome": 1}\n{"incident_id": "cut", "outc')
    assert recorded_incidents(tmp_path) == {"a", "b"}


def test_the_files_outlast_what_the_journal_remembers(tmp_path):
    """Else a control plane would export records again at its next start, and again at the one after."""
    because = ids_pb2.Because(code="WORKER_SIGNAL", sentence="s" * 120)
    told = {
        "resurge.raw_start": "1796023533.232903",
        "resurge.raw_end": "1796023533.289493",
        "resurge.reason": "r" * 40,
    }
    own = attach_pb2.Span(name="checkpoint_restore", attributes=told)
    span = rendezvous_pb2.RecoverySpan(span=own, node_id="n" * 40)
    record = rendezvous_pb2.Recovery(spans=[span] * (RECORD_PARTS_MAX // RECORDS_MAX))
    record.verdict.because.CopyFrom(because)
    append_recovery(tmp_path, record)
    written_thrice = 3 * RECORDS_MAX * (tmp_path / RECOVERIES_NAME).stat().st_size
    assert written_thrice < RECOVERIES_BYTES_MAX * RECOVERIES_OLDER_MAX, "each record may be amended twice"


def test_nothing_written_is_nothing_read(tmp_path):
    assert read_recoveries(tmp_path).recoveries == ()
    assert read_job(tmp_path) is None


def test_a_job_is_replaced_whole(tmp_path):
    write_job(tmp_path, rendezvous_pb2.Job(cycle=1))
    write_job(tmp_path, rendezvous_pb2.Job(cycle=2))
    assert read_job(tmp_path) == rendezvous_pb2.Job(cycle=2)
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]
    (tmp_path / "job.json").write_text("{")
    assert read_job(tmp_path) is None


def test_a_job_that_finds_no_room_leaves_the_old_one_and_nothing_beside_it(tmp_path, monkeypatch):
    write_job(tmp_path, rendezvous_pb2.Job(cycle=1))

    def full(path, text, encoding):
        path.touch()  # made, and then there is no room for a byte
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(Path, "write_text", full)
        write_job(tmp_path, rendezvous_pb2.Job(cycle=2))
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]
    assert read_job(tmp_path) == rendezvous_pb2.Job(cycle=1)


def test_a_job_that_is_not_there_and_one_that_is_damaged_are_told_apart(tmp_path):
    assert job_record(tmp_path).problem == f"{tmp_path}/job.json is not there"
    (tmp_path / "job.json").write_bytes(b"\xff{")
    assert job_record(tmp_path).problem == f"{tmp_path}/job.json is damaged: it holds no whole record of a job"
    (tmp_path / "job.json").unlink()
    (tmp_path / "job.json").mkdir()
    assert job_record(tmp_path).problem == f"{tmp_path}/job.json cannot be read: Is a directory"


def test_the_file_that_decides_has_the_name_that_the_engine_gives_it():
    assert JOURNAL_NAME == sqlite_file.FILE_NAME
