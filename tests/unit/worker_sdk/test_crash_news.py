"""The launcher is told of a crash when it happens, with what is left; and again if the world is spared."""

import socket
import threading
import time

import pytest

from resurge.crashing import CrashGuard
from resurge.frames import Crashed, FrameDecoder, Spared
from tests.unit.worker_sdk.abort_fakes import WAIT_S
from tests.unit.worker_sdk.crash_stage import crash


class Launcher:
    def __init__(self, path):
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(path))
        self._server.listen()
        self._server.settimeout(WAIT_S)

    def hears(self, kind):
        """The first frame of this kind."""
        line, _ = self._server.accept()
        line.settimeout(WAIT_S)
        decoder = FrameDecoder()
        while True:
            for frame in decoder.feed(line.recv(4096)):
                if isinstance(frame, kind):
                    return frame

    def close(self):
        self._server.close()


@pytest.fixture
def launcher(tmp_path):
    made = Launcher(tmp_path / "s")
    yield made
    made.close()


def test_S1_the_launcher_hears_of_it_before_any_kill_with_the_error_and_the_rest_of_the_grace(
    worker, virtual, kills, launcher, tmp_path
):
    own = worker.session(socket=str(tmp_path / "s"))
    before_ns = time.monotonic_ns()
    crash(CrashGuard(own, grace_s=7.5), ValueError("what broke the loop"))
    told = launcher.hears(Crashed)
    assert kills.ends == []
    assert (told.speaker.rank, told.error, told.kill_in_ms) == (3, "ValueError: what broke the loop", 7500)
    assert before_ns <= told.at_ns <= time.monotonic_ns()


def test_a_world_that_is_spared_is_told(worker, virtual, kills, launcher, tmp_path):
    delivered = threading.Event()
    delivered.set()
    own = worker.session(socket=str(tmp_path / "s"))
    crash(CrashGuard(own, cleanup=lambda: None, delivered=delivered, grace_s=0.0))
    assert launcher.hears(Spared).speaker.rank == 3
    assert kills.ends == []


def test_without_a_launcher_nothing_is_told_and_nothing_raises(virtual, kills):
    from tests.unit.worker_sdk.crash_stage import guard_of

    guard = guard_of(grace_s=0.0)
    crash(guard)
    guard._session.crashed("x", 1, 1.0)
    guard._session.spared()
