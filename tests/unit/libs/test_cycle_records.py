"""Files of cycle records: whole at any moment, never one over another's, nothing lost on the way back."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from resurge_libs.obs import cycle_files
from resurge_libs.obs.cycle_record import (
    SCHEMA,
    BadRecord,
    CycleEnd,
    CycleRecord,
    NodePlace,
    RankPlace,
    RankReplaced,
    as_json,
    from_json,
)

RECORD = CycleRecord(
    job="train",
    attempt=2,
    cycle=3,
    generation=9,
    start=1_700_000_000.125,
    end=1_700_000_100.5,
    recovery_of="inc-1",
    restored_iteration=40,
    ended_by=CycleEnd(
        "inc-2", "WORKER_EXIT", "rank 1 exited with 3", "n2/1", "RESTART", "2 left", "policy", None, 40, 44, "late"
    ),
    nodes=(NodePlace("a", "node001", 0, "/logs/2/3"), NodePlace("b", "node002", 1, "/logs/2/3")),
    standby_hosts=("node003",),
    ranks=(RankPlace(0, "a", "node001", 0, 11), RankPlace(1, "b", "node002", 0, None)),
    replaced=(
        RankReplaced(1, "b", 4, "WORKER_SIGNAL", "ended by SIGKILL", 1_700_000_050.0, 12, 1_700_000_050.5, 13),
        RankReplaced(0, "a", 5, "WORKER_EXIT", "exited with 3", 1_700_000_060.0, 11, given_up="no restart is left"),
    ),
)
READS, WRITES = 3_000, 200


def test_json_and_back_is_the_same_record():
    told = json.loads(json.dumps(as_json(RECORD)))
    assert from_json(told) == RECORD
    assert told["active_nodes"] == "node[001-002]" and told["standby_nodes"] == "node003"
    assert told["cycle_start_time"] == "2023-11-14T22:13:20.125Z"
    assert told["cycle_log_file"] == "/logs/2/3", "all nodes name the same directory"
    assert told["ranks"][1] == {"rank": 1, "node": "b", "host": "node002", "local_rank": 0, "pid": None}


def test_a_running_cycle_has_no_end_and_nodes_that_differ_have_no_common_log():
    other = replace(RECORD.nodes[1], log_dir="/elsewhere")
    running = replace(RECORD, end=None, ended_by=CycleEnd(), nodes=(RECORD.nodes[0], other))
    told = as_json(running)
    assert told["cycle_end_time"] == "" and told["incident"] is None and told["cycle_log_file"] == ""
    assert from_json(told) == running


@pytest.mark.parametrize(
    "found", [[], {}, {"schema": "resurge.cycle/2"}, {"schema": SCHEMA}, {**as_json(RECORD), "ranks": [{"rank": "x"}]}]
)
def test_what_is_no_record_is_refused_with_the_reason(found: object):
    with pytest.raises(BadRecord):
        from_json(found)


def test_a_record_of_an_earlier_release_tells_of_no_rank_that_was_replaced():
    told = as_json(RECORD)
    assert told["replaced"][0]["back_time"] == "2023-11-14T22:14:10.500Z" and told["replaced"][1]["back_time"] is None
    del told["replaced"]
    assert from_json(told) == replace(RECORD, replaced=())


def test_fields_of_a_later_release_do_no_harm():
    assert from_json({**as_json(RECORD), "colour": "blue"}) == RECORD


def test_a_reader_never_sees_half_a_record(tmp_path: Path):
    """A writer in a loop, records of very different length, and a reader that follows file and link meanwhile."""
    small = replace(RECORD, end=None, ended_by=CycleEnd())
    large = replace(RECORD, ranks=tuple(RankPlace(n, "a", "node001", n, n) for n in range(200)))
    path = cycle_files.record_path(tmp_path, "train", 2, 3)
    over, written = threading.Event(), 0

    def write() -> None:
        nonlocal written
        while not over.is_set():
            for record in (small, large):
                cycle_files.write_record(path, record)
                cycle_files.point_current(path)
                written += 1

    cycle_files.write_record(path, small)
    cycle_files.point_current(path)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = set()
        for number in range(READS):
            name = path if number % 2 else cycle_files.current_path(tmp_path, "train", 2)
            # whole: the text is JSON to its end, and as long as one of the two is
            seen.add(len(json.loads(name.read_text())["ranks"]))
    finally:
        over.set()
        writer.join()
    assert seen == {2, 200}
    assert sorted(file.name for file in path.parent.iterdir()) == ["current", "cycle_3.json"], "nothing is left over"


def test_a_failed_write_leaves_the_record_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = cycle_files.record_path(tmp_path, "train", 2, 3)
    cycle_files.write_record(path, RECORD)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        cycle_files.write_record(path, replace(RECORD, restored_iteration=1))
    assert cycle_files.read_record(path) == RECORD and len(list(path.parent.iterdir())) == 1


def test_records_of_earlier_starts_are_put_aside_under_names_of_their_own(tmp_path: Path):
    path = cycle_files.record_path(tmp_path, "train", 1, 0)
    for generation in (1, 2, 3):
        if path.exists():
            cycle_files.put_aside(path)
        cycle_files.write_record(path, replace(RECORD, attempt=1, cycle=0, generation=generation))
    found = {item.path.name: item.record.generation for item in cycle_files.read_all(tmp_path) if item.record}
    assert found == {"cycle_0.json": 3, "cycle_0.earlier-1.json": 1, "cycle_0.earlier-2.json": 2}


def test_a_damaged_file_is_told_and_the_others_are_read(tmp_path: Path):
    cycle_files.write_record(cycle_files.record_path(tmp_path, "train", 2, 3), RECORD)
    broken = cycle_files.record_path(tmp_path, "train", 2, 4)
    broken.write_text('{"schema": "resurge.cyc')
    found = {item.path: item for item in cycle_files.read_all(tmp_path, "train")}
    assert found[broken].record is None and "no JSON" in found[broken].problem
    assert len(found) == 2


@pytest.mark.parametrize("job", ["..", "a/b", ""])
def test_a_job_that_is_no_name_leads_nowhere(tmp_path: Path, job: str):
    with pytest.raises(ValueError, match="no name"):
        cycle_files.record_path(tmp_path, job, 1, 0)
