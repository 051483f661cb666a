"""Cutting the connections that appeared while something was made, and no others."""

import os
import socket

import pytest

from resurge import own_sockets
from resurge.own_sockets import OwnSockets

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the platform has no list of descriptors")


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connected(listener):
    client = socket.create_connection(listener.getsockname(), timeout=5)
    served, _ = listener.accept()
    served.settimeout(5)
    return client, served


def test_what_appeared_is_cut_and_what_was_there_is_not(listener):
    old, old_served = connected(listener)
    before = OwnSockets.open_now()
    new, new_served = connected(listener)
    with old, old_served, new, new_served:
        sockets = OwnSockets.since(before)
        assert len(sockets) == 2
        assert sockets.cut() == 2
        assert new.recv(1) == b""
        assert new_served.recv(1) == b""
        old.sendall(b"x")
        assert old_served.recv(1) == b"x"


def test_a_listening_socket_goes_on(listener):
    before = OwnSockets.open_now()
    with socket.create_server(("127.0.0.1", 0)) as later:
        assert OwnSockets.since(before).cut() == 0
        client, served = connected(later)
        client.close()
        served.close()


def test_other_kinds_of_sockets_are_left_alone():
    before = OwnSockets.open_now()
    one, two = socket.socketpair()
    with one, two, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, socket.socket() as unconnected:
        datagrams.connect(("127.0.0.1", 9))
        sockets = OwnSockets.since(before)
        assert len(sockets) == 4
        assert sockets.cut() == 0
        one.sendall(b"x")
        assert two.recv(1) == b"x"
        assert unconnected.fileno() > 0


def test_a_descriptor_that_was_given_out_anew_is_left_alone(listener):
    before = OwnSockets.open_now()
    first, first_served = connected(listener)
    sockets = OwnSockets.since(before)
    numbers = {first.fileno(), first_served.fileno()}
    first.close()
    first_served.close()
    again, again_served = connected(listener)
    with again, again_served:
        assert {again.fileno(), again_served.fileno()} == numbers
        assert sockets.cut() == 0
        again.sendall(b"x")
        assert again_served.recv(1) == b"x"


@pytest.mark.parametrize("end", [0, 1])
def test_connections_at_a_spared_port_are_left_alone_on_either_side(listener, end):
    """A store's connections are made together with the group's, by its clients and by its host."""
    before = OwnSockets.open_now()
    ends = connected(listener)
    port = (listener.getsockname()[1], ends[0].getsockname()[1])[end]
    with ends[0], ends[1]:
        assert OwnSockets.since(before, [port]).cut() == 0
        ends[0].sendall(b"x")
        assert ends[1].recv(1) == b"x"


def test_where_the_platform_does_not_tell_there_are_none(monkeypatch):
    monkeypatch.setattr(own_sockets, "_DESCRIPTORS", "/proc/self/no-such-folder")
    assert OwnSockets.open_now() == {}


def test_a_descriptor_that_is_closed_between_the_looks_counts_for_nothing(listener, monkeypatch):
    def closed(fd):
        raise OSError("bad descriptor")

    before = OwnSockets.open_now()
    ends = connected(listener)
    with ends[0], ends[1]:
        sockets = OwnSockets.since(before)
        with monkeypatch.context() as patch:
            patch.setattr(own_sockets.os, "dup", closed)
            assert sockets.cut() == 0


def test_a_descriptor_that_is_given_out_anew_between_the_looks_is_let_go_of(listener, monkeypatch):
    given = []

    def another(fd):
        given.append(os.open(os.devnull, os.O_RDONLY))
        return given[-1]

    before = OwnSockets.open_now()
    ends = connected(listener)
    with ends[0], ends[1]:
        sockets = OwnSockets.since(before)
        with monkeypatch.context() as patch:
            patch.setattr(own_sockets.os, "dup", another)
            assert sockets.cut() == 0
        for fd in given:
            with pytest.raises(OSError, match="descriptor"):
                os.fstat(fd)
    assert len(given) == 2
