"""A crash guard whose kill is counted instead, and a clock that only sleeping moves."""

import threading
from dataclasses import dataclass, field

import pytest

from resurge.crashing import CrashGuard
from resurge.environment import WorkerEnvironment
from resurge.worker_session import Session
from resurge.world_kill import KillWatchdog

VARIABLES = ("RESURGE_RANK_CRASH_HARD_KILL_GRACE", "TLLM_RANK_CRASH_HARD_KILL_GRACE")
LONG_S = 600.0


@dataclass
class Kills:
    """The end of the process, counted instead; and what was slept before it, on a clock that only sleeping moves."""

    ends: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    now_s: float = 100.0
    ended: threading.Event = field(default_factory=threading.Event)

    dead_man_after_s: list[float] = field(default_factory=list)
    dead_man_disarmed: int = 0

    def arm_dead_man(self, after_s):
        self.dead_man_after_s.append(after_s)
        return self

    def disarm(self):
        self.dead_man_disarmed += 1

    def end(self, how):
        self.ends.append(how)
        self.order.append("kill")
        self.ended.set()

    def sleep(self, seconds):
        assert seconds > 0
        self.slept.append(seconds)
        self.now_s += seconds


class Watchdogs:
    """Watchdogs that were made, each on the virtual clock: they wait until they are cancelled, or are told to fire."""

    def __init__(self, kills):
        self.kills, self.made, self.can_start = kills, [], True

    def make(self, kill, grace_s):
        watchdog = KillWatchdog(kill, grace_s)
        watchdog.start = lambda: self._start()
        cancel = watchdog.cancel
        watchdog.cancel = lambda: (self.kills.order.append("cancel"), cancel())
        self.made.append(watchdog)
        return watchdog

    def _start(self):
        self.kills.order.append("armed")
        return self.can_start


def guard_of(cleanup=None, world_size=2, **told):
    return CrashGuard(Session(WorkerEnvironment(rank=1, world_size=world_size)), cleanup, **told)


def crash(guard, error=None):
    error = error or ValueError("the loop's own error")
    with pytest.raises(type(error)) as raised, guard:
        raise error
    return raised.value


def armed_killers():
    """The threads of this process that would end it."""
    return [thread for thread in threading.enumerate() if thread.name == "resurge-crash-kill"]
