"""Recovery records: their spans cover what happened, from the first signal to the last first step."""

from __future__ import annotations

import dataclasses

import pytest

from resurge_libs.core.ids import IncidentId, Rank
from resurge_libs.core.instant import Wall
from resurge_rendezvous.core.model import (
    Milestone,
    MilestoneKind,
    NodePhase,
    ObservedSpan,
    RecoveryOutcome,
    RecoveryRecord,
)
from resurge_rendezvous.core.views import recoveries_view, recovery_view
from resurge_rendezvous.wire_out import recovery_to_proto
from tests.unit.rendezvous.desk import RESTART, Desk, started


def covered(record: RecoveryRecord) -> float:
    """The share of the root that its children cover."""
    spans = sorted((max(s.start, record.start), min(s.end, record.end)) for s in record.spans)
    total, upto = 0.0, record.start
    for start, end in spans:
        total += max(0.0, end - max(start, upto))
        upto = max(upto, end)
    return total / (record.end - record.start)


def start_slowly(d: Desk, *nodes: str):
    marks: dict[str, tuple[Milestone, ...]] = dict.fromkeys(nodes, ())
    for kind in MilestoneKind:
        for node in nodes:
            d.now += 0.3
            run = d.run_of(node)
            marks[node] += (Milestone(Rank(run.base_rank), kind, d.wall, 40),)
            d.tell(node, NodePhase.RUNNING, run.generation, milestones=marks[node])


def recover(d: Desk):
    d.now += 0.05
    d.verdict(dataclasses.replace(RESTART, delay_s=0.4))
    d.now += 0.2
    d.down("n0", "n1")
    d.wait(0.5, ("n0", "n1"))


def test_the_children_cover_the_root():
    d = started()
    d.now += 1.0
    signal_at = d.wall - 0.1
    d.crash("n1", at=signal_at)
    recover(d)
    start_slowly(d, "n0", "n1")
    record = d.exported[-1]
    assert record.outcome is RecoveryOutcome.RECOVERED
    assert (record.start, record.end) == (signal_at, d.wall)
    assert covered(record) > 0.999
    assert record.restored_step == 40
    assert (record.generation_from, record.generation_to, record.rounds) == (1, 2, 1)
    assert record.faults[0].node == "n1"
    assert record.verdict.kind.value == "RESTART"


def test_a_start_that_committed_steps_ends_a_crash_loop():
    d = started()
    d.crash("n1")
    recover(d)
    start_slowly(d, "n0", "n1")
    d.crash("n1")
    assert d.asked[-1].view.failure_ages_s == (), "a recovered job owes no backoff"


def test_a_retry_is_covered_too_and_its_spans_are_spans_of_their_own():
    d = started()
    d.crash("n1")
    recover(d)
    d.now += 2.0
    d.running("n0", "n1")
    d.crash("n0")
    recover(d)
    start_slowly(d, "n0", "n1")
    record = d.exported[-1]
    assert (record.rounds, record.generation_to) == (2, 3)
    assert covered(record) > 0.999
    names = [(s.name, s.node, s.rank, s.round) for s in record.spans]
    assert len(names) == len(set(names))


def test_a_script_that_reports_less_is_covered_all_the_same():
    d = started()
    d.crash("n1")
    recover(d)
    d.now += 1.0
    for node in ("n0", "n1"):
        run = d.run_of(node)
        d.tell(
            node, NodePhase.RUNNING, 2, milestones=(Milestone(Rank(run.base_rank), MilestoneKind.FIRST_STEP, d.wall),)
        )
    record = d.exported[-1]
    assert record.outcome is RecoveryOutcome.RECOVERED
    assert covered(record) > 0.999


@pytest.mark.parametrize("offset_s", [-2e11, 2e11])
def test_a_clock_that_cannot_be_leaves_a_record_that_can_be_shown(offset_s):
    d = started()
    d.ask_offset("n1", offset_s)
    d.crash("n1")
    incident = IncidentId(d.asked[0].view.incident)
    raw = ObservedSpan("teardown", Wall(d.wall - 0.3), Wall(d.wall - 0.1), None, ())
    d.tell("n1", NodePhase.READY, 1, spans=(raw,), incident=incident)
    d.verdict()
    d.down("n0")
    d.proven("n0", "n1")
    shown = recovery_to_proto(d.exported[-1])
    assert 0 <= shown.start.seconds <= d.wall
    assert all(0 <= told.span.start.seconds <= told.span.end.seconds <= d.wall + 1 for told in shown.spans)


