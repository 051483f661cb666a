"""For how long what is noticed now may have happened unseen."""

from __future__ import annotations

import asyncio

import pytest

from resurge_libs.core.instant import Instant, Wall
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.engine.real import RealEntropy, RealIds
from resurge_rendezvous.attention import PULSE_S, SETTLE_S, Attention
from resurge_rendezvous.desk import Desk
from resurge_rendezvous.settings import RendezvousSettings


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
    pulses = [12.0 + PULSE_S * n for n in range(20)]
    attention = looked(10.0, *pulses[:6])
    assert attention.late_s(Instant(pulses[5])) == pytest.approx(pulses[5] - 10.0)
    for one in pulses[6:]:
        attention.looked(Instant(one))
    assert pulses[-1] > 12.0 + SETTLE_S
    assert attention.late_s(Instant(pulses[-1])) == 0.0


def test_a_short_gap_counts_for_a_short_time():
    pulses = [10.2 + PULSE_S * n for n in range(6)]
    attention = looked(10.0, *pulses[:2])
    assert attention.late_s(Instant(pulses[1])) == pytest.approx(pulses[1] - 10.0)
    for one in pulses[2:]:
        attention.looked(Instant(one))
    assert attention.late_s(Instant(pulses[-1])) == 0.0


def test_a_process_that_is_always_late_does_not_add_its_gaps_up():
    attention = looked(*(10.0 + 0.3 * n for n in range(100)))
    assert attention.late_s(Instant(10.0 + 0.3 * 99)) <= 2 * 0.3 + 1e-6


class FixedClock:
    """Both kinds of time, as a test sets them."""

    def __init__(self) -> None:
        self.now = 10.0

    def monotonic(self) -> Instant:
        return Instant(self.now)

    def wall(self) -> Wall:
        return Wall(1_000.0 + self.now)


def test_each_event_is_stamped_with_how_late_it_may_be_noticed():
    clock = FixedClock()
    desk = Desk(RendezvousSettings(), TimeLimits(), clock, RealEntropy(), RealIds())

    async def stamps() -> tuple[float, float]:
        desk.attention.begin(clock)
        prompt = desk.stamp().late_s
        clock.now += 2.0  # no pulse came: the loop had no time
        late = desk.stamp().late_s
        desk.attention.end()
        return prompt, late

    assert asyncio.run(stamps()) == (0.0, pytest.approx(2.0))


def test_the_pulse_goes_on_by_itself():
    class Looks(Attention):
        count = 0

        def looked(self, now: Instant) -> None:
            super().looked(now)
            self.count += 1
            if self.count == 3:
                done.set()

    async def pulses() -> int:
        attention = Looks()
        attention.begin(FixedClock())
        await asyncio.wait_for(done.wait(), 30.0)
        attention.end()
        return attention.count

    done = asyncio.Event()
    assert asyncio.run(pulses()) >= 3
