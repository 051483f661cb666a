"""A script that is over while its generation is ended says so: after its atexit functions, its files flushed, once."""

from __future__ import annotations

import os
import shelve
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resurge import environment
from resurge.frames import Frame, FrameDecoder, Over
from resurge.page import LauncherCells

LIMIT_S = 20.0
HEADER_BYTES = 20
"""Of a compressed file, which is written when it is opened."""
SCRIPT = """
import atexit, gc, gzip, os, signal, sys, time
folder = sys.argv[1]
atexit.register(lambda: open(f"{folder}/atexit", "w").close())  # before the SDK is loaded: it runs after the SDK's own
import resurge
text, packed = open(f"{folder}/text", "w"), gzip.open(f"{folder}/packed", "wb")
class Slow:
    def __del__(self, exists=os.path.exists, path=f"{folder}/heard", sleep=time.sleep):
        while not exists(path):
            sleep(0.005)
session = resurge.session()
text.write("held")
packed.write(b"held")
END
"""


class Ear:
    """What a launcher's socket hears of one worker until that is gone."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s"
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self.path))
        self._server.listen()
        self._server.settimeout(LIMIT_S)

    def frames(self) -> Iterator[Frame]:
        line, _ = self._server.accept()
        with line:
            line.settimeout(LIMIT_S)
            decoder = FrameDecoder()
            while data := line.recv(4096):
                yield from decoder.feed(data)

    def close(self) -> None:
        self._server.close()


class Worker:
    """A worker under a launcher that this test plays."""

    def __init__(self, folder: Path, ear: Ear) -> None:
        self.folder, self._ear = folder, ear
        self.cells = LauncherCells.create(folder / "page", generation=1)
        self.cells.set_lease(time.monotonic_ns() + 3600 * 10**9)
        self.code: int | None = None

    def ends(self, end: str, then: Callable[[], object] = lambda: None) -> list[str]:
        """What it had done when it said that it was over."""
        script = self.folder / "train.py"
        script.write_text(SCRIPT.replace("END", end))
        told = {environment.PAGE: str(self.folder / "page"), environment.GENERATION: "1", environment.RANK: "3"}
        told[environment.SOCKET] = str(self._ear.path)
        seen: list[str] = []
        with subprocess.Popen([sys.executable, str(script), str(self.folder)], env={**os.environ, **told}) as process:
            for frame in self._ear.frames():
                if isinstance(frame, Over):
                    assert (frame.speaker.pid, frame.speaker.rank) == (process.pid, 3)
                    seen.append(self._done())
                    then()
                    (self.folder / "heard").touch()
            self.code = process.wait(LIMIT_S)
        return seen

    def _done(self) -> str:
        held = (self.folder / "text").read_text()
        tidied = "atexit" if (self.folder / "atexit").exists() else "early"
        packed = "packed" if (self.folder / "packed").stat().st_size > HEADER_BYTES else "empty"
        return f"{tidied} {held} {packed}"


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    ear = Ear(tmp_path)
    yield Worker(tmp_path, ear)
    ear.close()


SAID = "session.process_group_ready()\n"
"""A frame by which the line is open, so that silence is told from a line that never was."""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("raise RuntimeError('a peer is gone')", 1),
        ("sys.exit(3)", 3),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nos.kill(os.getpid(), signal.SIGTERM)", 0),
        ("with session:\n    raise RuntimeError('left by an exception')", 1),
    ],
    ids=["exception", "exit", "handler", "with"],
)
def test_it_is_said_once_after_atexit_functions_with_files_flushed_and_before_destructors(
    worker: Worker, end: str, code: int
):
    worker.cells.set_ends()
    assert worker.ends(SAID + "slow = Slow()\n" + end) == ["atexit held packed"]
    assert worker.code == code


def test_a_peer_that_waits_for_it_learns_that_it_waits_in_vain(worker: Worker):
    """Else the launcher would wait for the peer, the peer for this process, and this one to be killed."""
    worker.cells.set_ends()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        port = server.getsockname()[1]
        connect = f"import socket\npeer = socket.create_connection(('127.0.0.1', {port}))\nslow = Slow()"
        assert worker.ends(SAID + connect, lambda: server.accept()[0].recv(1)) == ["atexit held packed"]


def test_with_the_garbage_collector_off_and_objects_frozen_it_is_said_too(worker: Worker):
    worker.cells.set_ends()
    assert worker.ends(SAID + "gc.freeze()\ngc.disable()") == ["atexit held packed"]


def test_archives_are_whole(worker: Worker):
    """They are no files, and write what makes them readable when they are closed, or destroyed."""
    worker.cells.set_ends()
    fill = """
