"""The options of progress, budgets and backoff: what they give, and what is refused by name."""

from __future__ import annotations

import pytest

from resurge_launcher.commands.progress import progress_notices, progress_of
from resurge_launcher.commands.restarts import restart_rules_of
from resurge_launcher.commands.sources import ConfigFile, resolve
from resurge_launcher.flags import BY_NAME
from resurge_launcher.usage import UsageProblem
from resurge_libs.core.budget import RestartRules
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.progress import ProgressRules, ProgressSource


def resolved(yaml: dict | None = None, **given: str):
    flags = {name: (BY_NAME[name].flag, text) for name, text in given.items()}
    return resolve(flags, {}, ConfigFile("job.yaml", {"launcher": yaml}) if yaml else None)


def test_a_marker_is_counted_and_by_the_figures_that_are_given():
    found = progress_of(resolved(checkpoint_iteration_file="/m", min_progress_iterations="5"))
    assert found == ProgressRules(ProgressSource.MARKER, 5, 3)


def test_the_file_has_the_same_keys():
    found = progress_of(resolved({"max_no_progress_cycles": 7, "checkpoint_iteration_file": "/m"}))
    assert found == ProgressRules(ProgressSource.MARKER, 1, 7)


def test_a_flag_goes_before_the_file():
    found = progress_of(resolved({"max_no_progress_cycles": 7}, max_no_progress_cycles="0"))
    assert found.max_no_progress_cycles == 0


def test_the_sdk_counts_where_it_is_asked_for():
    assert progress_of(resolved(progress_source="sdk")).source is ProgressSource.SDK


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_restarts": "3"}, "progress over restarts is not tracked"),
        ({"max_no_progress_cycles": "5"}, "--ft-max-no-progress-cycles has no effect"),
        ({}, ""),
        ({"max_restarts": "3", "max_no_progress_cycles": "0"}, ""),
        ({"max_restarts": "3", "checkpoint_iteration_file": "/m"}, ""),
        ({"max_restarts": "3", "progress_source": "sdk"}, ""),
    ],
)
def test_without_a_file_it_is_said_once_where_it_matters(given, said):
    notices = progress_notices(resolved(**given))
    assert len(notices) == bool(said) and said in "".join(notices)


def test_budgets_refunds_and_backoff():
    found = restart_rules_of(
        resolved(
            max_restarts_by_cause="oom=1,hardware=5", restart_refund_after="10m", restart_backoff="first=2s,factor=3"
        )
    )
    assert found.by_cause == ((FaultCause.HARDWARE, 5), (FaultCause.OOM, 1))
    assert found.refund_after_s == 600
    assert (found.backoff.first_delay_s, found.backoff.factor, found.backoff.max_delay_s) == (2.0, 3.0, 30.0)


def test_the_file_may_hold_them_as_pairs():
    found = restart_rules_of(resolved({"max_restarts_by_cause": {"node": 2}, "restart_refund_after": "1h"}))
    assert found == RestartRules(((FaultCause.NODE, 2),), 3600.0)


def test_nothing_given_bounds_nothing_more():
    assert restart_rules_of(resolved()) == RestartRules()


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"max_restarts_by_cause": "gpu=1"}, "--max-restarts-by-cause", "'gpu' is no cause of faults"),
        ({"max_restarts_by_cause": "oom=-1"}, "--max-restarts-by-cause", "oom=-1 is no bound"),
        ({"max_restarts_by_cause": "oom"}, "--max-restarts-by-cause", "'oom' is not key=value"),
        ({"restart_backoff": "speed=1"}, "--restart-backoff", "'speed' is no part of a backoff"),
        ({"restart_backoff": "factor=fast"}, "--restart-backoff", "factor=fast is no number"),
        ({"restart_backoff": "factor=0.5"}, "--restart-backoff", "factor (0.5) must be at least 1"),
        ({"restart_backoff": "first=60,max=1"}, "--restart-backoff", "must be at least first_delay_s"),
        ({"restart_backoff": "factor=nan"}, "--restart-backoff", "out of range"),
        ({"restart_backoff": "max=99h"}, "--restart-backoff", "out of range"),
        ({"restart_backoff": "free=-1"}, "--restart-backoff", "free"),
        ({"restart_refund_after": "-5"}, "--restart-refund-after", ""),
    ],
)
def test_what_cannot_be_is_refused_by_name(given, field, words):
    with pytest.raises(UsageProblem) as caught:
        restart_rules_of(resolved(**given))
    assert field in str(caught.value) and words in str(caught.value)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"min_progress_iterations": "0"}, "--ft-min-progress-iterations"),
        ({"max_no_progress_cycles": "-1"}, "--ft-max-no-progress-cycles"),
        ({"progress_source": "loss"}, "--progress-source"),
        ({"checkpoint_iteration_file": " "}, "--ft-checkpoint-iteration-file"),
    ],
)
def test_so_are_figures_of_progress(given, field):
    with pytest.raises(UsageProblem) as caught:
        resolved(**given)
    assert field in str(caught.value)
