"""The ledger: every second in one account, and lost steps are taken from the time that committed them."""

from __future__ import annotations

import random

import pytest

from resurge_libs.core.instant import Wall
from resurge_libs.core.ledger import STRETCHES_MAX, Booking, Doing, Ledger


def booked(*bookings: Booking) -> Ledger:
    ledger = Ledger()
    for booking in bookings:
        ledger = ledger.booked(booking)
    return ledger


def training(at: float, step: int | None) -> Booking:
    return Booking(Doing.TRAINING, Wall(at), restored=step, has_restored=True)


def do(doing: Doing, at: float, committed: int | None = None) -> Booking:
    return Booking(doing, Wall(at), committed=committed)


START = (do(Doing.WAITING, 100), do(Doing.START, 110), do(Doing.RESTORE, 115), training(118, 0))


def accounts_sum(ledger: Ledger) -> float:
    others = sum(ledger.of(doing) for doing in Doing if doing is not Doing.TRAINING)
    return ledger.productive_s + ledger.lost_s + others


def test_a_start_is_split_into_waiting_start_and_restore():
    ledger = booked(*START)
    assert (ledger.of(Doing.WAITING), ledger.of(Doing.START), ledger.of(Doing.RESTORE)) == (10, 5, 3)
    assert ledger.wall_s == 18


def test_a_restore_takes_back_the_time_of_the_steps_beyond_it():
    ledger = booked(*START, do(Doing.DETECTION, 218, committed=50), do(Doing.START, 220), training(225, 40))
    assert ledger.lost_steps == 10
    assert ledger.lost_s == pytest.approx(20)  # 50 steps took 100 s
    assert ledger.productive_s == pytest.approx(80)
    assert accounts_sum(ledger) == pytest.approx(ledger.wall_s)


def test_a_restore_further_back_than_the_last_stretch_takes_from_those_before():
    first = (*START, do(Doing.DETECTION, 218, committed=50), training(220, 50))
    ledger = booked(*first, do(Doing.DETECTION, 230, committed=55), training(231, 25))
    assert ledger.lost_steps == 5 + 25
    assert ledger.lost_s == pytest.approx(10 + 50)
    assert ledger.productive_s == pytest.approx(50)


def test_steps_told_after_the_fault_count_for_the_stretch_that_committed_them():
    ledger = booked(
        *START, do(Doing.DETECTION, 218), do(Doing.TEARDOWN, 219, committed=40), do(Doing.TEARDOWN, 219, 50)
    )
    assert ledger.booked(training(230, 25)).lost_s == pytest.approx(50)


def test_a_stretch_without_a_committed_step_is_lost_whole():
    ledger = booked(*START, do(Doing.DETECTION, 128, committed=0), training(130, 0))
    assert (ledger.lost_s, ledger.lost_steps) == (10, 0)


def test_what_nobody_reports_is_productive_and_called_unmeasured():
    ledger = booked(*START[:3], training(118, None), do(Doing.DETECTION, 218), training(220, None))
    assert ledger.productive_s == 100
    assert ledger.unmeasured_s == 100
    assert ledger.lost_s == 0


def test_training_that_goes_on_is_productive():
    ledger = booked(*START, training(118, 0)).booked(do(Doing.TRAINING, 150))
    assert ledger.productive_s == 32


def test_time_never_runs_backwards():
    ledger = booked(*START, do(Doing.DETECTION, 90), do(Doing.TEARDOWN, 119))
    assert ledger.of(Doing.DETECTION) == 1
    assert accounts_sum(ledger) == pytest.approx(19)


@pytest.mark.parametrize("seed", range(50))
def test_the_accounts_sum_up_to_the_wall_time_whatever_happens(seed):
    chance, at, ledger = random.Random(seed), 0.0, Ledger()
    for _ in range(3 * STRETCHES_MAX):
        at += chance.choice((-1.0, 0.0, 0.5, 7.0, 1e5))
        is_restore = chance.random() < 0.3
        ledger = ledger.booked(
            Booking(
                Doing.TRAINING if is_restore else chance.choice(list(Doing)),
                Wall(at),
                committed=chance.choice((None, chance.randrange(1000))),
                restored=chance.choice((None, chance.randrange(1000))) if is_restore else None,
                has_restored=is_restore,
            )
        )
        assert accounts_sum(ledger) == pytest.approx(ledger.wall_s, rel=1e-9)
        assert min(ledger.productive_s, ledger.lost_s) >= -1e-6
        assert len(ledger.stretches) <= STRETCHES_MAX
