"""Pictures of recoveries: phases and coverage, table, page, trace file, JSON."""

from __future__ import annotations

import html.parser
import json
import re

import pytest
from rich.console import Console

from resurge_api.common.v1 import ids_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.views.explanation import explanation_lines
from resurge_launcher.views.html import page
from resurge_launcher.views.model import CONTROL_PLANE, as_json, duration, view_of
from resurge_launcher.views.perfetto import chrome_trace
from resurge_launcher.views.replay import replayed_by_default
from resurge_launcher.views.table import recoveries_table
from tests.recovery_sample import all_three, killed_rank, recovery, span


@pytest.fixture(scope="module")
def views():
    return [view_of(item) for item in all_three()]


def test_the_culprit_is_the_first_cause_not_the_first_in_the_list(views):
    assert (views[0].culprit, views[0].reason) == ("n0 rank 1", "WORKER_SIGNAL")
    assert views[1].culprit == "n1"


def test_what_was_known_at_the_end_names_the_culprit():
    record = killed_rank()
    record.faults.add(node_id="n1", culprit=True, because=ids_pb2.Because(code="LEASE_EXPIRED", sentence="silent"))
    record.faults.extend(record.incident.faults)
    assert (view_of(record).culprit, view_of(record).reason) == ("n1", "LEASE_EXPIRED")
    told = "\n".join(explanation_lines(record, replayed_by_default(record.incident), "the rules"))
    assert "culprit     n1: LEASE_EXPIRED" in told
    assert "known then  n0 rank 1 was held to be the first" in told


def test_a_phase_lasts_as_long_as_anybody_is_in_it():
    spans = [span("teardown", 0, 10, "n0"), span("teardown", 5, 20, "n1"), span("teardown", 30, 40, "n2")]
    assert view_of(recovery("i", spans, 40)).phases == {"teardown": pytest.approx(0.030)}


def test_phases_come_in_the_order_of_the_story_and_unknown_ones_last():
    spans = [span("spawn", 3, 4), span("made_up", 1, 2), span("detect", 0, 1)]
    assert list(view_of(recovery("i", spans, 4)).phases) == ["detect", "spawn", "made_up"]


def test_coverage_counts_overlaps_once_and_nothing_outside():
    spans = [span("detect", -50, 20), span("decide", 10, 40), span("spawn", 90, 500)]
    assert view_of(recovery("i", spans, 100)).coverage == pytest.approx(0.5)
    assert view_of(recovery("i", [], 100)).coverage == 0.0


def test_a_span_that_ends_before_it_starts_explains_nothing():
    view = view_of(recovery("i", [span("detect", 20, 10)], 100))
    assert view.coverage == 0.0
    assert view.spans[0].duration_s == 0.0


def test_an_open_record_without_an_end_reaches_to_its_last_span():
    record = recovery("i", [span("detect", 0, 30)], 100)
    record.ClearField("end")
    assert view_of(record).total_s == pytest.approx(0.030)


def test_an_open_record_is_never_shorter_than_its_spans():
    record = recovery("i", [span("detect", 0, 130)], 100)
    record.outcome = rendezvous_pb2.RECOVERY_OUTCOME_OPEN
    assert view_of(record).total_s == pytest.approx(0.130)


def test_an_empty_record_is_still_a_view():
    view = view_of(type(killed_rank())(incident_id="x"))
    assert (view.culprit, view.reason, view.verdict, view.total_s) == ("-", "-", "-", 0.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.0002, "0.2 ms"), (0.0714, "71 ms"), (0.9996, "1.00 s"), (1.793, "1.79 s"), (12.34, "12.3 s"),
     (99.99, "1 min 40 s"), (3725, "1 h 02 min")],
)  # fmt: skip
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("width", [80, 110, 200])
def test_the_table_shows_every_phase_at_every_width(views, width):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(recoveries_table(views, width))
    text = console.export_text()
    for word in ("WORKER_SIGNAL", "LEASE_EXPIRED", "1.79 s", "7.10 s", "5.40 s", "first step", "restore", "100%"):
        assert word in text
    assert max(len(line) for line in text.splitlines()) <= width


def test_json_has_stable_names_and_can_be_read_back(views):
    row = json.loads(json.dumps(as_json(views[0])))
    assert row["phases_s"]["checkpoint_restore"] > 0
    assert row["outcome"] == "recovered"
    assert {item["node"] for item in row["spans"]} == {None, "n0", "n1"}


def test_the_trace_file_has_a_process_per_node_and_a_thread_per_rank(views):
    events = chrome_trace(views)["traceEvents"]
    processes = {item["args"]["name"]: item["pid"] for item in events if item["name"] == "process_name"}
    assert set(processes) == {CONTROL_PLANE, "n0", "n1", "n2"}
    threads = {(item["pid"], item["args"]["name"]) for item in events if item["name"] == "thread_name"}
    assert (processes["n1"], "rank 3") in threads
    roots = [item for item in events if item.get("cat") == "recovery"]
    assert [item["ts"] for item in roots] == [0, 60e6, 120e6]
    assert all(item["dur"] >= 0 for item in events if item["ph"] == "X")


class Page(html.parser.HTMLParser):
    """Counts tags and checks that they close."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_and_asks_no_network(views):
    text = page(views, "digits", "now")
    parsed = Page(text)
    assert parsed.open == []
    assert not re.search(r"https?://|url\(|@import|<link|<img|src=", text)
    bars = [attrs for tag, attrs in parsed.seen if "bar" in attrs.get("class", "").split()]
    assert len(bars) == sum(len(view.spans) for view in views)
    assert "prefers-color-scheme: dark" in text


def test_what_people_wrote_cannot_become_markup(views):
    text = page(views, "<script>alert(1)</script>", "now")
    assert "<b>bold" not in text
    assert "<script>alert" not in text
    assert "&lt;b&gt;bold &amp; dangerous" in text


def test_no_recovery_is_said_in_words():
    assert "nothing had to be restarted" in page([], "digits", "now")


def test_bars_of_one_lane_never_lie_upon_each_other():
    spans = [span("decide", 0, 10), span("rendezvous", 5, 8), span("detect", 9, 12), span("spawn", 12, 13)]
    text = page([view_of(recovery("i", spans, 13))], "j", "now")
    tops = re.findall(r'data-phase="(\w+)" data-tip.*?top:(\d+)px', text, re.DOTALL)
    assert dict(tops) == {"decide": "2", "rendezvous": "24", "detect": "24", "spawn": "2"}
