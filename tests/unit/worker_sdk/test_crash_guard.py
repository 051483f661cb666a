"""The crash guard, until it kills: K1 to K15 of the statements about killing the world."""

import logging
import math
import threading

import pytest

from resurge import crashing, environment
from resurge.world_kill import KillWatchdog, WorldKill
from tests.unit.worker_sdk.abort_fakes import WAIT_S, eventually
from tests.unit.worker_sdk.crash_stage import LONG_S, VARIABLES, armed_killers, crash, guard_of


@pytest.mark.parametrize(
    ("told", "grace_s", "is_wrong"),
    [
        (None, 10.0, False),
        ("", 10.0, False),
        ("3.5", 3.5, False),
        ("0", 0.0, False),
        ("-1", -1.0, False),
        ("soon", 10.0, True),
        ("nan", 10.0, True),
        ("inf", 10.0, True),
        ("-inf", 10.0, True),
    ],
)
@pytest.mark.parametrize("name", VARIABLES)
def test_K1_the_grace_by_its_variable(name, told, grace_s, is_wrong):
    value, problem = environment.crash_grace({} if told is None else {name: told})
    assert value == grace_s
    assert bool(problem) is is_wrong
    assert not is_wrong or name in problem


@pytest.mark.parametrize(("told", "slept"), [("nan", [10.0]), ("soon", [10.0]), ("2", [2.0]), ("0", [])])
def test_K1_the_grace_that_is_slept(virtual, kills, monkeypatch, caplog, told, slept):
    monkeypatch.setenv("TLLM_RANK_CRASH_HARD_KILL_GRACE", told)
    with caplog.at_level(logging.ERROR, "resurge"):
        crash(guard_of(cleanup=lambda: None))
    assert kills.slept == slept
    assert kills.ends == ["unrecorded"]
    assert ("TLLM_RANK_CRASH_HARD_KILL_GRACE is" in caplog.text) is (told in ("nan", "soon"))


def test_K1_negative_disables(virtual, kills, monkeypatch):
    monkeypatch.setenv("TLLM_RANK_CRASH_HARD_KILL_GRACE", "-1")
    cleaned = []
    crash(guard_of(cleanup=lambda: cleaned.append(1)))
    assert (virtual.made, kills.ends, cleaned) == ([], [], [1])


@pytest.mark.parametrize("world_size", [0, 1])
def test_K2_a_world_of_one_is_left_alone(virtual, kills, world_size):
    cleaned = []
    guard = guard_of(cleanup=lambda: cleaned.append(1), world_size=world_size)
    crash(guard)
    assert (virtual.made, kills.ends, cleaned) == ([], [], [1])
    assert guard.watchdog is None


def test_K2_the_world_may_be_known_to_torch_alone(virtual, kills, monkeypatch):
    class Distributed:
        is_available = is_initialized = staticmethod(lambda: True)
        get_world_size = staticmethod(lambda: 4)

    monkeypatch.setitem(crashing.sys.modules, "torch.distributed", Distributed)
    crash(guard_of(cleanup=lambda: None, world_size=1))
    assert len(kills.ends) == 1


def test_K3_the_grace_is_slept_once_and_then_there_is_one_kill(virtual, kills):
    crash(guard_of(cleanup=lambda: None, grace_s=7.0))
    assert kills.slept == [7.0]
    assert kills.ends == ["unrecorded"]
    virtual.made[0]._kill.now()
    assert len(kills.ends) == 1


def test_K4_the_kill_never_raises(kills, caplog):
    def broken():
        raise OSError("the abort machinery is broken")

    kill = WorldKill(ValueError("x"), None, broken)
    with caplog.at_level(logging.ERROR, "resurge"):
        assert kill.now() is False
    assert "could not be killed" in caplog.text


def test_K4_the_loops_own_error_is_what_comes_out(virtual, kills, monkeypatch):
    def broken():
        raise OSError("the abort machinery is broken")

    monkeypatch.setattr(crashing, "end_unrecorded", broken)
    error = ValueError("mine")
    assert crash(guard_of(cleanup=lambda: None, grace_s=0.0), error) is error


def test_K5_K6_a_rank_that_blocks_in_cleanup_is_killed_at_its_deadline(kills):
    """The real watchdog: cleanup never returns before it has fired."""
    names = []

    def blocks():
        names.extend(thread.daemon for thread in threading.enumerate() if thread.name == "resurge-crash-kill")
        assert kills.ended.wait(WAIT_S)

    guard = guard_of(cleanup=blocks, grace_s=0.1)
    crash(guard)
    assert names == [True]
    assert kills.ends == ["unrecorded"]


def test_K6_without_a_cleanup_the_exception_goes_on_and_the_watchdog_stays(kills):
    guard = guard_of(grace_s=0.05)
    crash(guard)
    assert not guard.watchdog.cancelled
    assert kills.ended.wait(WAIT_S)
    assert kills.ends == ["unrecorded"]


