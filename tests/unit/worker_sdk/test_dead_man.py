"""The kernel's timer behind a crash guard, in processes of its own."""

import signal
import subprocess
import sys

import pytest

from resurge import dead_man

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the timers are Linux's")

PREAMBLE = """
import atexit, ctypes, os, sys, threading
import resurge
from resurge import dead_man
def hold_the_interpreter():
    ctypes.PyDLL(None).usleep(ctypes.c_uint(20_000_000))
"""


def ended(program):
    done = subprocess.run([sys.executable, "-c", PREAMBLE + program], capture_output=True, text=True, timeout=50)
    return done.returncode, done.stdout.split()


def test_it_kills_while_native_code_holds_the_interpreter():
    assert ended("dead_man.arm_dead_man(0.1)\nhold_the_interpreter()") == (-signal.SIGKILL, [])


def test_disarmed_it_does_not():
    program = (
        "own = dead_man.arm_dead_man(0.1)\nown.disarm()\nown.disarm()\nthreading.Event().wait(0.4)\nprint('lives')"
    )
    assert ended(program) == (0, ["lives"])


def test_a_forked_child_does_not_have_it():
    program = (
        "own = dead_man.arm_dead_man(0.3)\n"
        "child = os.fork()\n"
        "if not child: threading.Event().wait(0.8); os._exit(7)\n"
        "own.disarm()\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert ended(program) == (0, ["7"])


def test_a_platform_without_such_timers_goes_without(monkeypatch):
    def fails(after_s):
        raise OSError(38, "not implemented")

    monkeypatch.setattr(dead_man, "_armed", fails)
    assert dead_man.arm_dead_man(5.0) is None


CRASH = """
from resurge import crashing
crashing.DEAD_MAN_MARGIN_S = 0.1
delivered = threading.Event()
"""


def test_a_rank_that_crashed_and_hangs_while_it_is_taken_apart_is_killed():
    program = CRASH + (
        "atexit.register(hold_the_interpreter)\n"
        "with resurge.crash_guard(grace_s=0.3, world_size=2): raise ValueError('what broke the loop')\n"
    )
    assert ended(program) == (-signal.SIGKILL, [])


def test_a_rank_whose_crash_was_delivered_lives_on():
    program = CRASH + (
        "delivered.set()\n"
        "try:\n"
        "    with resurge.crash_guard(grace_s=0.1, world_size=2, delivered=delivered): raise ValueError\n"
        "except ValueError: threading.Event().wait(0.6)\n"
        "print('lives')\n"
    )
    assert ended(program) == (0, ["lives"])


class Libc:
    """Answers as the kernel would when it has no timer left, or does not take the time."""

    def __init__(self, fails):
        self.fails, self.deleted = fails, 0

    def timer_create(self, *_):
        return self.fails == "create"

    def timer_settime(self, *_):
        return self.fails == "settime"

    def timer_delete(self, _):
        self.deleted += 1


@pytest.mark.parametrize(("fails", "deleted"), [("create", 0), ("settime", 1)])
def test_a_timer_that_the_kernel_refuses_is_none_and_leaves_nothing(monkeypatch, fails, deleted):
    libc = Libc(fails)
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: libc)
    assert dead_man.arm_dead_man(5.0) is None
    assert libc.deleted == deleted
