"""What comes in while a refit watchdog is entered or left: a signal's handler that raises, or hears of a death."""

import pytest

from resurge import refit_watchdog
from resurge.guards import deadlines
from resurge.guards.deadlines import Outcome
from resurge.refit_watchdog import RefitAbortWatchdog, stand_down_armed_watchdogs
from tests.unit.worker_sdk.abort_fakes import Group

LONG_S = 600.0


def test_a_watchdog_is_not_armed_for_good_where_a_handler_raises_while_it_is_left(monkeypatch):
    class Interrupted:
        """The lock of the registry, which a signal's handler that raises comes in before."""

        def __enter__(self):
            raise KeyboardInterrupt

        def __exit__(self, *_):
            pass

    guard = RefitAbortWatchdog(Group(), LONG_S)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), guard:
        patch.setattr(refit_watchdog, "_ARMED_LOCK", Interrupted())
    refit_watchdog._ARMED.discard(guard)
    assert guard not in deadlines.ARMED
    assert guard.outcome is Outcome.COMPLETED


def test_a_handler_that_hears_of_a_death_while_the_registry_is_held_does_not_wait_for_itself(monkeypatch):
    told = []

    class Registry(set):
        """The registry; a signal's handler comes in as soon as something is added, with the lock still held."""

        def add(self, guard):
            super().add(guard)
            assert refit_watchdog._ARMED_LOCK.acquire(blocking=False), "the handler would wait for its own thread"
            refit_watchdog._ARMED_LOCK.release()
            told.append(stand_down_armed_watchdogs())

    monkeypatch.setattr(refit_watchdog, "_ARMED", Registry())
    with RefitAbortWatchdog(Group(), LONG_S) as guard:
        assert guard.outcome is Outcome.STOOD_DOWN
    assert told == [1]