@pytest.mark.parametrize(("grace_s", "left_s"), [(30.0, 30.0), (0.0, 0.0), (-5.0, 0.0)])
def test_K7_the_deadline_is_fixed_when_it_is_armed(virtual, kills, grace_s, left_s):
    assert virtual.make(WorldKill(ValueError(), None, pytest.fail), grace_s).deadline == 100.0 + left_s


def test_K8_cancel_breaks_the_wait_and_may_be_called_again(kills):
    watchdog = KillWatchdog(WorldKill(ValueError(), None, lambda: kills.end("unrecorded")), LONG_S)
    assert watchdog.start()
    assert not watchdog.cancelled
    watchdog.cancel()
    watchdog.cancel()
    assert watchdog.cancelled
    assert eventually(lambda: not armed_killers())
    assert kills.ends == []
    with pytest.raises(AttributeError):
        watchdog.cancelled = False


def test_K9_the_kill_is_carried_inline_with_the_first_deadline(virtual, kills):
    def slow():
        kills.now_s += 29.5

    guard = guard_of(cleanup=slow, grace_s=30.0)
    crash(guard)
    assert kills.slept == [pytest.approx(0.5)]
    assert guard.watchdog.cancelled
    assert kills.now_s == pytest.approx(guard.watchdog.deadline)


@pytest.mark.parametrize("burnt_s", [30.0, 31.0, math.inf])
def test_K10_a_deadline_that_has_passed_kills_now(virtual, kills, burnt_s):
    def slow():
        kills.now_s += burnt_s

    crash(guard_of(cleanup=slow, grace_s=30.0))
    assert kills.slept == []
    assert len(kills.ends) == 1


def test_K11_armed_cleanup_cancel_kill(virtual, kills):
    crash(guard_of(cleanup=lambda: kills.order.append("cleanup"), grace_s=5.0))
    assert kills.order == ["armed", "cleanup", "cancel", "kill"]


def test_K11_it_kills_when_cleanup_raises(virtual, kills):
    def fails():
        raise OSError("cleanup failed")

    with pytest.raises(OSError, match="cleanup failed") as raised, guard_of(cleanup=fails, grace_s=5.0):
        raise ValueError("mine")
    assert isinstance(raised.value.__context__, ValueError)
    assert len(kills.ends) == 1


@pytest.mark.parametrize("cleanup", [None, lambda: None])
def test_K11_it_kills_after_the_full_grace_when_no_watchdog_can_be_started(virtual, kills, cleanup):
    virtual.can_start = False
    guard = guard_of(cleanup=cleanup, grace_s=5.0)
    crash(guard)
    assert kills.slept == [5.0]
    assert len(kills.ends) == 1
    assert guard.watchdog is None


def test_K12_a_clean_exit_only_cleans_up(virtual, kills):
    cleaned = []
    with guard_of(cleanup=lambda: cleaned.append(1)) as guard:
        pass
    assert (virtual.made, kills.ends, cleaned) == ([], [], [1])
    assert guard.error is None


def test_K13_a_flag_that_asks_the_loop_to_stop_makes_no_crash_harmless(virtual, kills):
    class Executor:
        is_shutdown = False

        def fatal(self):
            self.is_shutdown = True
            raise RuntimeError("out of memory on this rank alone")

    executor = Executor()
    with pytest.raises(RuntimeError), guard_of(cleanup=lambda: None, grace_s=0.0):
        executor.fatal()
    assert executor.is_shutdown
    assert len(kills.ends) == 1


def test_K14_a_raise_after_the_sentinel_is_logged_and_kills_nobody(virtual, kills, caplog):
    guard = guard_of(cleanup=lambda: kills.order.append("cleanup"), grace_s=0.0)
    error = ValueError("the profiler's exit")
    with caplog.at_level(logging.WARNING, "resurge"), pytest.raises(ValueError) as raised, guard:
        guard.completed()
        raise error
    assert raised.value is error
    assert kills.order == ["cleanup"]
    assert "after the loop was complete" in caplog.text


def test_K14_a_raise_before_the_loop_kills(virtual, kills):
    with pytest.raises(OSError), guard_of(cleanup=lambda: None, grace_s=0.0):
        raise OSError("the model's file is not there")
    assert len(kills.ends) == 1


def test_K15_the_sentinel_is_reset_for_each_run(virtual, kills):
    guard = guard_of(cleanup=lambda: None, grace_s=0.0)
    with guard:
        guard.completed()
    with guard:
        pass
    assert kills.ends == []
    error = crash(guard)
    assert len(kills.ends) == 1
    assert guard.error is error
    with guard:
        assert (guard.error, guard.watchdog, guard.crashed.is_set()) == (None, None, False)
