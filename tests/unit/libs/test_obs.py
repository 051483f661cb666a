"""Log events, recovery spans, sinks, Perfetto."""

from __future__ import annotations

import io
import json
import os
import re
import threading

import pytest

from resurge_libs.core.ids import IncidentId, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.trace_ids import root_span_id_of, trace_id_of
from resurge_libs.obs import log
from resurge_libs.obs.names import Attr, SpanName
from resurge_libs.obs.recovery_spans import RecoverySpan, coverage, record_of, records_of
from resurge_libs.obs.sinks import JsonLinesSink, QueuedSink, make_sinks

INCIDENT = IncidentId("i-7")
ROOT = RecoverySpan(SpanName.RECOVERY, Wall(100.0), Wall(104.0), service="rendezvous")


def child(name=SpanName.SPAWN, start=100.0, end=101.0, node="n0", rank=None, part=0):
    return RecoverySpan(name, Wall(start), Wall(end), NodeId(node), rank, "launcher", part=part)


@pytest.fixture
def stream():
    out = io.StringIO()
    yield out
    log.configure()
    log.bind(job=None, node=None, generation=None)


def test_a_json_event_has_its_name_its_speaker_and_typed_fields(stream):
    log.configure(as_json=True, stream=stream)
    with log.bound(job="j", node="n1"):
        log.event(
            "verdict", reason=Reason.WORKER_EXIT, because=Because(Reason.TICK, "s"), ranks=frozenset({2, 1}), none=None
        )
    line = json.loads(stream.getvalue())
    assert line.pop("time") > 0
    assert line == {
        "event": "verdict",
        "job": "j",
        "node": "n1",
        "reason": "WORKER_EXIT",
        "because": {"code": "TICK", "sentence": "s"},
        "ranks": [1, 2],
    }


def test_a_readable_event_is_one_line_and_quotes_words_with_spaces(stream):
    log.configure(stream=stream)
    log.bind(node="n1")
    log.event("node_lost", sentence="no beat\nfor 5 s", after_s=5.0)
    assert stream.getvalue().endswith('resurge node_lost node=n1 sentence="no beat\\nfor 5 s" after_s=5\n')
    assert stream.getvalue().count("\n") == 1


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def screen(stream):
    out = Screen()
    log.configure(stream=out)
    log.bind(job="j", node="n1")
    return out


def test_a_terminal_gets_the_sentence_and_the_few_fields_that_matter(screen):
    log.event("fault_seen", reason=Reason.WORKER_EXIT, rank=3, sentence="rank 3 exited with code 1", phase="down")
    log.event("node_lost", reason=Reason.LEASE_EXPIRED, node="n2", sentence="n2 was silent", generation=4)
    log.event("fault_seen", reason=Reason.WORKER_HUNG, rank=5, node="n3", sentence="no beat for 60 s")
    first, second, third = (line.partition(" ") for line in screen.getvalue().splitlines())
    assert re.fullmatch(r"\d\d:\d\d:\d\d", first[0])
    assert first[2] == "resurge rank 3 exited with code 1 (WORKER_EXIT)"
    assert second[2] == "resurge n2 was silent (LEASE_EXPIRED)"
    assert third[2] == "resurge no beat for 60 s (n3, rank 5, WORKER_HUNG)"


def test_a_sentence_is_told_once_in_a_row_and_what_is_new_beside_it_still_is(screen):
    for name, more in (("phase_changed", {"phase": "exiting"}), ("phase_changed", {}), ("exits", {"exit_code": 0})):
        log.event(name, reason=Reason.SUCCEEDED, sentence="all workers exited 0", **more)
    for rank in (1, 1, 2):
        log.event("fault_seen", rank=rank, sentence="no beat for 60 s")
    log.event("phase_changed", sentence="all workers exited 0")
    assert [line.partition("resurge ")[2] for line in screen.getvalue().splitlines()] == [
        "all workers exited 0 (SUCCEEDED)",
        "exits (SUCCEEDED, exit code 0)",
        "no beat for 60 s (rank 1)",
        "no beat for 60 s (rank 2)",
        "all workers exited 0",
    ]


def test_an_event_without_a_sentence_is_told_by_its_name_and_all_its_fields(screen):
    log.event("control_plane_started", pid=7, endpoint="unix:/x y", after_s=0.25, sentence="")
    assert screen.getvalue().partition(" ")[2] == (
        "resurge control plane started (pid 7, endpoint unix:/x y, after 0.25 s)\n"
    )


def test_what_workers_say_is_shown_line_by_line_and_steers_no_terminal(screen):
    log.event("fault_evidence", rank=1, what="last output", text="\n    one\n      two\x1b[2Jx")
    head, *lines = screen.getvalue().splitlines()
    assert head.endswith("resurge fault evidence (rank 1, last output)")
    assert lines == ["    one", "      two [2Jx"]
    log.event("phase_changed", sentence="one\ntwo\x1b]0;x\x07")
    assert screen.getvalue().splitlines()[-1].endswith("resurge one two ]0;x ")


@pytest.mark.parametrize(
    ("event", "fields", "colour"),
    [
        ("fault_seen", {}, log.RED),
        ("launcher_exits", {"exit_code": 1}, log.RED),
        ("launcher_exits", {"exit_code": 0, "reason": Reason.SUCCEEDED}, log.GREEN),
        ("store_not_served", {}, log.YELLOW),
        ("phase_changed", {"reason": Reason.STARTED}, ""),
    ],
)
def test_colours_tell_how_bad_it_is(screen, event, fields, colour):
    log.configure(stream=screen, colours=True)
    log.event(event, sentence="so it is", **fields)
    painted = f"{colour}so it is{log.PLAIN}" if colour else "so it is"
    assert f"resurge {painted}" in screen.getvalue()
    if not colour:
        assert not any(other in screen.getvalue() for other in (log.RED, log.YELLOW, log.GREEN))


