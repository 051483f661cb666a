"""What a crash comes to: K17 to K19 and K21 to K25 of the statements about killing the world, S1, S5."""

import asyncio
import json
import logging
import threading

import pytest

import resurge
from resurge import environment, world_kill
from resurge.world_kill import KillWatchdog, WorldKill
from tests.unit.worker_sdk.abort_fakes import eventually
from tests.unit.worker_sdk.crash_stage import LONG_S, VARIABLES, armed_killers, crash, guard_of


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_K17_whoever_leaves_is_not_a_crash(virtual, kills, kind):
    crash(guard_of(cleanup=lambda: kills.order.append("cleanup"), grace_s=0.0), kind())
    assert kills.order == ["cleanup"]


def test_K18_the_error_is_there_for_local_waiters_before_cleanup(virtual, kills):
    seen = []
    guard = guard_of(cleanup=lambda: seen.append((guard.crashed.is_set(), guard.error)), grace_s=0.0)
    error = crash(guard)
    assert seen == [(True, error)]
    assert guard.error is error


@pytest.mark.parametrize("gate", [None, "unset"])
def test_K19_without_delivery_it_kills(virtual, kills, gate):
    crash(guard_of(cleanup=lambda: None, grace_s=5.0, delivered=threading.Event() if gate else None))
    assert len(kills.ends) == 1


def test_K19_delivery_is_looked_at_after_the_grace(virtual, kills, monkeypatch):
    delivered = threading.Event()

    def sleep(seconds):
        kills.sleep(seconds)
        delivered.set()

    monkeypatch.setattr(world_kill.time, "sleep", sleep)
    crash(guard_of(cleanup=lambda: None, grace_s=5.0, delivered=delivered))
    assert kills.slept == [5.0]
    assert kills.ends == []
    assert virtual.made[0]._kill.now() is False, "both ways have the same gate"


def test_K19_the_watchdog_looks_at_the_gate_too(kills):
    delivered = threading.Event()
    delivered.set()
    watchdog = KillWatchdog(WorldKill(ValueError(), delivered, lambda: kills.end("unrecorded")), 0.0)
    watchdog.start()
    assert eventually(lambda: not armed_killers())
    assert kills.ends == []


def test_K21_an_armed_killer_that_would_outlive_its_stub_is_found(kills):
    watchdog = KillWatchdog(WorldKill(ValueError(), None, pytest.fail), LONG_S)
    watchdog.start()
    assert len(armed_killers()) == 1
    watchdog.cancel()
    assert eventually(lambda: not armed_killers())


def test_K22_a_benign_late_exception_of_an_object_shut_down_twice_kills_nobody(virtual, kills):
    guard = guard_of(grace_s=0.0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shut down twice"), guard:
            guard.completed()
            raise RuntimeError("shut down twice")
    assert (virtual.made, kills.ends) == ([], [])


def test_K23_the_log_names_the_seconds_that_are_left(virtual, kills, caplog):
    def slow():
        kills.now_s += 29.5

    with caplog.at_level(logging.ERROR, "resurge"):
        crash(guard_of(cleanup=slow, grace_s=30.0))
    assert "ends its world in 0.5 s" in caplog.text


def test_K24_the_hand_over_is_debug(kills, caplog):
    watchdog = KillWatchdog(WorldKill(ValueError(), None, pytest.fail), LONG_S)
    with caplog.at_level(logging.DEBUG, "resurge"):
        watchdog.start()
        watchdog.cancel()
        assert eventually(lambda: "handed over" in caplog.text)
    (record,) = [record for record in caplog.records if "handed over" in record.message]
    assert record.levelno == logging.DEBUG


def test_K25_a_drain_after_all_agreed_to_stop_is_after_the_sentinel(virtual, kills):
    guard = guard_of(grace_s=0.0)
    with pytest.raises(RuntimeError), guard:
        guard.completed()
        raise RuntimeError("a request was left in this rank's own queue")
    assert kills.ends == []


def test_K25_of_both_variables_the_one_of_this_house_wins():
    told = dict(zip(VARIABLES, ("1", "2"), strict=True))
    assert environment.crash_grace(told) == (1.0, "")
    assert environment.crash_grace({**told, VARIABLES[0]: ""}) == (2.0, "")


def test_S1_S5_the_record_stands_before_cleanup_and_decides_how_it_ends(virtual, kills, monkeypatch, tmp_path):
    path = tmp_path / "error.json"
    monkeypatch.setenv(environment.ERROR_FILE, str(path))
    seen = []
    crash(guard_of(cleanup=lambda: seen.append(json.loads(path.read_text())), grace_s=1.0))
    assert seen[0]["message"]["message"] == "ValueError: the loop's own error"
    assert kills.ends == ["recorded"]


def test_S5_a_record_that_cannot_be_left_is_no_obstacle(virtual, kills, monkeypatch, tmp_path):
    monkeypatch.setenv(environment.ERROR_FILE, str(tmp_path / "no" / "such" / "folder"))

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    crash(guard_of(cleanup=lambda: None, grace_s=1.0), Mute())
    assert kills.ends == ["unrecorded"]


def test_the_last_words_are_the_error(virtual, kills, capsys):
    crash(guard_of(cleanup=lambda: None, grace_s=0.0))
    assert "ValueError: the loop's own error" in capsys.readouterr().err


def test_the_public_name_takes_the_session_of_this_process(kills):
    with resurge.crash_guard(cleanup=lambda: kills.order.append("cleanup")) as guard:
        assert isinstance(guard, resurge.CrashGuard)
    assert kills.order == ["cleanup"]


def test_the_kernels_timer_stands_behind_the_deadline_until_the_world_is_spared(virtual, kills):
    crash(guard_of(cleanup=lambda: None, grace_s=5.0))
    assert (kills.dead_man_after_s, kills.dead_man_disarmed) == ([5.0 + world_kill.DEAD_MAN_MARGIN_S], 0)
    delivered = threading.Event()
    delivered.set()
    crash(guard_of(cleanup=lambda: None, grace_s=5.0, delivered=delivered))
    assert kills.dead_man_disarmed == 1


@pytest.mark.parametrize("world_size", [1, 2])
def test_the_kernels_timer_is_not_armed_where_nothing_kills(virtual, kills, world_size):
    crash(guard_of(cleanup=lambda: None, world_size=world_size, grace_s=-1.0))
    assert kills.dead_man_after_s == []
