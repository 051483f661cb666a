"""When a launcher reads the marker, and that nothing waits for it."""

from __future__ import annotations

from dataclasses import replace

from resurge_launcher.core import happenings as h
from resurge_launcher.core.model import PageReading
from resurge_launcher.core.observe import observe
from resurge_libs.core.ids import Generation
from resurge_libs.core.progress import CycleProgress, MarkerReading, ProgressSource
from tests.unit.launcher.core_world import Node, down, of, run

TRACKS = {"progress": ProgressSource.MARKER, "reads_marker": True}


def looks(actions: list[h.Action]) -> list[bool]:
    return [look.at_start for look in of(actions, h.ReadMarker)]


def read(value: int | None = 5, *, at_start: bool = False, gen: int = 1) -> h.MarkerRead:
    reading = MarkerReading(value) if value is not None else MarkerReading(skipped="hangs")
    return h.MarkerRead(Generation(gen), at_start, reading)


def test_the_marker_is_read_before_the_start_and_at_the_end_of_a_cycle():
    node = Node(**TRACKS).running()
    assert looks(node.actions) == [True]
    assert looks(node.exits(0, signal=11)) == [False]
    assert looks(node.all_killed()) == []


def test_the_look_is_the_first_thing_of_an_end():
    node = Node(**TRACKS).running()
    actions = node.want(down())
    assert isinstance(actions[0], h.ReadMarker)


def test_a_start_and_a_teardown_wait_for_no_reading():
    node = Node(**TRACKS).running()
    node.exits(0, signal=11)
    node.all_killed()
    assert node.phase == "Ready"
    assert node.feed(read())[0].observed.progress.at_end == MarkerReading(5), "what comes late is told late"


def test_only_the_lowest_node_reads():
    node = Node(**TRACKS).running(group_rank=1)
    assert looks(node.actions + node.want(down())) == []


def test_another_node_reads_when_it_is_told_to():
    node = Node(**TRACKS).running(group_rank=1)
    assert looks(node.want(replace(down(), reads_marker=True))) == [False]


def test_it_reads_when_it_is_told_to_while_it_ends_its_workers_already():
    node = Node(**TRACKS).running(group_rank=1)
    assert looks(node.exits(0, signal=11)) == []
    assert looks(node.want(replace(down(), reads_marker=True))) == [False]
    assert looks(node.want(replace(down(incident="i2"), reads_marker=True))) == [], "once is enough"


def test_a_job_that_names_no_marker_looks_at_nothing():
    node = Node().running()
    node.exits(0, signal=11)
    assert looks(node.actions) == [] and observe(node.state).progress is None


def test_a_reading_of_another_generation_is_not_taken():
    node = Node(**TRACKS).running()
    node.exits(0, signal=11)
    node.feed(read(gen=7))
    assert observe(node.state).progress is None


def test_the_newest_committed_step_goes_up_with_it():
    node = Node(**TRACKS).running()
    node.exits(0, signal=11)
    readings = (PageReading(0, step=8, committed_step=7), PageReading(1, step=9, committed_step=6))
    node.feed(h.PagesRead(Generation(1), readings), read(at_start=True), read())
    assert observe(node.state).progress == CycleProgress(MarkerReading(5), MarkerReading(5), True, 7)


def test_the_next_generation_begins_with_nothing_read():
    node = Node(**TRACKS).running()
    node.exits(0, signal=11)
    node.feed(read())
    node.all_killed()
    node.want(run(2))
    node.move(0)
    assert observe(node.state).progress is None


def test_by_the_sdk_no_file_is_needed():
    node = Node(progress=ProgressSource.SDK).running()
    assert looks(node.exits(0, signal=11)) == [] and of(node.actions, h.ReadPages)
