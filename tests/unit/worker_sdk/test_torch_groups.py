"""Groups of torch under a guard, with a backend that only notes what it is told."""

import sys
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest

import resurge
from resurge.guards import Outcome, exits, stand_down_all, torch_groups
from resurge.guards.torch_groups import GlooGroup, TorchGroup
from resurge.own_sockets import OwnSockets
from tests.unit.worker_sdk.abort_fakes import WAIT_S, eventually

LONG_S, SHORT_S = 600.0, 0.02


class Backend:
    def __init__(self):
        self.options = SimpleNamespace(_timeout=timedelta(seconds=1800))
        self.told = []

    def set_timeout(self, limit):
        self.told.append(limit.total_seconds())


class Work:
    def __init__(self, is_late=False, is_completed=False):
        self.is_late, self._is_completed, self.limits = is_late, is_completed, []

    def wait(self, limit=None):
        self.limits.append(limit and limit.total_seconds())
        if self.is_late:
            raise RuntimeError("Operation timed out!")

    def is_completed(self):
        return self._is_completed


class Sockets(OwnSockets):
    def __init__(self):
        super().__init__({})
        self.cuts = 0

    def cut(self):
        self.cuts += 1
        return 2


@pytest.fixture
def gloo(monkeypatch):
    backend, sockets = Backend(), Sockets()
    monkeypatch.setattr(torch_groups, "_gloo_backend", lambda group: group.backend)
    group = GlooGroup(SimpleNamespace(backend=backend), sockets)
    return SimpleNamespace(group=group, backend=backend, sockets=sockets)


def test_a_guard_sets_the_backends_timeout_and_puts_it_back(gloo):
    with resurge.deadline(60, gloo.group):
        assert gloo.backend.told == [pytest.approx(60, abs=1)]
        with resurge.deadline(5, gloo.group):
            assert gloo.backend.told[1:] == [pytest.approx(5, abs=1)]
        assert gloo.backend.told[2:] == [pytest.approx(60, abs=1)]
    assert gloo.backend.told[3:] == [1800]


def test_an_inner_guard_never_lengthens_the_outer_one(gloo):
    with resurge.deadline(5, gloo.group), resurge.deadline(60, gloo.group):
        assert max(gloo.backend.told) < 6


def test_a_guard_longer_than_the_groups_own_timeout_leaves_that(gloo):
    with resurge.deadline(7200, gloo.group):
        pass
    assert gloo.backend.told == []


def test_a_guard_that_ends_after_the_groups_own_timeout_costs_no_lock(gloo, monkeypatch):
    """That is every step of most trainings."""
    monkeypatch.setattr(torch_groups, "_monotonic", lambda: 100.0)
    gloo.group._lock = None
    ends_s = 100.0 + 1800 - torch_groups.NATIVE_MARGIN_S / 2
    gloo.group.enter_guard(ends_s)
    gloo.group.leave_guard(ends_s)
    assert gloo.backend.told == []


