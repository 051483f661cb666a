"""How a real worker's end is known before its memory is freed, and what looks like an end and is none."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from resurge import death_lock, environment
from resurge.page import LauncherCells
from resurge_launcher.pages import page_homes
from resurge_launcher.processes import death_watch, worker
from resurge_launcher.processes.kernel import ExitStatus
from resurge_launcher.processes.worker import Command, Dying, WorkerProcess
from resurge_libs.testing import wait_until_async
from resurge_libs.testing.process_faults import kill, segfault
from tests.integration.launcher.launching import FOREVER, Launched
from tests.integration.launcher.test_warm_launcher import TORCH

pytestmark = pytest.mark.integration
TRIES = 8
"""A small process may be reaped before the thread that waits for its lock has run: then another one is looked at."""
RESTARTS = 20
THREADS_SLACK = 2
KILLS = 12
RESIDENT_MIB = 300
TIMES_SOONER = 2.0
"""An idle machine shows thirty times and more."""
EXIT_CALL = {"x86_64": 60, "aarch64": 93}.get(os.uname().machine)
START = f"""
import os, sys, time, threading, ctypes
folder = sys.argv[1]
ballast = b"x" * (int(sys.argv[2]) << 20)
def said(name):
    open(os.path.join(folder, name), "w").close()
def until(name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.005)
def exit_this_thread(code):
    ctypes.CDLL(None).syscall({EXIT_CALL}, code)
"""
SESSION = START + "import resurge\nresurge.session()\n"
WAIT = "said('there')\nuntil('go')\n"


def word_of(page: Path) -> int:
    """The lock's word."""
    return int.from_bytes(page.read_bytes()[death_lock.OFFSET_BYTES :][:4], sys.byteorder)


@dataclass
class Told:
    """What a worker's watch said, and when by the monotonic clock."""

    pid: int
    process: WorkerProcess
    dying: list[Dying] = field(default_factory=list)
    ended_at: float = 0.0

    @property
    def early(self) -> list[ExitStatus]:
        return [dying.status for dying in self.dying]


class Stage:
    """Starts workers by exec, as a team does, each with a page and a folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.count = 0

    async def start(self, program: str, mib: int = 30) -> Told:
        """The worker once it is `there`."""
        self.count += 1
        self.folder = self.home / str(self.count)
        self.folder.mkdir()
        self.page = self.folder / "rank-0.page"
        LauncherCells.create(self.page, generation=1).close()
        env = {**os.environ, environment.PAGE: str(self.page), environment.GENERATION: "1"}
        argv = [sys.executable, "-c", program, str(self.folder), str(mib)]
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            process = WorkerProcess.start(Command(argv, env, null, 2))
        finally:
            os.close(null)
        told = Told(process.pid, process)
        loop = asyncio.get_running_loop()
        process.watch(loop, lambda _: setattr(told, "ended_at", time.monotonic()))
        process.watch_death(loop, str(self.page), lambda _, dying: told.dying.append(dying))
        await wait_until_async(self.said("there"), 20, "the worker")
        return told

    def said(self, name: str):
        return (self.folder / name).exists

    def go(self) -> None:
        (self.folder / "go").touch()

    @property
    def word(self) -> int:
        return word_of(self.page)

    async def end(self, told: Told) -> ExitStatus:
        await wait_until_async(lambda: told.ended_at > 0, 20, "the worker's end")
        assert told.process.status is not None
        return told.process.status


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def nothing(_: int) -> None:
    """The worker ends by itself."""


@pytest.mark.parametrize(
    ("ending", "how", "status"),
    [
        ("threading.Event().wait()", kill, ExitStatus(signal=signal.SIGKILL)),
        ("threading.Event().wait()", segfault, ExitStatus(signal=signal.SIGSEGV)),
        ("sys.exit(3)", nothing, ExitStatus(exit_code=3)),
        ("raise ValueError", nothing, ExitStatus(exit_code=1)),
        ("threading.Thread(target=os._exit, args=(5,)).start()\ntime.sleep(60)", nothing, ExitStatus(exit_code=5)),
        ("pass", nothing, ExitStatus(exit_code=0)),
    ],
    ids=["SIGKILL", "SIGSEGV", "exit 3", "exception", "exit 5 by a thread", "exit 0"],
)
async def test_an_end_is_known_before_it_is_over(stage: Stage, ending, how, status):
    idle = "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    for _ in range(TRIES):
        told = await stage.start(SESSION + idle + WAIT + ending)
        assert stage.word & death_lock.HOLDER_MASK == told.pid
        how(told.pid)
        stage.go()
        assert await stage.end(told) == status
        assert told.early in ([], [status])
        if told.early:
            assert told.dying[0].at <= told.ended_at
            return
    raise AssertionError(f"not once in {TRIES}")


async def test_another_program_in_the_same_process_is_no_end(stage: Stage):
    other = START + "said('other')\nthreading.Event().wait()\n"
    execs = f"os.execv(sys.executable, [sys.executable, '-c', {other!r}, folder, '1'])"
    told = await stage.start(SESSION + WAIT + execs)
    stage.go()
    await wait_until_async(stage.said("other"), 20, "the other program")
    assert stage.word & death_lock.HOLDER_DIED, "the kernel has let go of the lock"
    kill(told.pid)
    assert await stage.end(told) == ExitStatus(signal=signal.SIGKILL)
    assert told.early == [], "it holds no lock any more"


async def test_another_program_with_a_session_holds_the_lock_anew(stage: Stage):
    other = SESSION + "said('other')\nthreading.Event().wait()\n"
    for _ in range(TRIES):
        told = await stage.start(
            SESSION + WAIT + f"os.execv(sys.executable, [sys.executable, '-c', {other!r}, folder, '30'])"
        )
        stage.go()
        await wait_until_async(stage.said("other"), 20, "the other program")
        assert stage.word & death_lock.HOLDER_MASK == told.pid and not told.early
        kill(told.pid)
        await stage.end(told)
        if told.early == [ExitStatus(signal=signal.SIGKILL)]:
            return
    raise AssertionError(f"not once in {TRIES}")


@pytest.mark.skipif(EXIT_CALL is None, reason="the number of the system call is not known here")
async def test_a_main_thread_that_ends_alone_is_no_fault(stage: Stage):
    rest = "threading.Thread(target=lambda: (until('on'), os._exit(4))).start()\nexit_this_thread(0)"
    told = await stage.start(SESSION + WAIT + rest)
    stage.go()
    await wait_until_async(lambda: stage.word & death_lock.HOLDER_DIED != 0, 20, "the main thread's end")
    await wait_until_async(lambda: bool(told.dying), 20, "a look at the process")
    assert told.early == [ExitStatus(exit_code=0)], "which the machine leaves alone"
    assert not told.ended_at, "its other thread lives on"
    (stage.folder / "on").touch()
    assert await stage.end(told) == ExitStatus(exit_code=4)


async def test_forked_children_come_and_go_unnoticed(stage: Stage):
    forks = """
