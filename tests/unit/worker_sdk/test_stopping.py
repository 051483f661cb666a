"""Whether to stop: the border is for steps, a held one is waited at, and what was said once stays said."""

from __future__ import annotations

import threading
import timeit

import pytest

from resurge import stopping
from resurge.environment import WorkerEnvironment
from resurge.worker_session import Session
from resurge_libs.testing import wait_until


def test_nobody_stops_unasked_and_asking_is_on_the_page(worker):
    session = worker.session()
    session.step_committed(7)
    assert not session.should_stop()
    view = worker.view()
    assert (view.stop_asked_step, view.stop_asked_count, view.stop_told_ns) == (7, 1, 0)


def test_before_a_first_step_no_step_is_asked_after(worker):
    session = worker.session()
    worker.launcher.hold_at(3)
    assert not session.should_stop()
    assert worker.view().stop_asked_step is None


def test_a_rank_stops_at_the_border_and_not_before(worker):
    session = worker.session()
    worker.launcher.stop_at(9)
    session.step_committed(8)
    assert not session.should_stop()
    session.step_committed(9)
    assert session.should_stop() and session.should_stop()
    assert worker.view().stop_told_ns > 0


def test_at_once_means_whatever_the_step(worker):
    session = worker.session()
    worker.launcher.stop_at(0)
    assert session.should_stop()


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_held_border_is_waited_at_until_it_is_decided_or_moved(worker, goes_on):
    session = worker.session()
    session.step_committed(9)
    worker.launcher.hold_at(9)
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(session.should_stop()))
    asking.start()
    wait_until(lambda: worker.view().stop_waits, 10, "the rank at the border")
    assert not answers
    if goes_on:
        worker.launcher.hold_at(12)
    else:
        worker.launcher.stop_at(9)
    asking.join(10)
    assert answers == [not goes_on]
    assert not worker.view().stop_waits


def test_a_launcher_that_says_nothing_more_had_begun_to_end_the_job(worker, monkeypatch):
    monkeypatch.setattr(stopping, "STOP_WAIT_S", 0.05)
    session = worker.session()
    session.step_committed(9)
    worker.launcher.hold_at(9)
    assert session.should_stop()


def test_whoever_was_faster_than_a_held_border_waits_too(worker, monkeypatch):
    monkeypatch.setattr(stopping, "STOP_WAIT_S", 0.05)
    session = worker.session()
    session.step_committed(20)
    worker.launcher.hold_at(9)
    assert session.should_stop(), "it may not run further away while the border is moved"


def test_without_a_launcher_nothing_stops_and_it_costs_nothing():
    assert not Session(WorkerEnvironment()).should_stop()


def test_asking_is_cheap(worker):
    session = worker.session()
    session.step_committed(1)
    assert min(timeit.repeat(session.should_stop, number=1000, repeat=5)) / 1000 < 20e-6
