"""The wait for GPU memory: it holds back the spawn alone, polls fast at first, ends, and is told."""

from __future__ import annotations

from typing import Any

from resurge_launcher.core import happenings as h
from resurge_launcher.core.observe import observe
from resurge_launcher.core.reclaim import GpuHolder, GpuReading, ReclaimRules, ReclaimStatus
from resurge_libs.core.ids import Generation
from tests.unit.launcher.core_world import Node, down, of, run

G1 = Generation(1)
RULES = ReclaimRules()


def gpu(index: int, used_mb: int | None, **more: Any) -> GpuReading:
    return GpuReading(f"GPU-{index}", index, used_mb, total_mb=81_559, **more)


def torn_down(rules: ReclaimRules | None = RULES) -> Node:
    """A node whose generation 1 is gone."""
    node = Node(reclaim=rules).running(max_restarts=3)
    node.feed(h.BeatAcked(node.now, 600.0))
    node.want(down())
    node.all_killed()
    return node


def looks(node: Node, *readings: GpuReading, problem: str = "") -> list[h.Action]:
    return node.feed(h.GpuMemoryRead(G1, readings, problem))


def spawns(actions: list[h.Action]) -> bool:
    return bool(of(actions, h.SpawnWorkers))


def told(node: Node) -> ReclaimStatus:
    (one,) = of(node.actions, h.TellReclaim)
    return one.reclaim.status


def restarted(node: Node) -> Node:
    """The next generation is wanted; what the last one left is not free yet."""
    node.want(run(2, max_restarts=3))
    node.move(0)
    return node


def test_the_node_is_ready_at_once_and_only_the_spawn_waits():
    node = torn_down()
    assert observe(node.state).phase is h.NodePhase.READY
    assert of(node.actions, h.ReadGpuMemory) == [h.ReadGpuMemory(G1)]
    restarted(node)
    assert not spawns(node.actions[-5:]) and observe(node.state).phase is h.NodePhase.STARTING
    assert not spawns(looks(node, gpu(0, 60_000)))
    node.move(0.21)
    fresh = looks(node, gpu(0, 300)) + node.move(0)
    assert spawns(fresh)
    assert told(node) is ReclaimStatus.RECLAIMED


def test_what_is_free_at_the_first_look_costs_nothing():
    node = torn_down()
    looks(node, gpu(0, 0), gpu(1, 512))
    assert told(node) is ReclaimStatus.RECLAIMED
    assert spawns(node.want(run(2, max_restarts=3)) + node.move(0))


def test_it_looks_fast_in_the_first_two_seconds_then_slower():
    node = torn_down()
    began, times = node.now, []
    while node.now - began < 9.0:
        looks(node, gpu(0, 60_000))
        before = len(of(node.actions, h.ReadGpuMemory))
        while len(of(node.actions, h.ReadGpuMemory)) == before:
            node.move(0.05)
        times.append(node.now - began)
    gaps = [after - before for before, after in zip([0.0, *times], times, strict=False)]
    assert len([at for at in times if at < 2.0]) > 7, "fast looks"
    assert all(gap <= 0.26 for at, gap in zip(times, gaps, strict=True) if at < 2.0)
    assert all(1.9 < gap < 2.1 for at, gap in zip(times, gaps, strict=True) if at > 4.3)


def test_a_given_interval_holds_from_the_first_look():
    node = torn_down(ReclaimRules(poll_interval_s=1.0))
    looks(node, gpu(0, 60_000))
    assert not of(node.move(0.95), h.ReadGpuMemory)
    assert of(node.move(0.1), h.ReadGpuMemory)


