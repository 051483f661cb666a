"""What the beats say together about the clock of rendezvous: no beat that was held up spoils what is known."""

from __future__ import annotations

import random

from resurge_launcher.core.clocks import DRIFT, ClockOffset, measured, narrowed
from resurge_libs.core.instant import Instant

TRUE_S = 3.0


def beat(at: float, there_s: float, back_s: float, ahead_s: float = TRUE_S) -> ClockOffset:
    """A beat that was under way for so long, there and back."""
    received = at + there_s + ahead_s
    return measured(at, received, received + 0.001, at + there_s + 0.001 + back_s)


def test_one_beat_says_what_lies_in_the_middle():
    known = narrowed(None, beat(10.0, 0.002, 0.004))
    assert abs(known.offset_s - (TRUE_S - 0.001)) < 1e-9 and abs(known.error_s - 0.003) < 1e-9


def test_a_beat_that_waited_for_a_processor_on_its_way_back_moves_nothing():
    quick = narrowed(None, beat(10.0, 0.001, 0.001))
    slow = beat(12.0, 0.001, 0.040)
    assert abs(slow.offset_s - TRUE_S) > 0.015, "by itself it would be far off"
    known = narrowed(quick, slow)
    assert abs(known.offset_s - TRUE_S) <= known.error_s <= 0.001 + DRIFT * 2.1


def test_the_truth_is_always_within_the_error():
    chance = random.Random(7)
    known = None
    for number in range(2_000):
        drifted_s = TRUE_S + 2.0 * number * DRIFT * 0.9
        news = beat(2.0 * number, chance.expovariate(500), chance.expovariate(200), drifted_s)
        known = narrowed(known, news)
        assert abs(known.offset_s - drifted_s) <= known.error_s + 1e-4
        assert known.error_s <= news.error_s + 1e-12, "together they never say less than the newest alone"


def test_clocks_that_may_agree_are_told_to_agree():
    slow = narrowed(None, beat(10.0, 0.001, 0.040, ahead_s=0.0))
    assert abs(slow.offset_s) > 0.015, "the middle of what one slow beat leaves possible"
    told = slow.simplest()
    assert told.offset_s == 0.0 and told.error_s <= 2 * slow.error_s


def test_what_is_told_holds_the_truth():
    chance = random.Random(9)
    for ahead_s in (0.0, 0.004, -0.03, TRUE_S):
        known = None
        for number in range(200):
            known = narrowed(known, beat(2.0 * number, chance.expovariate(500), chance.expovariate(100), ahead_s))
            told = known.simplest()
            assert abs(told.offset_s - ahead_s) <= told.error_s + 1e-9
        assert abs(told.offset_s - ahead_s) < 0.002, "quick beats tell even a small offset"


def test_a_clock_that_was_set_is_believed_at_once():
    known = narrowed(None, beat(10.0, 0.001, 0.001))
    assert narrowed(known, beat(12.0, 0.001, 0.001, TRUE_S - 60)) == beat(12.0, 0.001, 0.001, TRUE_S - 60)


def test_what_is_known_wears_off():
    known = ClockOffset(TRUE_S, 0.001, Instant(10.0))
    news = ClockOffset(TRUE_S + 0.2, 0.21, Instant(1010.0))  # half a second of drift later it is the better one
    aged = narrowed(known, news)
    assert abs(aged.offset_s - news.offset_s) < 1e-9 and abs(aged.error_s - news.error_s) < 1e-9


def test_beats_narrow_from_both_sides_and_none_is_better_than_exact():
    known = ClockOffset(0.0, 1.0, Instant(10.0))
    low, high = (narrowed(known, ClockOffset(offset_s, 1.0, Instant(10.0))) for offset_s in (-1.0, 1.0))
    assert (low.offset_s, low.error_s, high.offset_s, high.error_s) == (-0.5, 0.5, 0.5, 0.5)
    assert measured(10.0, 13.0, 13.5, 10.1).error_s == 0.0, "the other side took longer than the whole way"
