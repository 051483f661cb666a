"""The launcher's orders: their bytes, the ear that hears them, and the guards that obey."""

import math
import os
import socket
import threading
import time

import pytest

import resurge
from resurge import environment, orders
from resurge.frames import Fired, FrameDecoder, FrameError, Hello, Listen
from resurge.guards import Outcome, deadlines, listening
from resurge.orders import Order, OrderDecoder
from resurge.refit_watchdog import RefitAbortWatchdog
from tests.unit.worker_sdk.abort_fakes import WAIT_S, Group, eventually

LONG_S = 600.0
ORDER = Order(7, 500, "rank 3 was ended by SIGKILL")


def test_orders_come_whole_whatever_the_cut_and_unknown_kinds_are_passed_over():
    later = Order(7, 500, "?", kind="dance").encoded()
    stream = ORDER.encoded() + later + Order(8, 1, "ü", "step").encoded()
    for piece in (1, 3, 1000):
        decoder = OrderDecoder()
        found = [one for at in range(0, len(stream), piece) for one in decoder.feed(stream[at : at + piece])]
        assert found == [ORDER, Order(8, 1, "ü", "step")]


@pytest.mark.parametrize("payload", [b"[]", b"{}", b"\xff", b'{"generation":"x","left_ms":1,"sentence":""}'])
def test_what_is_no_order_is_refused(payload):
    with pytest.raises(FrameError):
        OrderDecoder().feed(len(payload).to_bytes(4, "big") + payload)
    with pytest.raises(FrameError, match="announced"):
        OrderDecoder().feed(b"\xff\xff\xff\xff")


