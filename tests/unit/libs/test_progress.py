"""The counting rule of progress over restarts, line by line, and the verdict that follows from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.progress import (
    ProgressCheck,
    ProgressCount,
    ProgressMove,
    ProgressRules,
    ProgressSource,
    outcome_of,
    told,
)
from resurge_libs.core.reasons import Reason
from resurge_libs.core.verdict import VerdictKind, default_verdict
from tests.unit.libs.test_verdict import VIEW

RULES = ProgressRules(ProgressSource.MARKER, min_iterations=1, max_no_progress_cycles=3)
MISSING = None


def counted(readings: list[int | None], baseline: int | None, rules: ProgressRules = RULES) -> list[int]:
    """The count after each cycle."""
    count, after = ProgressCount(baseline), []
    for value in readings:
        skipped = "" if value is not None else "does not exist"
        count = count.after(ProgressCheck(rules, count.baseline, count.without_progress, value, skipped))
        after.append(count.without_progress)
    return after


@pytest.mark.parametrize(
    ("baseline", "readings", "counts"),
    [
        (100, [100, 100, 100], [1, 2, 3]),
        (100, [101, 101, 102, 102], [0, 1, 0, 1]),
        (100, [100, MISSING, 100, MISSING, 100], [1, 1, 2, 2, 3]),
        (100, [100, 100, 140, 140], [1, 2, 0, 1]),
        (None, [MISSING, MISSING, MISSING, MISSING], [0, 0, 0, 0]),
        (None, [0, 0, 0, 0], [0, 0, 0, 0]),
        (0, [0, 0, 10, 10, 10, 10], [0, 0, 0, 1, 2, 3]),
        (None, [MISSING, 10, 10], [0, 0, 1]),
        (100, [60, 60, 60], [1, 2, 3]),
        (100, [60, 80, 80], [1, 0, 1]),
        (100, [0, 0, 0], [1, 1, 1]),
    ],
    ids=[
        "a marker that stands counts each cycle",
        "one iteration is enough",
        "what cannot be read neither resets nor counts",
        "progress begins the count anew",
        "a marker that never comes counts nothing",
        "a readable zero leaves the tracking inactive",
        "before the first checkpoint nothing counts",
        "the first checkpoint is progress",
        "a marker that went back is no progress",
        "after it went back it is measured from there",
        "from zero again it is inactive",
    ],
)
def test_the_count(baseline, readings, counts):
    assert counted(readings, baseline) == counts


def test_a_cycle_must_get_on_by_the_least_iterations():
    assert counted([109, 119, 128], 100, replace(RULES, min_iterations=10)) == [1, 0, 1]


def view_after(value: int | None, *, before: int = 2, baseline: int | None = 100, rules: ProgressRules = RULES, **more):
    check = ProgressCheck(rules, baseline, before, value, "" if value is not None else "is empty")
    return replace(VIEW, progress=replace(check, **more))


def test_the_last_cycle_without_progress_ends_the_job_with_the_code_that_means_no_requeue():
    verdict = default_verdict(replace(view_after(100), no_restart_exit_code=77))
    assert (verdict.kind, verdict.exit_code, verdict.because.code) == (VerdictKind.STOP, 77, Reason.NO_PROGRESS)


def test_the_message_says_what_looks_the_same_and_what_to_do():
    sentence = default_verdict(view_after(100, sdk_step=131)).because.sentence
    assert (
        "3 cycles in a row" in sentence and "now 100, before 100" in sentence and "live steps reached 131" in sentence
    )
    assert "replays" in sentence and "Megatron's rerun state machine" in sentence
    assert "raise --ft-max-no-progress-cycles, or set it to 0" in sentence


@pytest.mark.parametrize(
    "view",
    [
        view_after(100, before=1),
        view_after(101),
        view_after(None),
        view_after(100, rules=replace(RULES, max_no_progress_cycles=0), before=50),
        view_after(0, baseline=0, before=50),
        view_after(0, baseline=None, before=50),
        VIEW,
    ],
    ids=["one to go", "progress", "not read", "switched off", "zero", "zero and never read", "not tracked"],
)
def test_anything_less_restarts(view):
    assert default_verdict(view).kind is VerdictKind.RESTART


def test_before_the_first_checkpoint_only_the_budget_bounds_a_crash_loop():
    verdict = default_verdict(replace(view_after(None, baseline=None, before=0), restarts_spent=3))
    assert (verdict.kind, verdict.exit_code, verdict.because.code) == (VerdictKind.STOP, 1, Reason.BUDGET_EXHAUSTED)


def test_live_iterations_without_a_completed_checkpoint_still_stop_the_job():
    verdict = default_verdict(view_after(100, sdk_step=5_000, marker=100))
    assert verdict.because.code is Reason.NO_PROGRESS


def test_out_of_progress_goes_before_out_of_budget():
    verdict = default_verdict(replace(view_after(100), restarts_spent=3))
    assert (verdict.exit_code, verdict.because.code) == (93, Reason.NO_PROGRESS)


def test_each_move_has_its_words():
    assert "does not exist" in told(ProgressCheck(RULES, 100, 1, None, "does not exist"))
    assert "nothing was completed yet" in told(ProgressCheck(RULES, None, 0, 0))
    assert "moved from 100 to 120" in told(ProgressCheck(RULES, 100, 1, 120))
    assert "2 of 3 cycles in a row" in told(ProgressCheck(RULES, 100, 1, 100))
    assert outcome_of(ProgressCheck(RULES, 100, 1, 100)).move is ProgressMove.STUCK
