"""Records for people survive a cut-off write, and the newest version of an incident holds."""

from __future__ import annotations

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.rpc.records import RECOVERIES_NAME, append_recovery, read_job, read_recoveries, write_job


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
