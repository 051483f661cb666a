"""What the guards' groups ask of torch: its point-to-point calls, its stores, its flight recorder. Torch stands in."""

import socket
import sys
from contextlib import ExitStack
from datetime import timedelta
from types import SimpleNamespace

import pytest

import resurge
from resurge.guards import torch_groups
from resurge.guards.torch_groups import TorchGroup, abortable, open_gloo, snapshot

LONG_S, WAIT_S = 600.0, 10.0


class Late:
    """Work that does not end."""

    def wait(self, limit=None):
        raise RuntimeError("Operation timed out!")

    def is_completed(self):
        return False


class Torch:
    """Its modules as far as they are used here; a call is noted, and what it starts does not end."""

    def __init__(self):
        self.calls = []
        self.c10d = SimpleNamespace(is_initialized=lambda: False)
        world = self.group()
        self.distributed = SimpleNamespace(
            isend=self._noted("isend"),
            irecv=self._noted("irecv"),
            get_backend=lambda group: group.kind,
            group=SimpleNamespace(WORLD=world),
            distributed_c10d=self.c10d,
        )
        self.device = str

    def group(self):
        backend = SimpleNamespace(options=SimpleNamespace(_timeout=timedelta(seconds=1800)), set_timeout=lambda _: None)
        return SimpleNamespace(_get_backend={"cpu": backend}.__getitem__)

    def _noted(self, name):
        def call(tensor, peer, group):
            self.calls.append((name, tensor, peer, group))
            return Late()

        return call


@pytest.fixture
def torch(monkeypatch):
    made = Torch()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setitem(sys.modules, "torch.distributed", made.distributed)
    monkeypatch.setattr(torch_groups.exits, "note_stuck", lambda what: None)
    return made


def test_send_and_receive_are_bounded_by_the_guard_and_named(torch):
    group = open_gloo(torch.group)
    with resurge.deadline(LONG_S, group):
        with pytest.raises(resurge.CollectiveAborted, match="the send to rank 3 did not end"):
            group.send("tensor", 3)
        with pytest.raises(resurge.CollectiveAborted, match="the receive from rank 2 did not end"):
            group.recv("tensor", 2)
    assert torch.calls == [("isend", "tensor", 3, group.group), ("irecv", "tensor", 2, group.group)]


def test_a_group_is_the_one_that_was_made_or_the_default_one(torch):
    own = torch.group()
    assert open_gloo(lambda: own).group is own
    assert open_gloo(lambda: None).group is torch.distributed.group.WORLD


class Net:
    """Connections within this process."""

    def __init__(self, stack):
        self._stack = stack

    def listen(self):
        server = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(WAIT_S)
        return server

    def connect(self, server):
        near = self._stack.enter_context(socket.create_connection(server.getsockname(), WAIT_S))
        far, _ = server.accept()
        self._stack.enter_context(far).settimeout(WAIT_S)
        return near


@pytest.fixture
def net():
    with ExitStack() as stack:
        yield Net(stack)


def is_cut(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_abort_cuts_what_was_opened_with_the_group_but_no_line_to_the_store(torch, net, wrapped):
    store, peer, opened = net.listen(), net.listen(), []
    served = SimpleNamespace(port=store.getsockname()[1])
    torch.c10d.is_initialized = lambda: True
    torch.c10d._get_default_store = lambda: SimpleNamespace(underlying_store=served) if wrapped else served

    def make():
        opened.extend((net.connect(peer), net.connect(store)))
        return torch.group()

    group = open_gloo(make)
    group.abort()
    assert [is_cut(each) for each in opened] == [True, False]


@pytest.mark.parametrize("is_initialized", [False, True])
def test_without_a_default_group_or_with_a_store_in_a_file_no_line_is_spared(torch, net, is_initialized):
    torch.c10d.is_initialized = lambda: is_initialized
    if is_initialized:
        torch.c10d._get_default_store = SimpleNamespace
    server, opened = net.listen(), []

    def make():
        opened.append(net.connect(server))
        return torch.group()

    open_gloo(make).abort()
    assert is_cut(opened[0])


def test_another_backend_is_aborted_as_it_can(torch):
    aborted = []
    group = abortable(SimpleNamespace(kind="nccl", abort=lambda: aborted.append(True)))
    assert isinstance(group, TorchGroup)
    group.abort()
    assert aborted == [True]


def test_a_snapshot_says_whether_it_was_written(monkeypatch, tmp_path):
    path = tmp_path / "flight.json"
    assert snapshot(None) is False
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", SimpleNamespace())
    assert snapshot(path) is False
    monkeypatch.setattr(torch_groups, "SNAPSHOT_LIMIT_S", WAIT_S)
    bindings = SimpleNamespace(_dump_nccl_trace_json=lambda: '{"entries": []}')
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", bindings)
    assert snapshot(path) is True
    assert path.read_text() == '{"entries": []}'


def test_an_aborted_gloo_group_leaves_its_flight_recorder(torch, monkeypatch, tmp_path):
    path = tmp_path / "flight.json"
    monkeypatch.setattr(torch_groups, "SNAPSHOT_LIMIT_S", WAIT_S)
    bindings = SimpleNamespace(_dump_fr_trace_json=lambda: b"{}")
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", bindings)
    open_gloo(torch.group, path).abort()
    assert path.read_bytes() == b"{}"
