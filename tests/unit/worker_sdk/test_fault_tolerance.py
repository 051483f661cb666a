"""RankMonitorClient under the names of NVIDIA's resiliency extension: which limits run, and how they are learned."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from resurge import fault_tolerance, worker_session
from resurge.fault_tolerance import RankMonitorClient, RankMonitorClientError
from resurge.learned_limits import LongestTimes
from resurge.limits import GivenLimits

S = 1_000_000_000
LIMITS = GivenLimits(
    first_beat_s=100.0,
    beat_s=10.0,
    sections_s={"step": 5.0, "warmup": 50.0, "load": 20.0},
    out_of_section_s=30.0,
    safety_factor=2.0,
    warmup_steps=2,
)


@dataclass
class Clock:
    """Stands still until it is told to go on."""

    now_ns: int = 1_000 * S

    def monotonic_ns(self) -> int:
        return self.now_ns

    def go(self, seconds: float) -> None:
        self.now_ns += int(seconds * S)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(fault_tolerance, "time", clock)
    monkeypatch.setattr(worker_session, "_monotonic_ns", clock.monotonic_ns)
    return clock


@pytest.fixture
def begun(worker, clock, monkeypatch):
    """A client that has begun, with a limit of every kind; and when its worker would count as hung, in seconds."""

    def make(limits: GivenLimits = LIMITS):
        own = worker.session(limits=limits, beat_limit_s=limits.beat_s or 0.0)
        monkeypatch.setattr(fault_tolerance, "session", lambda: own)
        client = RankMonitorClient()
        client.init_workload_monitoring()

        def due_s():
            at_ns = worker.view().hung_at_ns
            return None if at_ns is None else (at_ns - clock.now_ns) / S

        return client, due_s

    return make


ONLY_BEATS = GivenLimits(first_beat_s=100.0, beat_s=10.0, safety_factor=2.0)


def test_the_first_heartbeat_has_a_limit_of_its_own(begun, clock):
    client, due_s = begun(ONLY_BEATS)
    assert due_s() == 100
    clock.go(40)
    client.send_heartbeat()
    assert due_s() == 10
    clock.go(3)
    assert due_s() == 7
    client.send_heartbeat()
    assert due_s() == 10


def test_a_script_without_heartbeats_has_no_limit_for_them(begun, clock):
    client, due_s = begun(GivenLimits(beat_s=10.0, sections_s={"load": 20.0}))
    client.start_section("load")
    client.end_section("load")
    assert due_s() is None


def test_a_section_runs_beside_the_heartbeats_and_the_earliest_end_counts(begun, clock):
    client, due_s = begun()
    client.send_heartbeat()
    client.start_section("load")
    assert due_s() == 10
    clock.go(8)
    client.send_heartbeat()
    clock.go(5)
    assert due_s() == 5, "the heartbeat's; the section's is 7"
    client.send_heartbeat()
    assert due_s() == 7


def test_sections_may_overlap_in_any_way(begun, clock):
    client, due_s = begun(GivenLimits(sections_s={"a": 10.0, "b": 4.0}))
    client.start_section("a")
    clock.go(1)
    client.start_section("b")
    assert due_s() == 4
    client.end_section("a")
    assert due_s() == 4
    client.end_section("b")
    assert due_s() is None


def test_step_has_the_limit_of_the_warm_up_at_first(begun, clock):
    client, due_s = begun(GivenLimits(sections_s={"step": 5.0, "warmup": 50.0}, warmup_steps=2))
    seen = []
    for _ in range(3):
        client.start_section("step")
        seen.append(due_s())
        client.end_section("step")
    assert seen == [50, 50, 5]


def test_outside_of_sections_counts_from_the_last_end(begun, clock):
    client, due_s = begun(GivenLimits(sections_s={"warmup": 9.0, "step": 5.0}, out_of_section_s=30.0))
    assert due_s() == 30
    client.start_section("step")
    clock.go(2)
    client.end_section("step")
    clock.go(1)
    assert due_s() == 29


def test_without_a_warm_up_outside_counts_from_the_first_step_on(begun, clock):
    client, due_s = begun(GivenLimits(sections_s={"step": 5.0}, out_of_section_s=30.0))
    assert due_s() is None
    client.start_section("step")
    client.end_section("step")
    assert due_s() == 30


def test_sections_without_a_limit_are_not_watched(begun):
    client, due_s = begun(GivenLimits(sections_s={"step": 5.0}))
    client.start_section("other")
    client.start_section("other")
    client.end_section("never opened")
    assert due_s() is None


def test_the_name_of_an_open_section_is_on_the_page(begun, worker):
    client, _ = begun()
    client.start_section("load")
    phase = worker.view().phase
    assert phase is not None and phase.name == "load"
    client.end_all_sections()
    assert worker.view().phase is None
    client.end_all_sections()


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (lambda c: (c.start_section("load"), c.start_section("load")), "open already"),
        (lambda c: c.end_section("load"), "not open"),
        (lambda c: c.init_workload_monitoring(), "begun already"),
        (lambda c: (c.shutdown_workload_monitoring(), c.send_heartbeat()), "init_workload_monitoring"),
    ],
)
def test_what_does_not_fit_is_said(begun, calls, words):
    client, _ = begun()
    with pytest.raises(RankMonitorClientError, match=words):
        calls(client)


def test_shutdown_ends_all_limits_and_it_may_begin_anew(begun, worker):
    client, due_s = begun()
    client.start_section("load")
    client.shutdown_workload_monitoring()
    client.shutdown_workload_monitoring()
    assert due_s() is None and worker.view().phase is None
    client.init_workload_monitoring()
    client.start_section("load")
    assert due_s() == 20


def test_limits_of_heartbeats_are_learned_from_the_longest_and_then_move_half_the_way(begun, clock):
    client, due_s = begun(ONLY_BEATS)
    assert not client.calculate_and_set_hb_timeouts(skip_if_not_ready=True)
    with pytest.raises(RankMonitorClientError, match="two heartbeats"):
        client.calculate_and_set_hb_timeouts()
    for wait_s in (40, 3, 4, 1):
        clock.go(wait_s)
        client.send_heartbeat()
    assert client.calculate_and_set_hb_timeouts()
    assert (client.hb_timeouts.initial, client.hb_timeouts.subsequent) == (80, 8), "given ones are replaced"
    assert due_s() == 8
    clock.go(6)
    client.send_heartbeat()
    client.calculate_and_set_hb_timeouts()
    assert client.hb_timeouts.subsequent == (8 + 12) / 2


def test_limits_of_chosen_sections_are_learned_and_the_others_stay(begun, clock):
    client, _ = begun()
    assert not client.calculate_and_set_section_timeouts(skip_if_not_ready=True)
    clock.go(3)
    client.start_section("load")
    clock.go(7)
    client.end_section("load")
    clock.go(4)
    with pytest.raises(RankMonitorClientError, match="end of every section"):
        client.calculate_and_set_section_timeouts()
    assert client.calculate_and_set_section_timeouts(["load"])
    assert client.section_timeouts.section == {"step": 5.0, "warmup": 50.0, "load": 14.0}
    assert client.section_timeouts.out_of_section == 8, "the stretch that runs now counts"


def test_what_was_learned_survives_a_checkpoint(begun, clock):
    client, due_s = begun(ONLY_BEATS)
    assert client.state_dict() == {"current_timeouts": {}}, "what was given is not kept"
    for _ in range(3):
        clock.go(2)
        client.send_heartbeat()
    client.calculate_and_set_hb_timeouts()
    saved = json.loads(json.dumps(client.state_dict()))
    assert saved == {"current_timeouts": {"heartbeat": {"initial": 4, "subsequent": 4, "were_calculated": True}}}
    client.shutdown_workload_monitoring()
    later = RankMonitorClient()
    later.load_state_dict(saved)
    later.init_workload_monitoring()
    assert due_s() == 4
    assert later.hb_timeouts == client.hb_timeouts


def test_learned_sections_survive_too_also_when_loaded_late(begun, clock):
    client, due_s = begun()
    client.start_section("load")
    clock.go(7)
    client.end_section("load")
    client.calculate_and_set_section_timeouts(["load"], calc_out_of_section=False)
    saved = json.loads(json.dumps(client.state_dict()))
    assert saved["current_timeouts"]["section"]["calculated_sections"] == ["load"]
    client.shutdown_workload_monitoring()
    client.init_workload_monitoring()
    client.send_heartbeat()
    client.load_state_dict(saved)
    client.start_section("load")
    clock.go(8)
    client.send_heartbeat()
    assert due_s() == 6


def test_without_a_launcher_everything_works_and_nobody_looks(monkeypatch):
    from resurge.environment import WorkerEnvironment

    monkeypatch.setattr(fault_tolerance, "session", lambda: worker_session.Session(WorkerEnvironment()))
    client = RankMonitorClient()
    client.init_workload_monitoring()
    client.send_heartbeat()
    client.send_heartbeat()
    assert client.calculate_and_set_hb_timeouts()
    assert not client.send_workload_control_request(
        fault_tolerance.WorkloadControlRequest(fault_tolerance.WorkloadAction.ShutdownWorkload)
    ).delivered


def test_the_longest_of_all_ranks_counts(monkeypatch):
    class Distributed:
        @staticmethod
        def is_available() -> bool:
            return True

        is_initialized = is_available

        @staticmethod
        def get_world_size() -> int:
            return 2

        @staticmethod
        def all_gather_object(seen, own) -> None:
            seen[:] = [own, {"load": 9.0, "eval": 1.0}]

    monkeypatch.setitem(__import__("sys").modules, "torch.distributed", Distributed())
    times = LongestTimes({"load": 4.0, "step": 2.0}).of_all_ranks()
    assert [times.get(name) for name in ("load", "step", "eval", "other")] == [9.0, 2.0, 1.0, None]
