"""The offered store: a port that was offered for want of a fork server gives way to a store once there is one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from resurge_launcher.core.model import StoreOffer
from resurge_launcher.store_offer import StorePort
from resurge_launcher.warm import orders, store_keeper
from resurge_launcher.warm.client import WarmStart
from resurge_launcher.warm.store_keeper import StoreProcess
from resurge_libs.testing import wait_until_async

LIMIT_S = 20.0


class FakeWarm(WarmStart):
    """A fork server that is ready when the test says so; a store is any process."""

    def __init__(self) -> None:
        self.is_there = False
        self.then: list[Callable[[], None]] = []
        self.asked: list[StoreProcess] = []

    def when_settled(self, then: Callable[[], None]) -> None:
        then()

    def whenever_ready(self, then: Callable[[], None]) -> None:
        self.then.append(then)

    def ask_for_store(self, store: StoreProcess) -> bool:
        if self.is_there:
            self.asked.append(store)
        return self.is_there

    def becomes_ready(self) -> None:
        self.is_there = True
        for then in self.then:
            then()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy for some seconds is no store that does not answer."""
    monkeypatch.setattr(store_keeper, "ANSWER_LIMIT_S", LIMIT_S)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child
        child.kill()


def answer(store: StoreProcess, process: subprocess.Popen[bytes], problem: str = "") -> None:
    pidfd = os.pidfd_open(process.pid)
    socket.send_fds(store.theirs, [orders.encoded(orders.Born((process.pid,)))], [pidfd])
    os.close(pidfd)
    store.theirs.send(orders.encoded(orders.Ack(process.pid, problem)))


async def test_a_port_gives_way_to_a_store_once_the_fork_server_is_ready(process: subprocess.Popen[bytes]):
    warm, offers = FakeWarm(), list[StoreOffer]()
    port = StorePort("127.0.0.1", warm)
    port.offer(offers.append)
    assert [offer.is_served for offer in offers] == [False] and not warm.asked
    warm.becomes_ready()
    assert len(offers) == 1, "the port stays offered until a store answers"
    answer(warm.asked[0], process)
    await wait_until_async(lambda: len(offers) == 2, LIMIT_S, "the offer of a store")
    assert offers[1] == StoreOffer("127.0.0.1", warm.asked[0].port, is_served=True)
    warm.becomes_ready()
    assert len(offers) == 2, "a store that is offered stays"
    port.release()


async def test_a_generation_that_has_begun_keeps_its_port_and_the_next_has_a_store_ready(
    process: subprocess.Popen[bytes],
):
    warm, offers = FakeWarm(), list[StoreOffer]()
    port = StorePort("127.0.0.1", warm)
    port.offer(offers.append)
    port.taken()
    warm.becomes_ready()
    answer(warm.asked[0], process)
    await wait_until_async(lambda: warm.asked[0].is_up, LIMIT_S, "the store")
    assert len(offers) == 1
    port.offer(offers.append)
    assert [offer.is_served for offer in offers] == [False, True] and len(warm.asked) == 1
    port.release()


async def test_a_store_that_cannot_be_served_leaves_the_port_as_it_is(process: subprocess.Popen[bytes]):
    warm, offers = FakeWarm(), list[StoreOffer]()
    port = StorePort("127.0.0.1", warm)
    port.offer(offers.append)
    warm.becomes_ready()
    answer(warm.asked[0], process, "no torch")
    await wait_until_async(lambda: warm.asked[0].gate.fileno() < 0, LIMIT_S, "the answer")
    assert len(offers) == 1, "the port is held on"
    port.release()
    warm.becomes_ready()
    assert len(warm.asked) == 1, "nobody wants one any more"
