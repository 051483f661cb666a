"""A store process is known as the launcher's own from its birth on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from resurge_launcher.warm import orders
from resurge_launcher.warm.store_keeper import StoreProcess
from resurge_libs.testing import wait_until_async


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


async def test_a_store_is_known_before_the_word_of_its_birth_is_read(child):
    answers: list[bool] = []
    store = StoreProcess("127.0.0.1", lambda answered: answers.append(answered.is_up), lambda _: None)
    assert store.known_pid() is None
    pidfd = os.pidfd_open(child.pid)
    socket.send_fds(store.theirs, [orders.encoded(orders.Born((child.pid,)))], [pidfd])
    os.close(pidfd)
    store.theirs.send(orders.encoded(orders.Ack(child.pid, "")))
    assert (store.pid, store.known_pid()) == (None, child.pid)
    await wait_until_async(lambda: answers, 10, "the answer")
    assert answers == [True], "a look takes nothing of what is told"
    store.end()
    assert child.wait(10) == -9
