"""Records for people survive a cut-off write; the writer goes on after one."""

from __future__ import annotations

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.rpc.records import append_record, read_record, read_records, replace_record


def test_records_come_back_in_their_order(tmp_path):
    file = tmp_path / "recoveries.jsonl"
    for incident, step in (("a", 1), ("b", 2), ("a", 3)):
        append_record(file, rendezvous_pb2.Recovery(incident_id=incident, restored_step=step))
    found = read_records(file, rendezvous_pb2.Recovery)
    assert [(item.incident_id, item.restored_step) for item in found.records] == [("a", 1), ("b", 2), ("a", 3)]
    assert found.unreadable_lines == 0


def test_a_line_cut_off_is_counted_and_the_rest_is_read(tmp_path):
    file = tmp_path / "recoveries.jsonl"
    append_record(file, rendezvous_pb2.Recovery(incident_id="a"))
    with file.open("ab") as stream:
        stream.write(b'{"incident_id": "b", "outc')
    append_record(file, rendezvous_pb2.Recovery(incident_id="c"))
    found = read_records(file, rendezvous_pb2.Recovery)
    assert [item.incident_id for item in found.records] == ["a", "c"]
    assert found.unreadable_lines == 1


def test_a_missing_file_holds_nothing(tmp_path):
    assert read_records(tmp_path / "none", rendezvous_pb2.Recovery).records == ()
    assert read_record(tmp_path / "none", rendezvous_pb2.Job) is None


def test_a_record_is_replaced_whole(tmp_path):
    file = tmp_path / "job.json"
    replace_record(file, rendezvous_pb2.Job(cycle=1))
    replace_record(file, rendezvous_pb2.Job(cycle=2))
    assert read_record(file, rendezvous_pb2.Job) == rendezvous_pb2.Job(cycle=2)
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]
    file.write_text("{")
    assert read_record(file, rendezvous_pb2.Job) is None
