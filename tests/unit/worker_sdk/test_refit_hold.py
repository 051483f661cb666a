"""The hold of a refit for fault injection: R47 to R49 of the watchdog's statements."""

import pytest

from resurge import environment, refit_watchdog
from resurge.refit_watchdog import RefitAbortWatchdog, hold_refit_for_fault_injection
from tests.unit.worker_sdk.abort_fakes import WAIT_S, Group


class Clock:
    """A clock that only sleeping moves; `then` is called at each sleep."""

    def __init__(self):
        self.now_s = 0.0
        self.slept = []
        self.then = lambda: None

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now_s += seconds
        self.then()


@pytest.fixture
def clock(monkeypatch):
    own = Clock()
    monkeypatch.setattr(refit_watchdog, "time", own)
    return own


def test_R47_without_the_variable_or_the_file_nothing_happens(clock, monkeypatch, tmp_path, capsys):
    looked = []
    exists = refit_watchdog.os.path.exists
    monkeypatch.setattr(refit_watchdog.os.path, "exists", lambda path: looked.append(path) or exists(path))
    monkeypatch.delenv(environment.REFIT_HOLD_FILE, raising=False)
    hold_refit_for_fault_injection()
    assert looked == []
    path = str(tmp_path / "hold")
    monkeypatch.setenv("NRL_REFIT_HOLD_FILE", path)
    hold_refit_for_fault_injection()
    assert looked == [path]
    assert clock.slept == []
    assert capsys.readouterr().out == ""


def test_R48_it_holds_in_steps_until_the_file_is_gone(clock, monkeypatch, tmp_path, capsys):
    path = tmp_path / "hold"
    path.touch()
    clock.then = lambda: path.unlink() if len(clock.slept) == 3 else None
    monkeypatch.setenv("NRL_REFIT_HOLD_FILE", str(path))
    hold_refit_for_fault_injection()
    assert clock.slept == [0.1] * 3
    printed = capsys.readouterr().out
    assert "refit held by" in printed
    assert "refit released" in printed


@pytest.mark.parametrize(("told", "limit_s"), [("2", 2.0), (None, 120.0), ("", 120.0), ("soon", 120.0)])
def test_R48_it_holds_for_no_longer_than_the_limit(clock, monkeypatch, tmp_path, told, limit_s):
    path = tmp_path / "hold"
    path.touch()
    monkeypatch.setenv("NRL_REFIT_HOLD_FILE", str(path))
    if told is None:
        monkeypatch.delenv("NRL_REFIT_HOLD_MAX_S", raising=False)
    else:
        monkeypatch.setenv("NRL_REFIT_HOLD_MAX_S", told)
    hold_refit_for_fault_injection()
    assert clock.now_s == pytest.approx(limit_s, abs=0.11)


def test_R49_inside_the_guard_the_clock_runs_while_it_holds(monkeypatch, tmp_path):
    path = tmp_path / "hold"
    path.touch()
    monkeypatch.setenv("NRL_REFIT_HOLD_FILE", str(path))
    monkeypatch.setenv("NRL_REFIT_HOLD_MAX_S", str(WAIT_S))
    group = Group(path.unlink)
    with RefitAbortWatchdog(group, 0.05) as guard:
        hold_refit_for_fault_injection()
    assert guard.fired
    assert group.aborts == 1
