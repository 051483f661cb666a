"""What leaves of a recovery: the whole trace once, amendments without doubles, and what a crash cut off again."""

import json
from threading import Event

import pytest

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId, JobId, NodeId, Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.trace_ids import root_span_id_of, span_id_of
from resurge_libs.core.verdict import FaultView, IncidentView, Verdict, VerdictKind
from resurge_libs.obs.sinks import JsonLinesSink
from resurge_libs.rpc.records import read_job, read_recoveries
from resurge_libs.testing.wait import wait_until
from resurge_rendezvous.core.model import FaultRecord, RecoveryOutcome, RecoveryRecord, RecoverySpan
from resurge_rendezvous.export import RecoveryExport, spans_of

INCIDENT = IncidentId("inc-1")
BECAUSE = Because(Reason.WORKER_SIGNAL, "SIGSEGV")


def record(*more, incident=INCIDENT):
    view = IncidentView(
        job=JobId("train"),
        attempt=Attempt(1),
        generation=Generation(7),
        cycle=Cycle(2),
        incident=incident,
        round=0,
        faults=(FaultView(NodeId("n1"), BECAUSE, Rank(5)),),
        restarts_spent=0,
        max_restarts=3,
        min_nodes=2,
        nodes_available=3,
    )
    return RecoveryRecord(
        incident=incident,
        outcome=RecoveryOutcome.RECOVERED,
        because=Because(Reason.RECOVERED, "all ranks have committed a step"),
        start=Wall(100.0),
        end=Wall(101.0),
        attempt=Attempt(1),
        cycle=Cycle(2),
        generation_from=Generation(7),
        generation_to=Generation(8),
        rounds=1,
        faults=(FaultRecord(NodeId("n1"), BECAUSE, Wall(100.0), Generation(7), rank=Rank(5)),),
        view=view,
        verdict=Verdict(VerdictKind.RESTART, BECAUSE, restarts_left=2, source="policy"),
        spans=(
            RecoverySpan("detect", Wall(100.0), Wall(100.1)),
            RecoverySpan("teardown", Wall(100.1), Wall(100.5), NodeId("n1"), clock_error_s=0.001),
            *more,
        ),
    )


@pytest.fixture
def exporting(tmp_path):
    def start():
        return RecoveryExport(tmp_path, JsonLinesSink(tmp_path / "spans.jsonl"))

    return start


def exported(tmp_path):
    return [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]


def test_the_trace_has_one_root_and_every_child_under_it():
    spans = spans_of(record(RecoverySpan("decide", Wall(100.1), Wall(100.2), round=1)))
    assert [span.name for span in spans] == ["recovery", "detect", "teardown", "decide"]
    assert spans[0].span_id == root_span_id_of(INCIDENT) and spans[0].parent_id is None
    assert {span.parent_id for span in spans[1:]} == {spans[0].span_id}
    assert spans[3].span_id == span_id_of(INCIDENT, "decide#1"), "a retry's span is a span of its own"
    assert spans[0].attributes["resurge.culprit"] == "n1/5"
    told = spans[0].attributes
    assert (told["resurge.reason"], told["resurge.sentence"]) == ("WORKER_SIGNAL", "SIGSEGV"), "not the fault"
    assert told["resurge.outcome"] == RecoveryOutcome.RECOVERED.value
    assert spans[2].attributes["resurge.clock_error_s"] == 0.001
    assert (spans[1].service, spans[2].service) == ("rendezvous", "launcher")


def test_an_amendment_exports_only_what_is_new_and_the_last_line_holds(exporting, tmp_path):
    export = exporting()
    export.export(record())
    export.export(record(RecoverySpan("first_step", Wall(100.6), Wall(101.0), NodeId("n2"), Rank(1))))
    export.close()
    assert [span["name"] for span in exported(tmp_path)] == ["recovery", "detect", "teardown", "first_step"]
    (told,) = read_recoveries(tmp_path).recoveries
    assert len(told.spans) == 3 and told.generation_to == 8


class HeldSink:
    """Takes spans only when it is let: a slow disk."""

    def __init__(self) -> None:
        self.free, self.spans = Event(), []

    def export(self, spans) -> None:
        self.free.wait(5)
        self.spans.extend(spans)

    def close(self, limit_s: float = 1.0) -> None:
        pass


def test_many_amendments_in_a_row_are_written_once(tmp_path):
    sink = HeldSink()
    export = RecoveryExport(tmp_path, sink)
    late = [RecoverySpan("spawn", Wall(100.6), Wall(101.0), NodeId(f"n{number}")) for number in range(50)]
    for count in range(len(late) + 1):
        export.export(record(*late[:count]))
    sink.free.set()
    export.close()
    assert len((tmp_path / "recoveries.jsonl").read_text().splitlines()) <= 3, "one under way, one behind it"
    (told,) = read_recoveries(tmp_path).recoveries
    assert len(told.spans) == 2 + len(late)
    assert len(sink.spans) == len({span.span_id for span in sink.spans}) == 1 + 2 + len(late)


def test_what_a_crash_cut_off_is_exported_at_the_next_start_and_nothing_twice(exporting, tmp_path):
    export = exporting()
    export.export(record())
    export.close()
    with (tmp_path / "recoveries.jsonl").open("a") as file:
        file.write('{"incident_id": "inc-2", "outc')  # the process died within this line
    export = exporting()
    export.catch_up([record(), record(incident=IncidentId("inc-2"))])
    export.close()
    assert [item.incident_id for item in read_recoveries(tmp_path).recoveries] == ["inc-1", "inc-2"]
    roots = [span["trace_id"] for span in exported(tmp_path) if span["name"] == "recovery"]
    assert len(roots) == len(set(roots)) == 2


def test_a_host_without_a_directory_exports_spans_only(tmp_path):
    export = RecoveryExport(None, JsonLinesSink(tmp_path / "spans.jsonl"))
    export.catch_up([record()])
    export.export(record())
    export.close()
    assert len(exported(tmp_path)) == 3 and not (tmp_path / "recoveries.jsonl").exists()


def test_the_end_of_a_job_that_found_no_room_is_written_when_there_is_some(exporting, tmp_path):
    obstacle = tmp_path / "job.json"
    obstacle.mkdir()
    export = exporting()
    export.show_last()
    ended = rendezvous_pb2.Job(decision=rendezvous_pb2.TerminalDecision(exit_code=0))
    export.show_job(ended)
    wait_until(lambda: export.is_idle, 10, "the first try")
    assert read_job(tmp_path) is None
    obstacle.rmdir()
    export.show_last()
    export.close()
    assert read_job(tmp_path) == ended