def test_at_the_timeout_the_restart_goes_on_and_the_record_says_who_holds_what():
    node = restarted(torn_down(ReclaimRules(timeout_s=3.0)))
    held = gpu(0, 60_000, holders=(GpuHolder(4711, 59_000, "python", "D"),))
    fresh: list[h.Action] = []
    while not spawns(fresh):
        fresh = looks(node, held, gpu(1, 10)) + node.move(0.25)
    assert told(node) is ReclaimStatus.TIMEOUT
    (span,) = [span for span in observe(node.state).spans if span.name == "reclaim"]
    attributes = dict(span.attributes)
    assert 2.9 < span.end - span.start < 3.1
    assert attributes["resurge.reclaim.status"] == "timeout"
    assert attributes["resurge.gpu.GPU-0"].startswith("timeout")
    assert "held by pid 4711 python (D) 59000 MiB" in attributes["resurge.gpu.GPU-0"]
    assert attributes["resurge.gpu.GPU-1"].startswith("reclaimed")


def test_a_driver_that_never_answers_holds_a_restart_no_longer_than_the_timeout():
    node = restarted(torn_down(ReclaimRules(timeout_s=3.0)))
    assert not spawns(node.move(2.9))
    assert spawns(node.move(0.2))
    assert told(node) is ReclaimStatus.TIMEOUT


def test_a_driver_that_cannot_be_asked_is_not_waited_for():
    node = restarted(torn_down())
    assert spawns(looks(node, problem="LibraryNotFound: NVML Shared Library Not Found"))
    assert told(node) is ReclaimStatus.UNKNOWN


def test_a_lost_gpu_is_unknown_and_does_not_hide_that_another_is_held():
    node = restarted(torn_down())
    lost = gpu(1, None, problem="GpuIsLost")
    for _ in range(5):
        assert not spawns(looks(node, gpu(0, 60_000), lost))
        node.move(0.21)
    looks(node, gpu(0, 0), lost)
    node.move(0.21)
    looks(node, gpu(0, 0), lost)
    node.move(0.21)
    assert spawns(looks(node, gpu(0, 0), lost)), "three looks at which only the lost one is left"
    (one,) = of(node.actions, h.TellReclaim)
    assert (one.reclaim.status, "GpuIsLost" in one.reclaim.problem) == (ReclaimStatus.UNKNOWN, True)


def test_without_gpus_or_restarts_and_at_the_first_start_nobody_looks():
    assert not of(torn_down(None).actions, h.ReadGpuMemory)
    assert not of(Node(reclaim=RULES).running().actions, h.ReadGpuMemory)


def test_an_answer_about_an_older_generation_is_ignored():
    node = restarted(torn_down())
    assert not spawns(node.feed(h.GpuMemoryRead(Generation(0), (gpu(0, 0),))))


def test_a_backoff_and_the_wait_run_side_by_side():
    node = torn_down()
    node.want(run(2, max_restarts=3, delay_s=1.0))
    looks(node, gpu(0, 0))
    assert not spawns(node.move(0.9))
    assert spawns(node.move(0.2))


def test_it_looks_when_it_is_time_and_not_while_an_answer_is_awaited():
    node = torn_down()
    assert not of(node.feed(h.Tick()), h.ReadGpuMemory), "the answer to the first look is awaited"
    looks(node, gpu(0, 60_000))
    assert not of(node.feed(h.Tick()), h.ReadGpuMemory), "it is not time yet"
    assert of(node.move(0.21), h.ReadGpuMemory)


def test_only_looks_in_a_row_that_see_nothing_end_the_wait():
    node = torn_down()
    for used_mb in (None, None, 60_000, None, None):
        looks(node, gpu(0, used_mb))
        node.move(0.21)
    assert node.state.reclaim.is_pending
    looks(node, gpu(0, None))
    assert told(node) is ReclaimStatus.UNKNOWN


def test_each_gpu_has_the_time_at_which_it_was_free():
    node = torn_down()
    looks(node, gpu(0, 0), gpu(1, 60_000))
    node.move(0.21)
    looks(node, gpu(0, 0), gpu(1, 0))
    (one,) = of(node.actions, h.TellReclaim)
    assert [round(story.elapsed_s, 1) for story in one.reclaim.gpus] == [0.0, 0.2]
