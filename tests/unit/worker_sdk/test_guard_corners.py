"""Corners of the guards that only a mutant would find: each of these lines was once the last one that told."""

import math
import os
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

import resurge
from resurge import environment
from resurge.guards import Outcome, abort_work, deadlines, listening
from resurge.guards.abort_work import AbortWork
from resurge.guards.listening import Ear
from tests.unit.worker_sdk.abort_fakes import WAIT_S, Group, eventually

LONG_S = 600.0


class Lingering(Group):
    """One whose waits a peer's death does not end, as gloo's."""

    stand_down_grace_s = 0.03


class NoThread:
    def __init__(self, **_):
        pass

    def start(self):
        raise RuntimeError("can't start new thread")


def test_a_guard_says_what_it_guards():
    assert resurge.deadline(LONG_S, Group(), "step").phase == "step"


def test_without_groups_a_stand_down_cancels():
    with resurge.deadline(LONG_S) as guard:
        guard.stand_down()
        assert guard.outcome is Outcome.STOOD_DOWN
    assert not guard.fired


def test_a_stand_down_shortens_where_a_death_does_not_end_every_wait():
    group = Lingering()
    with resurge.deadline(LONG_S, group, raise_=False) as guard:
        guard.stand_down()
        assert guard.outcome is Outcome.OPEN
        group.block()
    assert guard.outcome is Outcome.ABORTED


