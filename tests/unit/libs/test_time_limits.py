"""The table of time limits derives from two values and refuses a wrong order, naming both."""

from __future__ import annotations

from dataclasses import fields

import pytest

from resurge_libs.core.limit_rows import DERIVED
from resurge_libs.core.time_limits import TimeLimits, WrongOrder


def test_the_defaults_are_in_order():
    limits = TimeLimits()
    assert limits.beat_interval_s == 2.0
    assert limits.resume_window_s == 1.0
    assert limits.verdict_limit_s == 2.0
    assert limits.teardown_limit_s == 10.0
    assert limits.server_ping_timeout_s > limits.lease_ttl_s + limits.lease_margin_s > limits.client_ping_timeout_s


@pytest.mark.parametrize("lease_ttl_s", [0.6, 1.0, 2.0, 30.0])
def test_short_and_long_leases_carry_their_derived_limits_along(lease_ttl_s):
    limits = TimeLimits(lease_ttl_s=lease_ttl_s)
    assert limits.beat_interval_s == pytest.approx(lease_ttl_s / 2.5)
    assert limits.changed(lease_ttl_s=5.0) == TimeLimits()


def test_a_changed_value_derives_again_and_a_given_one_stays():
    limits = TimeLimits(last_call_s=20.0)
    assert limits.changed(lease_ttl_s=10.0).last_call_s == 20.0
    assert limits.changed(lease_ttl_s=10.0).settle_s == 20.0


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ({"beat_interval_s": 3.0}, "2 x beat_interval_s", "lease_ttl_s"),
        ({"resume_window_s": 3.0, "stream_loss_limit_s": 2.0}, "resume_window_s", "stream_loss_limit_s"),
        ({"stream_loss_limit_s": 6.0}, "stream_loss_limit_s", "lease_ttl_s"),
        ({"server_ping_timeout_s": 5.0}, "lease_ttl_s + lease_margin_s", "server_ping_timeout_s"),
        ({"client_ping_timeout_s": 6.0}, "client_ping_timeout_s", "lease_ttl_s"),
        ({"hang_limit_s": 700.0}, "hang_limit_s", "collective_timeout_s"),
        ({"collective_timeout_s": 10.0, "hang_limit_s": 5.0}, "teardown_limit_s", "collective_timeout_s"),
        ({"last_call_s": 3.0}, "lease_ttl_s + lease_margin_s", "last_call_s"),
        ({"all_lost_wait_s": 3.0}, "lease_ttl_s + lease_margin_s", "all_lost_wait_s"),
        ({"quorum_wait_s": 3.0}, "last_call_s", "quorum_wait_s"),
        ({"fault_grace_s": 6.0}, "fault_grace_s", "lease_ttl_s"),
        ({"teardown_limit_s": 0.1}, "fault_grace_s", "teardown_limit_s"),
    ],
)
@pytest.mark.users_row(29)
def test_a_wrong_order_names_both_values(values, low, high):
    with pytest.raises(WrongOrder) as refused:
        TimeLimits(**values)
    assert low in str(refused.value) and high in str(refused.value)
    assert "Lower" in str(refused.value) and "or raise" in str(refused.value)


@pytest.mark.parametrize("name", ["lease_ttl_s", "beat_interval_s", "lease_margin_s"])
def test_a_limit_that_must_last_is_refused_at_zero_in_words_of_its_own(name):
    with pytest.raises(WrongOrder, match=f"^{name} is 0 s: .* Give more than 0 s"):
        TimeLimits(**{name: 0.0})


def test_a_negative_limit_is_refused():
    with pytest.raises(WrongOrder, match="settle_s is -1"):
        TimeLimits(settle_s=-1.0)


@pytest.mark.users_row(30)
def test_every_limit_has_one_row_and_derived_rows_say_from_what():
    rows = TimeLimits().table()
    assert sorted(row.name for row in rows) == sorted(item.name for item in fields(TimeLimits))
    for row in rows:
        assert row.derived_from.startswith("given") != (row.name in DERIVED), row.name
        assert row.bounds
    assert {row.name: row.value_s for row in rows}["lease_ttl_s"] == 5.0


def test_start_phases_have_limits_and_others_do_not():
    assert TimeLimits().start_limit_s("restore") == 900.0
    with pytest.raises(KeyError):
        TimeLimits().start_limit_s("lunch")
