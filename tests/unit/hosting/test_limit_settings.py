"""One file and one environment serve launchers and services: every time limit is known to both, spelled the same."""

from __future__ import annotations

from dataclasses import fields

import pytest

from resurge_libs.config.durations import seconds_of
from resurge_libs.config.settings import UsageProblem, load
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.hosting.settings import LimitSettings


def limits(**environ):
    variables = {f"RESURGE_LIMITS__{name.upper()}": text for name, text in environ.items()}
    return load(LimitSettings, {}, variables).settings.limits()


def test_every_row_of_the_table_is_a_setting():
    assert set(LimitSettings.model_fields) == {item.name for item in fields(TimeLimits)}


def test_without_a_word_the_table_is_the_tables_own():
    assert limits() == TimeLimits()


def test_given_limits_are_taken_and_the_others_follow():
    found = limits(lease_ttl_s="4", settle_s="500ms", quorum_wait_s="2m", hang_limit_s="none")
    assert (found.lease_ttl_s, found.settle_s, found.quorum_wait_s) == (4.0, 0.5, 120.0)
    assert found.beat_interval_s == pytest.approx(1.6)
    assert found.hang_limit_s == TimeLimits().hang_limit_s


@pytest.mark.parametrize("environ", [{"lease_ttl_s": "soon"}, {"beat_interval_s": "4"}, {"lease_ttl": "4"}])
def test_nonsense_and_wrong_orders_are_refused_by_name(environ):
    with pytest.raises(UsageProblem, match=r"lease_ttl_s|LEASE_TTL_S|beat_interval_s"):
        limits(**environ)


@pytest.mark.parametrize("text", ["", "-1", "1d", "nan", "1e999", "s"])
def test_durations_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        seconds_of(text)
