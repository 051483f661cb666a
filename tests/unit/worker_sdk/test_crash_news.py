"""The launcher is told of a crash when it happens, with what is left; and again if the world is spared."""

import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import resurge
from resurge import crashing, environment, world_kill
from resurge.crashing import CrashGuard
from resurge.environment import WorkerEnvironment
from resurge.frames import Crashed, Event, FrameDecoder, Spared
from resurge.worker_session import Session
from resurge.world_kill import KillWatchdog, WorldKill
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


def test_people_are_told_too_by_an_event(worker, virtual, kills, launcher, tmp_path):
    own = worker.session(socket=str(tmp_path / "s"))
    crash(CrashGuard(own, grace_s=7.5), ValueError("what broke the loop"))
    told = launcher.hears(Event)
    assert (told.name, told.fields["error"], told.fields["kill_in_s"]) == (
        "rank_crashed",
        "ValueError: what broke the loop",
        7.5,
    )


def test_the_session_given_is_the_one_that_tells_and_without_one_it_is_the_process_s(worker):
    own = worker.session()
    assert resurge.crash_guard(own)._session is own
    assert resurge.crash_guard()._session is resurge.session()


@pytest.mark.parametrize(("told", "given", "ends"), [(1, 2, 1), (4, 1, 0)])
def test_the_world_size_given_counts_before_the_launchers(virtual, kills, told, given, ends):
    own = Session(WorkerEnvironment(rank=0, world_size=told))
    crash(CrashGuard(own, cleanup=lambda: None, grace_s=0.0, world_size=given))
    assert len(kills.ends) == ends


class SlowToTell(Session):
    """One whose launcher takes its time."""

    def __init__(self):
        super().__init__(WorkerEnvironment(rank=0, world_size=2))
        self.threads = []

    def crashed(self, error, at_ns, kill_in_s):
        self.threads.append(threading.current_thread())
        threading.Event().wait(0.05)


def test_the_record_is_waited_for_on_a_daemon_thread(virtual, kills, monkeypatch, tmp_path):
    monkeypatch.setenv(environment.ERROR_FILE, str(tmp_path / "error.json"))
    own = SlowToTell()
    crash(CrashGuard(own, cleanup=lambda: None, grace_s=0.0))
    assert kills.ends == ["recorded"]
    assert [thread.daemon for thread in own.threads] == [True]


def test_where_no_thread_can_be_had_the_record_is_left_all_the_same(virtual, kills, monkeypatch, tmp_path):
    class NoThread:
        def __init__(self, **_):
            pass

        def start(self):
            raise RuntimeError("can't start new thread")

    monkeypatch.setenv(environment.ERROR_FILE, str(tmp_path / "error.json"))
    monkeypatch.setattr(crashing.threading, "Thread", NoThread)
    own = SlowToTell()
    crash(CrashGuard(own, cleanup=lambda: None, grace_s=0.0))
    assert kills.ends == ["recorded"]
    assert len(own.threads) == 1


def test_a_kill_happens_once_and_says_whether_it_did(kills):
    kill = WorldKill(ValueError(), None, lambda: kills.end("unrecorded"))
    assert kill.now() is True
    assert kill.now() is False
    assert kills.ends == ["unrecorded"]


def test_a_watchdog_without_a_thread_says_so_and_one_without_grace_waits_for_nothing(kills, monkeypatch):
    class NoThread:
        def __init__(self, **_):
            pass

        def start(self):
            raise RuntimeError("can't start new thread")

    class Cancelled(threading.Event):
        def wait(self, timeout=None):
            waited.append(timeout)
            return False

    waited = []
    watchdog = KillWatchdog(WorldKill(ValueError(), None, lambda: kills.end("unrecorded")), 0.0)
    watchdog._cancelled = Cancelled()
    watchdog._run()
    assert waited == [0.0]
    assert kills.ends == ["unrecorded"]
    monkeypatch.setattr(world_kill.threading, "Thread", NoThread)
    assert watchdog.start() is False


class SlowOutput:
    """A stream whose reader takes its time."""

    def __init__(self):
        self.text, self.flushed, self.daemons = "", 0, set()

    def write(self, text):
        threading.Event().wait(0.005)
        self.text += text
        self.daemons.add(threading.current_thread().daemon)

    def flush(self):
        self.flushed += 1


def test_the_last_words_are_waited_for_on_a_daemon_thread(kills, monkeypatch):
    stream = SlowOutput()
    monkeypatch.setattr(world_kill.sys, "stderr", stream)
    monkeypatch.setattr(world_kill.sys, "stdout", stream)
    world_kill.say_last_words(ValueError("what broke the loop"))
    assert "ValueError: what broke the loop" in stream.text
    assert stream.flushed == 2
    assert stream.daemons == {True}


@pytest.mark.parametrize(("end", "code"), [("end_recorded", 1), ("end_unrecorded", -signal.SIGKILL)])
def test_the_two_ends_of_a_process(end, code):
    program = f"from resurge import world_kill; world_kill.{end}(); print('lives')"
    assert subprocess.run([sys.executable, "-c", program], timeout=50).returncode == code