import shelve, zipfile
archive, shelf = zipfile.ZipFile(f"{folder}/zip", "w"), shelve.open(f"{folder}/shelf", writeback=True)
archive.writestr("name", b"held")
shelf["name"] = []
shelf["name"].append("held")
slow = Slow()
"""
    read: list[tuple[bytes, object]] = []
    assert worker.ends(SAID + fill, lambda: read.append((_zipped(worker.folder), _shelved(worker.folder)))) != []
    assert read.pop() == (b"held", ["held"])


def _zipped(folder: Path) -> bytes:
    with zipfile.ZipFile(folder / "zip") as archive:
        return archive.read("name")


def _shelved(folder: Path) -> object:
    with shelve.open(folder / "shelf", "r") as shelf:
        return shelf["name"]


def test_a_file_that_cannot_be_flushed_keeps_nobody(worker: Worker):
    worker.cells.set_ends()
    broken = "full = open('/dev/full', 'w')\nfull.write('x')\nclosed = open('/dev/null', 'w')\nclosed.close()"
    assert worker.ends(SAID + broken) == ["atexit held packed"]


def test_a_generation_that_is_not_ended_ends_as_ever(worker: Worker):
    assert worker.ends(SAID + "raise RuntimeError('my own fault')") == []
    assert worker.code == 1
    assert (worker.folder / "text").read_text() == "held"


def test_with_a_phase_open_nothing_is_said(worker: Worker):
    worker.cells.set_ends()
    assert worker.ends(SAID + "session.phase('checkpoint').__enter__()") == []


def test_a_child_of_a_fork_says_nothing_and_leaves_its_parents_connections_alone(worker: Worker):
    worker.cells.set_ends()
    fork = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    mine = socket.create_connection(server.getsockname())
    theirs, _ = server.accept()
child = os.fork()
if child == 0:
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
theirs.sendall(b"whole")
assert mine.recv(5) == b"whole"
session.phase('checkpoint').__enter__()
"""
    assert worker.ends(SAID + fork) == []
    assert worker.code == 0


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("gc.callbacks.clear()\nsys.exit(3)", 3),
        ("sys.stdout.close()\nsys.exit(3)", 3),
        ("os.close(1)\nsys.exit(3)", 3),
        ("os.unlink(os.environ['RESURGE_PAGE'])\nsys.exit(3)", 3),
        ("session.__enter__().__exit__(None, None, None)\nsys.exit(3)", 3),
    ],
    ids=["callbacks", "closed", "no stdout", "no page", "closed worker"],
)
def test_whatever_the_script_has_done_it_ends_as_python_lets_it_end(
    worker: Worker, end: str, code: int, ends: bool, capfd: pytest.CaptureFixture[str]
):
    if ends:
        worker.cells.set_ends()
    worker.ends(SAID + end)
    assert worker.code == code
    assert "script_end" not in capfd.readouterr().err


def test_a_thread_that_writes_for_ever_keeps_no_process_whose_generation_goes_on(worker: Worker):
    thread = """
import threading
def write():
    with open("/dev/null", "wb") as file:
        while True:
            file.write(b"x" * 100_000)
threading.Thread(target=write, daemon=True).start()
sys.exit(3)
"""
    assert worker.ends(SAID + thread) == []
    assert worker.code == 3


def test_what_was_freed_before_is_no_matter(worker: Worker):
    """A collection in the midst of training is not the end."""
    worker.cells.set_ends()
    assert worker.ends(SAID + "gc.collect()\nos._exit(0)") == []
