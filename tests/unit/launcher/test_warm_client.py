"""A fork server that does not answer: how long the launcher stands still for it."""

from __future__ import annotations

import os
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
from resurge_launcher.warm.client import BESIDE_LIMIT_S, NotWarm, WarmStart
from resurge_launcher.warm.fork_server import ForkServer
from resurge_libs.core.ids import Generation
from resurge_libs.core.time_limits import TimeLimits
from tests.unit.launcher.core_world import run

BUSY_S = 10.0


@pytest.fixture
def hung() -> Iterator[ForkServer]:
    """A server that takes orders and does nothing."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    popen = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
    said, writes = os.pipe()
    server = ForkServer(popen, os.pidfd_open(popen.pid), ours, said, time.monotonic(), is_ready=True)
    try:
        yield server
    finally:
        popen.kill()
        popen.wait(BUSY_S)
        os.close(server.pidfd)
        server.let_go()
        theirs.close()
        os.close(writes)


def test_a_server_that_does_not_answer_in_the_time_that_is_given_is_ended(hung: ForkServer):
    warm = WarmStart(cast(Any, None), hung)
    began = time.monotonic()
    with pytest.raises(NotWarm) as cold:
        warm.start([Command(["python"], {}, 1, 2)], limit_s=0.05)
    assert 0.05 <= time.monotonic() - began < BUSY_S
    assert "no answer within 0.05 s" in cold.value.because.sentence
    assert hung.popen.wait(BUSY_S) == -signal.SIGKILL


async def test_the_launcher_stands_still_for_less_than_its_lease_while_workers_run():
    limits: list[float] = []
    posted: list[object] = []

    def start(commands: Sequence[Command], limit_s: float) -> list[Any]:
        limits.append(limit_s)
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
    assert limits == [BESIDE_LIMIT_S]
    default = TimeLimits()
    assert default.beat_interval_s + BESIDE_LIMIT_S < default.lease_ttl_s - 1.0