class Launcher:
    """One that takes a listener's connection, and orders by hand."""

    def __init__(self, path):
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(str(path))
        self.server.listen()
        self.server.settimeout(WAIT_S)
        self.frames = []
        self.line = self.server

    def takes(self):
        self.line, _ = self.server.accept()
        self.line.settimeout(WAIT_S)
        self.decoder = FrameDecoder()
        self.hears(2)

    def hears(self, count):
        while len(self.frames) < count:
            self.frames += self.decoder.feed(self.line.recv(4096))
        return self.frames

    def close(self):
        self.line.close()
        self.server.close()


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    for name, value in ((environment.SOCKET, str(tmp_path / "s")), (environment.GENERATION, "7"), ("RANK", "3")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(listening, "PAUSES_S", (0.01,))
    deadlines.EAR.forget()
    made = Launcher(tmp_path / "s")
    yield made
    made.close()
    deadlines.EAR.forget()


def test_the_first_guard_listens_and_an_order_aborts_what_it_waits_in(launcher):
    group = Group()
    with pytest.raises(resurge.CollectiveAborted, match=r"step was aborted by order: rank 3 was ended by SIGKILL"):
        with resurge.deadline(LONG_S, group, "step") as guard:
            launcher.takes()
            launcher.line.sendall(ORDER.encoded())
            group.block()
    assert group.aborts == 1
    assert guard.outcome is Outcome.ORDERED
    assert guard.fired and guard.partial
    hello, listen = launcher.frames
    assert isinstance(hello, Hello) and isinstance(listen, Listen)
    assert (listen.speaker.pid, listen.speaker.rank, listen.speaker.generation) == (os.getpid(), 3, 7)
    assert {thread.daemon for thread in threading.enumerate() if thread.name == "resurge-ear"} == {True}


def test_an_order_of_another_generation_is_not_obeyed(launcher):
    group = Group()
    with resurge.deadline(LONG_S, group, "step") as guard:
        launcher.takes()
        launcher.line.sendall(Order(6, 500, "late").encoded() + Order(7, 500, "other", "eval").encoded())
        with resurge.deadline(LONG_S, Group(), "probe", raise_=False) as probe:
            launcher.line.sendall(Order(7, 500, "now", "probe").encoded())
            assert eventually(lambda: probe.fired), "orders before it were heard"
        assert not guard.fired
    assert group.aborts == 0


def test_a_line_that_breaks_is_opened_again(launcher):
    with resurge.deadline(LONG_S, Group(), "step", raise_=False) as guard:
        launcher.takes()
        launcher.line.close()
        launcher.frames.clear()
        launcher.takes()
        launcher.line.sendall(ORDER.encoded())
        assert eventually(lambda: guard.fired)


def test_a_launcher_that_hangs_up_on_each_greeting_is_left_in_peace(launcher):
    """One of an older release knows no listeners: it is not asked again for as long as the process lives."""
    with resurge.deadline(LONG_S, Group()):
        for _ in range(listening.HANG_UPS_MOST):
            launcher.takes()
            launcher.line.close()
            launcher.frames.clear()
        assert eventually(lambda: not any(thread.name == "resurge-ear" for thread in threading.enumerate()))


def test_a_guard_that_fires_is_told_with_its_phase_and_one_that_was_ordered_is_not(launcher):
    group = Group()
    with resurge.deadline(LONG_S, Group(), "first", raise_=False) as first:
        launcher.takes()
        launcher.line.sendall(Order(7, 500, "now", "first").encoded())
        assert eventually(lambda: first.fired)
        with resurge.deadline(0.02, group, "step", raise_=False):
            group.block()
    (fired,) = launcher.hears(3)[2:]
    assert isinstance(fired, Fired)
    assert (fired.phase, fired.number, fired.left_ms) == ("step", 1, 1000)


@pytest.mark.parametrize("more", [{"phase": ""}, {"phase": "own", "fan_out": False}])
def test_a_guard_without_a_name_or_by_wish_is_told_to_nobody(launcher, more):
    quiet, loud = Group(), Group()
    with resurge.deadline(LONG_S, Group(), "outer"):
        launcher.takes()
        with resurge.deadline(0.02, quiet, raise_=False, **more):
            quiet.block()
        with resurge.deadline(0.02, loud, "loud", raise_=False):
            loud.block()
    assert [frame.phase for frame in launcher.hears(3)[2:]] == ["loud"]


def test_without_a_launcher_there_is_no_ear(monkeypatch):
    monkeypatch.delenv(environment.SOCKET, raising=False)
    deadlines.EAR.forget()
    before = set(threading.enumerate())
    with resurge.deadline(LONG_S, Group(), "step"):
        pass
    assert "resurge-ear" not in [thread.name for thread in set(threading.enumerate()) - before]
    deadlines.EAR.tell_fired("step")


def test_an_infinite_limit_waits_for_orders_alone():
    group = Group()
    with pytest.raises(resurge.CollectiveAborted, match="by order"):
        with resurge.deadline(math.inf, group, "step") as guard:
            assert guard.armed
            assert deadlines.obey(ORDER) == 1
            group.block()


def test_who_has_nothing_to_abort_or_has_ended_or_has_a_controller_is_left_alone():
    group = Group()
    with resurge.deadline(LONG_S, None, "bare"), RefitAbortWatchdog(group, LONG_S) as refit:
        with resurge.deadline(LONG_S, group, "over") as over:
            over.stand_down()
            assert deadlines.obey(ORDER) == 0
    assert not refit.fired
    assert group.aborts == 0
    assert over.outcome is Outcome.STOOD_DOWN
    assert deadlines.obey(ORDER) == 0
    assert ORDER.kind == orders.ABORT


def test_an_order_that_comes_late_is_not_obeyed():
    with resurge.deadline(LONG_S, Group(), "step", raise_=False) as guard:
        now_ns = time.monotonic_ns()
        assert deadlines.obey(Order(7, 500, "stale", "step", until_ns=now_ns)) == 0
        assert not guard.fired, "the group may be a fresh one"
        assert deadlines.obey(Order(7, 500, "fresh", "step", until_ns=now_ns + 600 * 10**9)) == 1


def test_an_order_of_a_launcher_that_names_no_end_is_obeyed():
    (heard,) = OrderDecoder().feed(_payload(b'{"generation":7,"left_ms":1,"sentence":"now","phase":"step"}'))
    assert heard.until_ns == 0
    with resurge.deadline(LONG_S, Group(), "step", raise_=False):
        assert deadlines.obey(heard) == 1


def test_the_end_of_an_order_s_worth_is_carried_and_nonsense_in_it_refused():
    order = Order(7, 500, "now", "step", until_ns=123_456_789_012_345)
    assert OrderDecoder().feed(order.encoded()) == [order]
    with pytest.raises(FrameError):
        OrderDecoder().feed(_payload(b'{"generation":7,"left_ms":1,"sentence":"","until_ns":"soon"}'))


def _payload(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def test_only_a_guard_that_can_obey_begins_to_listen(launcher):
    with resurge.deadline(LONG_S, None, "bare"), RefitAbortWatchdog(Group(), LONG_S), resurge.deadline(0, Group()):
        assert not deadlines.EAR.begun