def test_machines_get_every_field_also_with_colours(stream):
    log.configure(stream=stream, colours=True)
    log.event("phase_changed", phase="down", reason=Reason.TICK, sentence="a b")
    assert stream.getvalue().endswith('resurge phase_changed phase=down reason=TICK sentence="a b"\n')


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_colours_are_for_terminals_that_show_them_and_people_who_want_them(environ, wanted):
    assert log.wants_colours(environ) is wanted


def test_an_event_that_cannot_be_written_stops_nothing(stream):
    closed = io.StringIO()
    closed.close()
    log.configure(stream=closed)
    log.event("anything")


def test_the_trace_of_a_recovery_has_derived_ids():
    records = records_of(INCIDENT, ROOT, [child(), child(node="n1"), child(rank=Rank(3))])
    assert records[0].span_id == root_span_id_of(INCIDENT) and records[0].parent_id is None
    assert {record.trace_id for record in records} == {trace_id_of(INCIDENT)}
    assert {record.parent_id for record in records[1:]} == {root_span_id_of(INCIDENT)}
    assert len({record.span_id for record in records}) == 4
    assert records == records_of(INCIDENT, ROOT, [child(), child(node="n1"), child(rank=Rank(3))])
    assert records[3].attributes[Attr.RANK] == 3 and records[3].attributes[Attr.INCIDENT] == INCIDENT


def test_a_repeated_phase_is_another_span():
    assert record_of(INCIDENT, child()).span_id != record_of(INCIDENT, child(part=1)).span_id


@pytest.mark.parametrize(
    ("spans", "share"),
    [
        ([], 0.0),
        ([(100, 104)], 1.0),
        ([(100, 101), (100, 101), (103, 104)], 0.5),
        ([(100, 103), (101, 102), (102, 104)], 1.0),
        ([(90, 101), (103, 200)], 0.5),
    ],
)
def test_coverage_counts_each_moment_once(spans, share):
    assert coverage(ROOT, [child(start=s, end=e) for s, e in spans]) == pytest.approx(share)


def test_json_lines_are_appended(tmp_path):
    sink = JsonLinesSink(tmp_path / "spans.jsonl")
    sink.export(records_of(INCIDENT, ROOT, [child()]))
    sink.export(records_of(INCIDENT, ROOT, []))
    lines = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    assert [line["name"] for line in lines] == ["recovery", "spawn", "recovery"]
    assert lines[1]["parent_span_id"] == lines[0]["span_id"] and lines[0]["parent_span_id"] is None
    assert lines[0]["duration_s"] == 4.0


def test_a_file_that_cannot_be_written_is_logged(tmp_path, stream):
    log.configure(stream=stream)
    JsonLinesSink(tmp_path / "none" / "spans.jsonl").export(records_of(INCIDENT, ROOT, []))
    said = stream.getvalue()
    assert "record_not_written" in said and str(tmp_path / "none" / "spans.jsonl") in said


def test_a_hung_exporter_delays_neither_the_caller_nor_the_exit(stream):
    log.configure(stream=stream)
    release, exported = threading.Event(), []

    def export(spans):
        release.wait(30)
        exported.append(spans)

    sink = QueuedSink(lambda: export, "hung")
    for _ in range(600):
        sink.export(records_of(INCIDENT, ROOT, []))
    sink.close(limit_s=0.01)
    assert stream.getvalue().count("spans_dropped") == 1
    release.set()


def test_a_disk_that_stalls_delays_nobody_who_has_spans_to_tell(tmp_path):
    os.mkfifo(tmp_path / "spans.jsonl")  # opening it for writing waits for a reader
    sinks = make_sinks(tmp_path / "spans.jsonl", None)
    teller = threading.Thread(target=sinks.export, args=(records_of(INCIDENT, ROOT, []),), daemon=True)
    teller.start()
    teller.join(10.0)
    assert not teller.is_alive()
    with (tmp_path / "spans.jsonl").open() as reader:
        assert json.loads(reader.readline())["name"] == "recovery"
    sinks.close(limit_s=10.0)


def test_a_failing_exporter_is_logged_and_the_next_export_tried(stream):
    log.configure(stream=stream)
    exported = []

    def export(spans):
        if not exported:
            exported.append("failed")
            raise OSError("unreachable")
        exported.append(spans)

    sink = QueuedSink(lambda: export, "otlp")
    sink.export(records_of(INCIDENT, ROOT, []))
    sink.export(records_of(INCIDENT, ROOT, []))
    sink.close(limit_s=10.0)
    assert "spans_not_exported" in stream.getvalue() and len(exported) == 2


def test_without_an_endpoint_no_exporter_is_made(tmp_path):
    sinks = make_sinks(tmp_path / "s.jsonl", None)
    sinks.export(records_of(INCIDENT, ROOT, []))
    sinks.close()
    assert not any(thread.name.startswith("span-export-otlp") for thread in threading.enumerate())


def test_opentelemetry_spans_keep_ids_and_times():
    from resurge_libs.obs.otel import readable_spans

    root, spawn = readable_spans(records_of(INCIDENT, ROOT, [child()]))
    assert root.context.trace_id == int.from_bytes(trace_id_of(INCIDENT), "big")
    assert spawn.parent is not None and spawn.parent.span_id == root.context.span_id
    assert (root.start_time, root.end_time) == (100_000_000_000, 104_000_000_000)
    assert root.resource.attributes["service.name"] == "resurge-rendezvous"
