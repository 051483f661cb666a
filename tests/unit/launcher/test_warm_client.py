"""A fork server that does not answer: how long the launcher stands still for it."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from resurge_launcher.core.replacement_state import ReplaceFailed, ReplaceWorkers
from resurge_launcher.effects import Effects
from resurge_launcher.processes.worker import Command
from resurge_launcher.start_files import NO_FILES
from resurge_launcher.warm import client, fork_server, orders
from resurge_launcher.warm.client import NotWarm, WarmStart, order_limit_s
from resurge_launcher.warm.fork_server import ForkServer
from resurge_libs.core.ids import Generation
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.obs import log
from resurge_libs.testing import wait_until_async
from tests.unit.launcher.core_world import run

BUSY_S = 10.0
let_go: list[ForkServer] = []


@pytest.fixture
def channel() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The launcher's end and the server's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def hung(channel: tuple[socket.socket, socket.socket]) -> Iterator[ForkServer]:
    """A server that takes orders and does nothing."""
    ours, _ = channel
    popen = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
    said, writes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    server = ForkServer(popen, os.pidfd_open(popen.pid), ours, said, time.monotonic(), is_ready=True)
    try:
        yield server
    finally:
        popen.kill()
        popen.wait(BUSY_S)
        if server not in let_go:
            os.close(server.pidfd)
            server.let_go()
        os.close(writes)


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    log.configure()


def test_a_server_that_does_not_answer_in_the_time_that_is_given_is_ended(hung: ForkServer):
    warm = WarmStart(cast(Any, None), hung, TimeLimits(lease_ttl_s=0.25, fault_grace_s=0.05))
    began = time.monotonic()
    with pytest.raises(NotWarm) as cold:
        warm.start([Command(["python"], {}, 1, 2)], beside=True)
    assert 0.075 <= time.monotonic() - began < BUSY_S
    assert "no answer within 0.075 s" in cold.value.because.sentence
    assert hung.popen.wait(BUSY_S) == -signal.SIGKILL


def outliving_kill(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that a file system holds in the kernel; its descriptors go with it."""
    let_go.append(server)
    monkeypatch.setattr(fork_server.signal, "pidfd_send_signal", lambda pidfd, number: None)
    monkeypatch.setattr(fork_server, "END_LIMIT_S", 0.05)
    monkeypatch.setattr(client, "REPLACED_LIMIT_S", 0.05)


def test_a_server_that_outlives_its_kill_does_not_hold_the_launchers_end(
    hung: ForkServer, monkeypatch: pytest.MonkeyPatch, said: io.StringIO
):
    outliving_kill(hung, monkeypatch)
    warm = WarmStart(cast(Any, None), hung)
    began = time.monotonic()
    warm.close()
    assert time.monotonic() - began < BUSY_S
    assert re.search(rf"fork_server_left .*pid={hung.popen.pid}\b", said.getvalue())


async def test_a_server_that_outlives_its_kill_is_no_stray_until_it_is_gone(
    hung: ForkServer, monkeypatch: pytest.MonkeyPatch, said: io.StringIO
):
    outliving_kill(hung, monkeypatch)
    warm = WarmStart(cast(Any, None), hung)
    warm._failures = client.FAILURES_LIMIT  # no other one is started
    warm._ended()
    assert warm._server is None and warm.pids == {hung.popen.pid}
    hung.popen.kill()
    await wait_until_async(lambda: not warm.pids, BUSY_S, "its end")
    assert hung.popen.returncode == -signal.SIGKILL and "fork_server_left" in said.getvalue()


async def test_each_server_that_becomes_ready_is_told_of(
    hung: ForkServer, channel: tuple[socket.socket, socket.socket], said: io.StringIO
):
    hung.is_ready, told = False, list[bool]()
    warm = WarmStart(cast(Any, None), hung)
    warm.whenever_ready(lambda: told.append(hung.is_ready))
    warm.attach(asyncio.get_running_loop())
    for times in (1, 2):
        channel[1].send(orders.encoded(orders.Ready(())))
        await wait_until_async(lambda: len(told) == times, BUSY_S, "the word")  # noqa: B023  # awaited in its turn
    assert told == [True, True]
    warm._forget()
    let_go.append(hung)
    os.close(hung.pidfd)


async def test_a_worker_in_the_place_of_a_lost_one_is_forked_beside_others():
    beside: list[bool] = []
    posted: list[object] = []

    def start(commands: Sequence[Command], is_beside: bool) -> list[Any]:
        beside.append(is_beside)
        raise NotWarm("no answer")

    def replace(loop: object, told: object, fork: Any, local_ranks: list[int], files: object) -> bool:
        return fork([]) is not None

    hands: Any = SimpleNamespace(
        shop=SimpleNamespace(logs=None),
        files=SimpleNamespace(prepare_again=lambda run, ranks, then: then(NO_FILES)),
        strays=SimpleNamespace(leave_to_others=lambda spared: None),
        warm=SimpleNamespace(start=start),
        post=posted.append,
    )
    effects = Effects(hands)
    effects._team = cast(Any, SimpleNamespace(run=run(3), replace=replace))
    effects.run(ReplaceWorkers(Generation(3), (1,)))
    assert posted == [ReplaceFailed(Generation(3), 1, "the fork server cannot fork it")]
    assert beside == [True]


@pytest.mark.parametrize("lease_ttl_s", [0.3, 1.0, 2.0, 5.0, 30.0])
def test_an_order_never_costs_the_lease(lease_ttl_s: float):
    limits = TimeLimits(lease_ttl_s=lease_ttl_s, fault_grace_s=0.05)
    alone, beside = order_limit_s(limits, False), order_limit_s(limits, True)
    assert limits.beat_interval_s + alone < lease_ttl_s + limits.lease_margin_s, "the server waits so long"
    assert limits.beat_interval_s + beside <= lease_ttl_s * 0.7 + 1e-9
    assert (alone, beside) == (3.0, 1.5) or lease_ttl_s < 5.0