def test_a_wait_that_ends_within_the_shortened_limit_has_stood_down():
    with resurge.deadline(LONG_S, Lingering()) as guard:
        guard.stand_down()
    assert guard.outcome is Outcome.STOOD_DOWN


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
def test_a_forked_child_has_no_refit_watchdog_of_its_parent_and_no_lock_that_is_held():
    program = (
        "import os, sys\n"
        "from resurge import refit_watchdog\n"
        "class Group:\n"
        "    def abort(self): pass\n"
        "with refit_watchdog.RefitAbortWatchdog(Group(), 600):\n"
        "    refit_watchdog._ARMED_LOCK.acquire()\n"
        "    child = os.fork()\n"
        "    if child == 0: os._exit(len(refit_watchdog._ARMED) + 2 * refit_watchdog._ARMED_LOCK._is_owned())\n"
        "    refit_watchdog._ARMED_LOCK.release()\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=50).returncode == 0


def test_where_no_thread_can_be_had_the_groups_are_aborted_on_the_callers_own(monkeypatch):
    said, group = [], Group()
    monkeypatch.setattr(abort_work.threading, "Thread", NoThread)
    work = AbortWork(lambda: said.append("fired"), [group])
    work.start()
    assert (said, group.aborts) == (["fired"], 1)
    assert work.wait(0)


def test_aborts_come_in_order_while_each_ends_in_its_turn_and_on_daemon_threads():
    order = []

    def slow():
        threading.Event().wait(0.03)
        order.append("first")

    def last():
        order.append("second")
        order.append({thread.daemon for thread in threading.enumerate() if thread.name.startswith("resurge-abort")})

    work = AbortWork(lambda: None, [Group(slow), Group(last)])
    work.start()
    assert work.wait(WAIT_S)
    assert order == ["first", "second", {True}]


def test_neither_an_abort_nor_what_is_said_of_it_can_hold_up_the_end_of_the_process():
    daemons = []

    def note():
        daemons.append(threading.current_thread().daemon)

    work = AbortWork(note, [Group(note), Group(note)])
    work.start()
    assert work.wait(WAIT_S)
    assert daemons == [True, True, True]


def test_the_first_abort_waits_for_nothing_that_is_said(monkeypatch):
    monkeypatch.setattr(abort_work, "TURN_S", LONG_S)
    group, heard = Group(), []
    work = AbortWork(lambda: heard.append(group.aborted.wait(WAIT_S)), [group])
    work.start()
    assert work.wait(WAIT_S)
    assert heard == [True]


def test_where_it_is_to_be_said_first_an_output_that_nobody_reads_costs_one_turn(monkeypatch):
    monkeypatch.setattr(abort_work, "TURN_S", 0.01)
    group, read = Group(), threading.Event()
    work = AbortWork(lambda: read.wait(LONG_S), [group], says_first=True)
    work.start()
    assert group.aborted.wait(WAIT_S) and not work.wait(0)
    read.set()
    assert work.wait(WAIT_S), "it is over when it was said too"


@pytest.mark.parametrize(
    ("error", "aborted", "lost"),
    [
        (resurge.CollectiveAborted("x"), True, False),
        (resurge.CollectiveAborted(), True, False),
        (resurge.DeviceContextLost(), True, True),
        (resurge.CollectiveAborted.context_lost("x"), True, True),
        (Exception(str(resurge.CollectiveAborted("x"))), True, False),
        (Exception(str(resurge.CollectiveAborted.context_lost("x"))), True, True),
        (RuntimeError("out of memory"), False, False),
    ],
)
def test_an_abort_and_a_lost_context_are_told_from_others_by_type_or_by_text(error, aborted, lost):
    assert resurge.is_aborted(error) is aborted
    assert resurge.is_context_lost(error) is lost


def test_a_guard_that_has_fired_is_not_counted_as_obeying():
    from resurge.orders import Order

    group = Group()
    with resurge.deadline(0.01, group, "step", raise_=False) as guard:
        assert eventually(lambda: guard.fired)
        assert deadlines.obey(Order(1, 1, "late")) == 0
    assert guard.outcome is Outcome.ABORTED


def test_where_only_the_first_thread_can_be_had_the_groups_are_aborted_on_it(monkeypatch):
    real, group = threading.Thread, Group()
    monkeypatch.setattr(
        abort_work.threading, "Thread", lambda **told: NoThread() if told["name"].endswith("one") else real(**told)
    )
    work = AbortWork(lambda: None, [group])
    work.start()
    assert work.wait(WAIT_S)
    assert group.aborts == 1


class Told(Group):
    """One that is told of guards, as gloo's is."""

    def __init__(self):
        super().__init__()
        self.entered, self.left = [], []

    def enter_guard(self, deadline_s):
        self.entered.append(deadline_s)

    def leave_guard(self, deadline_s):
        self.left.append(deadline_s)


def test_a_group_is_told_of_its_guard_and_of_the_end_with_the_same_instant():
    group = Told()
    with resurge.deadline(LONG_S, group):
        assert len(group.entered) == 1 and group.left == []
    assert group.left == group.entered


def test_a_group_is_told_of_the_end_also_where_the_wait_for_the_aborts_is_interrupted(monkeypatch):
    def interrupted(work, limit_s):
        raise KeyboardInterrupt

    group = Told()
    monkeypatch.setattr(AbortWork, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt), resurge.deadline(LONG_S, group) as guard:
        guard.expire()
    assert group.left == group.entered != []


def test_a_fresh_ear_is_deaf_and_begins_without_a_launcher(monkeypatch):
    monkeypatch.delenv(environment.SOCKET, raising=False)
    ear = Ear(lambda _: None)
    assert not ear.begun and not ear.connected.is_set()
    ear.begin()
    assert ear.begun
    ear.tell_fired("step")


def test_an_ear_that_a_handler_kept_from_beginning_begins_with_the_next_guard(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    ear = Ear(lambda _: None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(listening, "read_environment", interrupted)
        ear.begin()
    assert not ear.begun


def test_a_group_is_told_of_the_end_of_a_guard_that_could_not_be_entered(monkeypatch):
    def no_thread(at_s):
        raise RuntimeError("can't start new thread")

    group = Told()
    monkeypatch.setattr(deadlines.TIMER, "sooner", no_thread)
    monkeypatch.setattr(deadlines.TIMER, "wakes_at_s", math.inf)
    with pytest.raises(RuntimeError, match="new thread"):
        resurge.deadline(LONG_S, group).__enter__()
    assert group.left == group.entered != []


class ToldMeanwhile(Lingering):
    """One whose guard is stood down while it is being entered."""

    def enter_guard(self, deadline_s):
        self.guard.stand_down()


def test_a_stand_down_during_the_entry_shortens_too():
    group = ToldMeanwhile()
    group.guard = resurge.deadline(LONG_S, group, raise_=False)
    with group.guard:
        group.block()
    assert group.guard.outcome is Outcome.ABORTED


def test_a_forked_child_is_deaf_until_it_listens_itself():
    ear = Ear(lambda _: None)
    ear.begin()
    ear.connected.set()
    ear._life = listening._Life(environment.read_environment())
    ear._life.line, other_end = line, _ = socket.socketpair()
    ear.forget()
    assert not ear.begun and not ear.connected.is_set()
    assert line.fileno() == -1, "the child's copy of the line is closed"
    other_end.close()


class Scripted(Ear):
    """Its lines last as long as it is told, s; None for one that cannot be opened."""

    def __init__(self, *lasted):
        super().__init__(lambda _: None)
        self.left, self.found = list(lasted), []

    def _hear(self, life, connected):
        self.found.append((life.line, connected.is_set()))
        life.line = "open"
        connected.set()
        lasted = self.left.pop(0)
        if lasted is None:
            raise ConnectionRefusedError
        return lasted


def test_a_line_that_lasted_forgives_the_hang_ups_before_it_and_pauses_grow(monkeypatch):
    slept = []
    monkeypatch.setattr(listening, "time", SimpleNamespace(sleep=slept.append))
    ear = Scripted(0.0, 0.0, listening.HANGS_UP_S, 0.0, None, 0.0, 0.0)
    life = listening._Life(environment.read_environment())
    ear._run(life, ear.connected)
    assert ear.left == [], "three hang-ups in a row"
    assert ear.found == [(None, False)] * 7
    assert (life.line, ear.connected.is_set()) == (None, False)
    assert slept == [0.1, 0.5, 2.0, 10.0, 10.0, 10.0]


class Line:
    """A socket that notes what is done with it, and is closed at the first read."""

    def __init__(self, connected):
        self.done, self.connected = [], connected

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.done.append("closed")

    def settimeout(self, limit_s):
        self.done.append(limit_s)

    def connect(self, path):
        self.done.append("connect")

    def sendall(self, data):
        self.done.append("greet")

    def recv(self, size):
        self.done.append(f"recv {self.connected.is_set()}")
        return b""


def test_the_greeting_has_a_limit_and_the_wait_for_orders_has_none(monkeypatch):
    ear = Ear(lambda _: None)
    line = Line(ear.connected)
    told = SimpleNamespace(socket=lambda *_: line, AF_UNIX=0, SOCK_STREAM=0)
    monkeypatch.setattr(listening, "socket", told)
    assert ear._hear(listening._Life(environment.read_environment()), ear.connected) < WAIT_S
    limit_s = listening.CONNECT_LIMIT_S
    assert line.done == [limit_s, "connect", "greet", None, "recv True", "closed"]
