"""Progress over restarts at rendezvous: whose reading counts, what is waited for, what survives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.ids import JobId
from resurge_libs.core.progress import CycleProgress, MarkerReading, ProgressRules, ProgressSource
from resurge_libs.core.reasons import Reason
from resurge_libs.core.verdict import default_verdict
from resurge_rendezvous.core.model import JobSpec, NodePhase, ProgressBaselineRead, ProgressChecked, VerdictUnavailable
from tests.unit.rendezvous.desk import LIMITS, Desk

RULES = ProgressRules(ProgressSource.MARKER, 1, 3)
SPEC = JobSpec(JobId("job"), min_nodes=2, max_nodes=3, max_restarts=100, progress=RULES)


def tracking(start: MarkerReading | None = None, **rules) -> Desk:
    """Two nodes run a job that counts; n0, with the lowest ranks, has read the marker at the start."""
    d = Desk(replace(SPEC, progress=replace(RULES, **rules)))
    d.join("n0", "n1")
    began = CycleProgress(at_start=start or MarkerReading(100))
    d.running("n0", progress=began)
    d.proven("n0", "n1")
    return d


def read(value: int | None, sdk_step: int | None = None) -> CycleProgress:
    reading = MarkerReading(value) if value is not None else MarkerReading(skipped="marker is empty")
    return CycleProgress(at_end=reading, is_over=True, sdk_step=sdk_step)


def fail(d: Desk, value: int | None, sdk_step: int | None = None):
    """A cycle ends by a crash on n1; n0 tells what it read, and all is decided as the default would."""
    d.crash("n1")
    d.tell("n0", NodePhase.TEARING_DOWN, d.runs["n0"].generation, progress=read(value, sdk_step))
    d.verdict(default_verdict(d.asked[-1].view))


def next_cycle(d: Desk):
    d.down("n0", "n1")
    d.wait(40.0, ("n0", "n1"))  # the backoff of a crash loop
    d.proven("n0", "n1")


def test_the_first_readable_marker_is_the_baseline():
    d = tracking()
    assert d.job.progress.baseline == 100
    assert [fact.value for fact in d.facts_of(ProgressBaselineRead)] == [100]


def test_a_marker_that_could_not_be_read_at_the_start_is_none():
    d = tracking(MarkerReading(skipped="is missing"))
    assert d.job.progress.baseline is None


def test_only_the_node_with_the_lowest_ranks_sets_the_baseline():
    d = Desk(SPEC)
    d.join("n0", "n1")
    d.running("n1", progress=CycleProgress(at_start=MarkerReading(7)))
    assert d.job.progress.baseline is None


def test_policy_is_asked_when_the_marker_is_read_and_with_it():
    d = tracking()
    d.crash("n1")
    assert not d.asked, "the cycle's progress is not known yet"
    d.tell("n0", NodePhase.TEARING_DOWN, 1, progress=read(100, 131))
    (asked,) = d.asked
    check = asked.view.progress
    assert (check.baseline, check.value, check.marker, check.sdk_step, check.without_progress) == (
        100,
        100,
        100,
        131,
        0,
    )
    assert d.job.progress.without_progress == 1


def test_a_cycle_is_checked_once_however_often_the_reading_is_told():
    d = tracking()
    fail(d, 100)
    for _ in range(3):
        d.tell("n0", NodePhase.TEARING_DOWN, 1, progress=read(100))
    assert len(d.facts_of(ProgressChecked)) == 1 and d.job.progress.without_progress == 1


def test_the_third_cycle_without_progress_ends_the_job_and_not_the_second():
    d = tracking()
    for _ in range(2):
        fail(d, 100)
        assert d.stage == "Fenced"
        next_cycle(d)
    fail(d, 100)
    assert d.told("n0") == d.told("n1") == "EXIT 93"
    assert d.job.stage.decision.because.code is Reason.NO_PROGRESS
    assert d.job.stage.decision.cause == "no_progress"


def test_the_job_ends_with_its_own_code():
    d = Desk(replace(SPEC, no_restart_exit_code=77, progress=replace(RULES, max_no_progress_cycles=1)))
    d.join("n0", "n1")
    d.running("n0", progress=CycleProgress(at_start=MarkerReading(100)))
    d.proven("n0", "n1")
    fail(d, 100)
    assert d.told("n0") == "EXIT 77"


def test_the_default_verdict_counts_as_well():
    d = tracking(max_no_progress_cycles=1)
    d.crash("n1")
    d.tell("n0", NodePhase.TEARING_DOWN, 1, progress=read(100))
    view = d.asked[-1].view
    d.ask(VerdictUnavailable(d.stamp(), view.incident, view.round, "connection refused"))
    assert d.told("n0") == "EXIT 93"


@pytest.mark.parametrize("between", ["service", "node", "launcher"])
def test_the_count_survives(between):
    """A restarted service, a replaced node and a new launcher of the reading node change nothing."""
    d = tracking()
    fail(d, 100)
    d.down("n0", "n1")
    match between:
        case "service":
            d.restart_service()
            d.join("n0", "n1")
        case "node":
            d.join("n2", infra_rank=2)
            d.close("n1")
        case "launcher":
            d.close("n0")
            d.hello("n0", incarnation=2, infra_rank=0)
            d.ready("n0")
    d.wait(60.0, tuple(d.streams))
    assert d.job.progress.without_progress == 1 and d.job.progress.baseline == 100
    assert d.job.generation == 2


def test_a_skipped_cycle_changes_nothing():
    d = tracking()
    fail(d, 100)
    next_cycle(d)
    before = d.job.progress
    fail(d, None)
    assert (d.job.progress.baseline, d.job.progress.without_progress) == (before.baseline, before.without_progress)
    assert d.asked[-1].view.progress.skipped == "marker is empty"


def test_a_reading_that_does_not_come_is_waited_for_no_longer_than_the_limit():
    d = tracking()
    d.crash("n1")
    d.wait(LIMITS.marker_read_limit_s, ("n0", "n1"))
    (asked,) = d.asked
    assert asked.view.progress.value is None and "not read before" in asked.view.progress.skipped
    d.tell("n0", NodePhase.TEARING_DOWN, 1, progress=read(140))
    assert d.job.progress.baseline == 100, "what comes after the question is not counted"


def test_nodes_that_are_clear_at_once_grant_a_reading_a_moment():
    d = tracking()
    d.crash("n1")
    d.down("n0", "n1")
    assert not d.asked, "nobody can have read anything in no time"
    d.wait(LIMITS.marker_read_limit_s / 5, ("n0", "n1"))
    assert len(d.asked) == 1 and "not read before" in d.asked[0].view.progress.skipped


def test_a_reading_within_that_moment_counts():
    d = tracking()
    d.crash("n1")
    d.down("n0", "n1")
    d.tell("n0", NodePhase.READY, 1, progress=read(100))
    assert d.asked[0].view.progress.value == 100


def test_once_every_node_is_clear_nothing_is_waited_for():
    d = tracking()
    d.crash("n1")
    d.down("n1")
    d.wait(LIMITS.marker_read_limit_s / 5, ("n0", "n1"))
    assert not d.asked
    d.down("n0")
    assert len(d.asked) == 1 and d.asked[0].view.progress.skipped
    before = d.now
    d.verdict()
    assert d.job.generation == 2 and d.now == before, "the round closed in the same moment"


def test_where_the_lowest_node_is_gone_the_next_one_is_told_to_read():
    d = tracking()
    d.close("n0")
    d.wait(LIMITS.stream_loss_limit_s, ("n1",))
    goal = d.goals["n1"]
    assert goal.reads_marker and d.stage == "Fenced"
    d.tell("n1", NodePhase.TEARING_DOWN, 1, progress=read(100))
    assert d.asked[-1].view.progress.value == 100


def test_a_service_that_was_killed_meanwhile_hears_the_reading_again():
    d = tracking()
    d.crash("n1")
    d.restart_service()
    d.hello("n0", infra_rank=0)
    d.tell("n0", NodePhase.TEARING_DOWN, 1, progress=read(100))
    assert d.asked[-1].view.progress.value == 100 and d.job.progress.without_progress == 1


def test_a_new_attempt_begins_anew():
    d = tracking(max_no_progress_cycles=1)
    fail(d, 100)
    for node in ("n0", "n1"):
        d.tell(node, NodePhase.READY, 1, exit_acknowledged=True)
        d.close(node)
    d.hello("n0", incarnation=2, spec=replace(d.spec, attempt=2))
    assert d.job.progress.without_progress == 0 and d.job.progress.baseline is None


def test_by_the_sdk_the_steps_count_and_the_marker_is_shown():
    d = tracking(source=ProgressSource.SDK)
    assert d.job.progress.baseline is None, "a marker says nothing about steps"
    fail(d, 100, sdk_step=500)
    check = d.asked[-1].view.progress
    assert (check.value, check.marker) == (500, 100)
    next_cycle(d)
    fail(d, 900, sdk_step=500)
    assert d.job.progress.without_progress == 1


def test_by_the_sdk_a_script_that_commits_nothing_is_skipped():
    d = tracking(source=ProgressSource.SDK)
    fail(d, 100)
    assert "has committed a step" in d.asked[-1].view.progress.skipped


def test_a_job_that_tracks_nothing_is_asked_about_at_once():
    d = tracking(max_no_progress_cycles=0)
    d.crash("n1")
    assert len(d.asked) == 1 and d.asked[0].view.progress is None


def test_all_nodes_must_want_the_same():
    d = tracking()
    d.hello("n2", spec=replace(SPEC, progress=replace(RULES, min_iterations=9)))
    assert "at least 1, at most 3 cycles, not progress=marker, at least 9" in str(d.closed[-1].refusal)