def test_inside_a_guard_a_longer_one_has_what_is_left_of_it(gloo, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(torch_groups, "_monotonic", lambda: now[0])
    gloo.group.enter_guard(160.0)
    now[0] = 150.0
    gloo.group.enter_guard(7300.0)
    assert gloo.backend.told == pytest.approx([60 + torch_groups.NATIVE_MARGIN_S, 10 + torch_groups.NATIVE_MARGIN_S])
    now[0] = 155.0
    gloo.group.leave_guard(7300.0)
    assert gloo.backend.told[2:] == [pytest.approx(5 + torch_groups.NATIVE_MARGIN_S)]


def test_without_a_limit_the_backend_is_not_touched(gloo):
    with resurge.deadline(None, gloo.group):
        pass
    assert gloo.backend.told == []


def test_a_collective_by_run_has_what_is_left(gloo, monkeypatch):
    now = [time.monotonic()]
    monkeypatch.setattr(torch_groups, "_monotonic", lambda: now[0])
    gloo.group.enter_guard(now[0] + 60)
    now[0] += 50
    assert gloo.group.run(lambda group: group.backend) is gloo.backend
    assert gloo.backend.told[-1] == pytest.approx(10 + torch_groups.NATIVE_MARGIN_S)
    now[0] += 50
    gloo.group.run(lambda group: None)
    assert gloo.backend.told[-1] > 0, "0 would mean for ever"


def test_at_the_deadline_the_connections_are_cut_once_and_the_group_let_go(gloo):
    with pytest.raises(resurge.CollectiveAborted), resurge.deadline(SHORT_S, gloo.group):
        assert eventually(lambda: gloo.sockets.cuts == 1)
    gloo.group.abort()
    assert gloo.sockets.cuts == 1
    assert gloo.group.aborted
    with pytest.raises(resurge.CollectiveAborted, match="fresh prefix"):
        gloo.group.run(lambda group: None)


def test_a_stand_down_shortens_instead_of_cancelling(gloo, monkeypatch):
    monkeypatch.setattr(GlooGroup, "stand_down_grace_s", SHORT_S)
    with pytest.raises(resurge.CollectiveAborted), resurge.deadline(LONG_S, gloo.group) as guard:
        assert stand_down_all(gloo.group) == 1
        assert eventually(lambda: gloo.sockets.cuts == 1)
    assert guard.outcome is Outcome.ABORTED


def test_a_stand_down_before_the_clock_runs_shortens_as_well(gloo, monkeypatch):
    monkeypatch.setattr(GlooGroup, "stand_down_grace_s", SHORT_S)
    guard = resurge.deadline(LONG_S, gloo.group, raise_=False)
    guard.stand_down()
    with guard:
        assert eventually(lambda: gloo.sockets.cuts == 1)
    assert guard.fired


def test_a_stand_down_never_lengthens_and_a_wait_that_ends_by_itself_is_stood_down(gloo):
    with resurge.deadline(0.5, gloo.group) as guard:
        before = guard.due_s
        guard.stand_down()
        assert guard.due_s <= before
    assert not guard.fired
    assert guard.outcome is Outcome.STOOD_DOWN


def test_a_point_to_point_wait_has_what_is_left_of_the_guard(gloo):
    work = Work()
    gloo.group.wait(work)
    assert work.limits == [None]
    with resurge.deadline(30, gloo.group):
        gloo.group.wait(work)
    assert work.limits[1:] == [pytest.approx(30, abs=1)]


def test_a_wait_that_is_given_up_while_the_operation_goes_on_is_known_to_be_stuck(gloo, monkeypatch):
    noted = []
    monkeypatch.setattr(exits, "note_stuck", noted.append)
    with pytest.raises(resurge.CollectiveAborted, match="send to rank 3 did not end"):
        with resurge.deadline(LONG_S, gloo.group):
            gloo.group.wait(Work(is_late=True), "send to rank 3")
    assert noted == ["a send to rank 3 of gloo"]


def test_an_operation_that_failed_is_not_stuck(gloo, monkeypatch):
    noted = []
    monkeypatch.setattr(exits, "note_stuck", noted.append)
    with pytest.raises(RuntimeError, match="timed out") as raised, resurge.deadline(LONG_S, gloo.group):
        gloo.group.wait(Work(is_late=True, is_completed=True))
    assert not isinstance(raised.value, resurge.CollectiveAborted)
    assert noted == []


def test_a_backend_that_can_abort_is_aborted_once_after_the_snapshot(monkeypatch, tmp_path):
    path, order = tmp_path / "flight.json", []
    bindings = SimpleNamespace(_dump_fr_trace_json=lambda: b'{"entries": []}')
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", bindings)
    group = TorchGroup(SimpleNamespace(abort=lambda: order.append(path.read_bytes())), path)
    group.abort()
    group.abort()
    assert order == [b'{"entries": []}']
    assert group.aborted


def test_a_flight_recorder_that_hangs_does_not_hold_the_abort_up(monkeypatch, tmp_path):
    let_go, aborted = threading.Event(), []
    bindings = SimpleNamespace(_dump_fr_trace_json=lambda: let_go.wait(WAIT_S))
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", bindings)
    monkeypatch.setattr(torch_groups, "SNAPSHOT_LIMIT_S", SHORT_S)
    TorchGroup(SimpleNamespace(abort=lambda: aborted.append(True)), tmp_path / "flight.json").abort()
    let_go.set()
    assert aborted == [True]


def test_a_torch_without_an_abort_is_refused_with_its_remedy(monkeypatch):
    c10d = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch.distributed", SimpleNamespace(distributed_c10d=c10d))
    with pytest.raises(NotImplementedError, match=r"2\.6 or newer"):
        TorchGroup(SimpleNamespace())
    aborted = []
    c10d._abort_process_group = aborted.append
    group = SimpleNamespace()
    TorchGroup(group).abort()
    assert aborted == [group]


def test_gloo_is_not_taken_for_a_backend_that_can_abort(monkeypatch):
    distributed = SimpleNamespace(get_backend=lambda group: "gloo")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=distributed))
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    with pytest.raises(ValueError, match="open_gloo"):
        torch_groups.abortable(SimpleNamespace())


def test_a_guard_that_cannot_be_entered_leaves_nothing_behind(gloo):
    class Broken:
        def abort(self):
            raise AssertionError("not armed")

        def enter_guard(self, deadline_s):
            raise ValueError("no backend")

    with pytest.raises(ValueError, match="no backend"), resurge.deadline(60, [gloo.group, Broken()]):
        pass
    assert gloo.backend.told[-1] == 1800
    assert stand_down_all() == 0


def test_a_group_that_is_destroyed_inside_its_guard_is_no_trouble(gloo, monkeypatch):
    def gone(limit):
        raise RuntimeError("the process group was destroyed")

    with resurge.deadline(60, gloo.group):
        monkeypatch.setattr(gloo.backend, "set_timeout", gone)
