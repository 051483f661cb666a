"""For how long what is noticed now may have happened unseen."""

from __future__ import annotations

import pytest

from resurge_libs.core.instant import Instant
from resurge_rendezvous.attention import PULSE_S, SETTLE_S, Attention


def looked(*at: float) -> Attention:
    attention = Attention()
    for one in at:
        attention.looked(Instant(one))
    return attention


def test_a_process_that_looks_in_time_is_never_late():
    attention = looked(*(10.0 + PULSE_S * n for n in range(20)))
    assert attention.late_s(Instant(10.0 + PULSE_S * 19.4)) == 0.0
    assert looked().late_s(Instant(10.0)) == 0.0


def test_what_is_noticed_before_the_late_pulse_may_be_as_old_as_the_last_one():
    assert looked(10.0).late_s(Instant(12.0)) == pytest.approx(2.0)


def test_what_was_in_the_sockets_may_come_up_a_moment_after_the_late_pulse():
    attention = looked(10.0, 12.0, 12.1, 12.2)
    assert attention.late_s(Instant(12.25)) == pytest.approx(2.25)
    after = 12.0 + SETTLE_S + 0.01
    attention.looked(Instant(after - 0.05))
    assert attention.late_s(Instant(after)) < 1.0


def test_a_process_that_is_always_late_does_not_add_its_gaps_up():
    attention = looked(*(10.0 + 0.3 * n for n in range(100)))
    assert attention.late_s(Instant(10.0 + 0.3 * 99)) <= 2 * 0.3 + SETTLE_S