def test_launchers_spans_are_shifted_into_the_services_time_and_keep_their_own():
    d = started()
    d.ask_offset("n1", 5.0)
    d.crash("n1")
    incident = IncidentId(d.asked[0].view.incident)
    d.now += 0.3
    raw = ObservedSpan("teardown", Wall(d.wall - 5.3), Wall(d.wall - 5.1), None, (("resurge.survivors", "0"),))
    d.tell("n1", NodePhase.READY, 1, spans=(raw,), incident=incident)
    d.verdict()
    d.down("n0")
    d.proven("n0", "n1")
    told = [s for s in d.exported[-1].spans if s.node == "n1" and s.name == "teardown"]
    assert len(told) == 1
    assert told[0].start == pytest.approx(d.wall - 0.3)
    assert told[0].clock_error_s == 0.001
    assert ("resurge.raw_start", f"{raw.start:.6f}") in told[0].attributes


def test_launchers_spans_belong_to_the_round_in_which_they_began():
    d = started()
    told: tuple[ObservedSpan, ...] = ()
    for generation in (1, 2):
        d.crash("n1")
        d.now += 0.2
        told += (ObservedSpan("teardown", Wall(d.wall - 0.1), d.wall),)
        incident = IncidentId(d.asked[0].view.incident)
        d.tell("n1", NodePhase.READY, generation, spans=told, incident=incident)
        d.verdict()
        d.down("n0")
    d.proven("n0", "n1")
    rounds = [s.round for s in d.exported[-1].spans if s.node == "n1" and s.name == "teardown"]
    assert rounds == [0, 1]


def test_a_repeated_span_is_kept_once_and_a_late_one_is_added():
    d = started()
    d.crash("n1")
    incident = IncidentId(d.asked[0].view.incident)
    span = ObservedSpan("teardown", d.wall, Wall(d.wall + 0.0))
    late = ObservedSpan("reclaim", d.wall, Wall(d.wall + 0.0))
    d.tell("n1", NodePhase.READY, 1, spans=(span,), incident=incident)
    d.verdict()
    d.down("n0")
    d.proven("n0", "n1")
    count = len(d.exported[-1].spans)
    d.tell("n1", NodePhase.RUNNING, 2, spans=(span, late), incident=incident)
    assert len(d.exported[-1].spans) == count + 1
    exports = len(d.exported)
    d.tell("n1", NodePhase.RUNNING, 2, spans=(span, late), incident=incident)
    assert len(d.exported) == exports


def test_spans_of_another_incident_are_not_believed():
    d = started()
    d.crash("n1")
    span = ObservedSpan("teardown", d.wall, d.wall)
    d.tell("n1", NodePhase.READY, 1, spans=(span,), incident=IncidentId("other"))
    assert len(d.state.volatile.spans) == 0


def test_the_open_recovery_can_be_looked_at():
    d = started()
    d.crash("n1")
    incident = IncidentId(d.asked[0].view.incident)
    assert recovery_view(d.state, incident).outcome is RecoveryOutcome.OPEN
    recover(d)
    assert recoveries_view(d.state)[-1].generation_to == 2
    d.proven("n0", "n1")
    assert recovery_view(d.state, incident).outcome is RecoveryOutcome.RECOVERED
    assert recovery_view(d.state, IncidentId("other")) is None


def test_the_record_is_whole_after_the_service_was_killed_at_any_moment():
    for killed_after in range(6):
        d = started()
        steps = [
            lambda d=d: d.crash("n1"),
            lambda d=d: d.verdict(),
            lambda d=d: d.down("n0", "n1"),
            lambda d=d: d.running("n0"),
            lambda d=d: d.running("n1"),
        ]
        for number, step in enumerate(steps):
            d.now += 0.2
            if number == killed_after:
                d.restart_service()
                for node in ("n0", "n1"):
                    d.hello(node, pid=1)
            step()
        d.now += 0.2
        start_slowly(d, "n0", "n1")
        record = d.exported[-1]
        assert record.outcome is RecoveryOutcome.RECOVERED, killed_after
        assert covered(record) > 0.95, killed_after