for _ in range(3):
    child = os.fork()
    if child == 0:
        resurge.session().beat(1)
        os._exit(7)
    os.waitpid(child, 0)
said('forked')
threading.Event().wait()
"""
    told = await stage.start(SESSION + WAIT + forks)
    stage.go()
    await wait_until_async(stage.said("forked"), 20, "the forks")
    assert stage.word & death_lock.HOLDER_MASK == told.pid and not told.early
    kill(told.pid)
    assert await stage.end(told) == ExitStatus(signal=signal.SIGKILL)


@pytest.mark.parametrize("session", ["", "t = threading.Thread(target=resurge.session)\nt.start()\nt.join()\n"])
async def test_without_the_lock_the_pidfd_says_it_all(stage: Stage, session: str):
    told = await stage.start(START + ("import resurge\n" + session if session else "") + WAIT + "sys.exit(3)")
    assert stage.word == 0, "no session, or not the main thread's"
    stage.go()
    assert await stage.end(told) == ExitStatus(exit_code=3)
    assert told.early == []


async def test_where_the_platform_cannot_it_is_said_once(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    def cannot() -> None:
        raise NotImplementedError("not known here")

    said: list[str] = []
    monkeypatch.setattr(death_watch.death_lock, "Futex", cannot)
    monkeypatch.setattr(worker.log, "event", lambda name, **_: said.append(name))
    worker._tell_off.cache_clear()
    for _ in range(2):
        told = await stage.start(SESSION + WAIT + "sys.exit(3)")
        stage.go()
        assert await stage.end(told) == ExitStatus(exit_code=3)
        assert told.early == []
    assert said == ["death_watch_off"]


async def test_a_page_of_another_time_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(death_lock, "_holding_pid", 0)
    short = tmp_path / "short"
    short.write_bytes(b"RESURGE1")
    assert death_lock.hold(str(short)) == "the page is too short"
    assert "FileNotFoundError" in death_lock.hold(str(tmp_path / "none"))


async def test_restarts_leave_no_threads_and_the_launcher_ends_promptly(launched: Launched):
    (launched.folder / "torch").mkdir()
    (launched.folder / "torch" / "__init__.py").write_text(TORCH)
    launched.start(FOREVER, "--warm", "on", workers=2)
    counts = []
    for generation in range(1, RESTARTS + 1):
        pids = await launched.running(generation, workers=2)
        counts.append(len(os.listdir(f"/proc/{launched.pid}/task")))
        pages = [page_homes(launched.run_dir)[0] / str(generation) / f"rank-{rank}.page" for rank in range(2)]
        assert [word_of(page) & death_lock.HOLDER_MASK for page in pages] == pids, "forked workers hold theirs at once"
        kill(pids[1])
        told = await launched.rendezvous.until("READY", generation)
        assert {e.rank: (e.signal, e.ended_by_launcher) for e in told.exits} == {
            0: (signal.SIGTERM, True),
            1: (signal.SIGKILL, False),
        }
    assert counts[-1] <= counts[2] + THREADS_SLACK, counts
    assert "cold_start" not in launched.output() and "death_watch_off" not in launched.output()
    await launched.running(RESTARTS + 1, workers=2)
    began = time.monotonic()
    launched.rendezvous.want_exit(0)
    assert await launched.exit_code() == 0
    assert time.monotonic() - began < 5


async def test_a_large_worker_is_known_to_die_long_before_its_memory_is_freed(stage: Stage, record_property):
    early, late = [], []
    for _ in range(KILLS):
        told = await stage.start(SESSION + WAIT, RESIDENT_MIB)
        killed_at = time.monotonic()
        kill(told.pid)
        await stage.end(told)
        late.append(1000 * (told.ended_at - killed_at))
        early.append(1000 * (told.dying[0].at - killed_at) if told.dying else late[-1])
    shown = [f"{name}: p50 {statistics.median(ms):.2f} ms, p99 {max(ms):.2f} ms" for name, ms in
             (("lock", early), ("pidfd", late))]  # fmt: skip
    print(*shown, sep="\n")
    record_property("lock_ms", [round(ms, 2) for ms in early])
    record_property("pidfd_ms", [round(ms, 2) for ms in late])
    assert statistics.median(early) * TIMES_SOONER <= statistics.median(late), shown
