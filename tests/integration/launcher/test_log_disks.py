"""A real job trains on whatever becomes of the disk of its log files, or of its spool; logging resumes with it."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resurge_launcher.pages import remove_pages
from resurge_libs.testing import wait_until
from tests.fakes.mounts import MS_RDONLY, Mounts

pytestmark = pytest.mark.timeout(300)
LIMIT_S = 60
STEPS = 40
"""Steps in which training has plainly gone on."""
PROGRAM = """
import os, sys, time
folder, size = sys.argv[1], int(sys.argv[2])
cycle, step = int(os.environ["RESURGE_CYCLE"]), 0
while not os.path.exists(f"{folder}/finish"):
    print("cycle", cycle, "step", step, "x" * size)
    step += 1
    with open(f"{folder}/step.new", "w") as file:
        file.write(f"{cycle} {step}")
    os.rename(f"{folder}/step.new", f"{folder}/step")
    if os.path.exists(f"{folder}/crash-{cycle}"):
        sys.exit(7)
    time.sleep(0.02)
print("cycle", cycle, "has", step, "steps")
"""


class Job:
    """One worker that prints a line per step, its launcher, and disks that are broken and mended meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_dir = Path(tempfile.mkdtemp(prefix="rs-"))
        self.out, self.spool = folder / "out", folder / "spool"
        self.disks = Mounts()
        self._launcher: subprocess.Popen[bytes] | None = None

    def start(self, size: int = 80, *more: str) -> None:
        (self.folder / "train.py").write_text(PROGRAM)
        words = ["run", "--warm", "off", "--nproc-per-node", "1", "--max-restarts", "5"]
        words += ["--run-dir", str(self.run_dir), "--state-dir", str(self.folder / "state")]
        words += ["--log-spool-dir", str(self.spool), "--applog-prefix", str(self.out / "app.log"), *more]
        words += [str(self.folder / "train.py"), str(self.folder), str(size)]
        with (self.folder / "launcher.log").open("wb") as log:
            self._launcher = subprocess.Popen(
                [sys.executable, "-m", "resurge_launcher", *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    @property
    def at(self) -> tuple[int, int]:
        """Cycle and step."""
        with contextlib.suppress(OSError, ValueError):
            cycle, step = (self.folder / "step").read_text().split()
            return int(cycle), int(step)
        return 0, 0

    def trains_on(self, cycle: int = 0) -> None:
        """So many more steps, in this cycle."""
        wait_until(lambda: self.at[0] == cycle and self.at[1] > 0, LIMIT_S, f"cycle {cycle}")
        upto = self.at[1] + STEPS
        wait_until(lambda: self.at >= (cycle, upto), LIMIT_S, "training that goes on")
        assert self.at[0] == cycle, "the job was restarted"

    def crash(self) -> None:
        """The worker fails, and the next cycle begins."""
        (self.folder / f"crash-{self.at[0]}").touch()

    @property
    def exit_code(self) -> int | None:
        return self._launcher.poll() if self._launcher is not None else None

    def held_back(self, why: str) -> list[str]:
        """What the launcher itself said on its terminal of lines that wait, less the time."""
        lines = (self.folder / "launcher.log").read_text(errors="replace").splitlines()
        return [line.partition(" ")[2] for line in lines if "logs_held_back" in line and why in line]

    def said(self) -> str:
        """What the launcher, its sender and its log server said."""
        places = (self.folder / "launcher.log", self.folder / "state" / "log-server" / "control-plane.log")
        texts = [path.read_text(errors="replace") for path in places if path.exists()]
        with contextlib.suppress(OSError):
            if self.spool in self.disks.hanging:
                raise OSError("a look into it might hang")
            texts.append((self.spool / "sender.log").read_text(errors="replace"))
        return "\n".join(texts)

    def lines(self, cycle: int = 0) -> list[str]:
        path = self.out / f"app_cycle{cycle}.log"
        assert not self.disks.hanging, "a look into it would hang"
        return path.read_text().splitlines() if path.exists() else []

    def has_line_of_now(self, cycle: int = 0) -> None:
        """What is printed now comes into the file."""
        step = self.at[1]
        wait_until(
            lambda: any(f"cycle {cycle} step {step} " in line for line in self.lines(cycle)), LIMIT_S, "logging again"
        )

    def finish(self) -> None:
        (self.folder / "finish").touch()
        assert self._launcher is not None
        assert self._launcher.wait(LIMIT_S) == 0, self.said()

    def is_whole(self, cycle: int = 0) -> bool:
        """Each step's line once and in order, and how many there are."""
        found = [int(step[1]) for line in self.lines(cycle) if (step := re.search(r" step (\d+) ", line))]
        told = re.search(rf"cycle {cycle} has (\d+) steps", "\n".join(self.lines(cycle)))
        return found == list(range(len(found))) and (told is None or int(told[1]) == len(found))

    def end(self) -> None:
        self.disks.answer()
        if self._launcher is not None:
            self._launcher.terminate()
            try:
                self._launcher.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self._launcher.kill()
                self._launcher.wait()
        self.disks.end()
        remove_pages(self.run_dir)
        shutil.rmtree(self.run_dir, ignore_errors=True)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    try:
        yield job
    finally:
        job.end()


def through(job: Job, broken: Callable[[], None], named: str, mend: Callable[[], None]) -> None:
    """A job whose log disk breaks: named, trained on, mended, and then every line is in the file."""
    job.trains_on()
    job.has_line_of_now()
    broken()
    wait_until(lambda: named in job.said(), LIMIT_S, f"{named!r}, named")
    job.trains_on()
    mend()
    job.has_line_of_now()
    job.finish()
    assert job.is_whole()


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return ballast


def test_a_full_log_disk(job: Job):
    job.disks.mount(job.out, "size=1m")
    job.start(1_000)
    through(job, lambda: fill(job.out) and None, "No space left", lambda: job.disks.remount(job.out, "size=64m"))


def test_a_log_disk_that_is_read_only_at_the_start_is_refused_with_its_flag(job: Job):
    job.disks.mount(job.out, "size=64m")
    job.disks.remount(job.out, "", MS_RDONLY)
    job.start()
    wait_until(lambda: job.exit_code is not None, LIMIT_S, "the refusal")
    assert job.exit_code == 2
    assert f"--applog-prefix: {job.out / 'app.log'} cannot be written: " in job.said()
    assert "Read-only file system" in job.said()


def test_a_read_only_log_disk(job: Job):
    """Put over the other one: a disk on which a file is open for writing cannot be made read-only."""
    job.start()
    job.trains_on()
    job.disks.mount(job.out, "size=64m")
    job.disks.remount(job.out, "", MS_RDONLY)
    job.crash()
    wait_until(lambda: len(job.held_back("Read-only")) > 0, LIMIT_S, "its trouble, named on the terminal")
    job.trains_on(1)
    job.disks.remount(job.out, "size=64m")
    job.has_line_of_now(1)
    job.finish()
    assert job.is_whole(1)
    told = job.held_back("Read-only")
    assert len(told) == len(set(told)), "each is said once"


def test_a_log_disk_that_vanishes(job: Job):
    job.start()
    through(job, lambda: shutil.rmtree(job.out), "log_vanished", lambda: None)


def test_a_log_disk_that_hangs(job: Job):
    job.start()
    through(job, lambda: job.disks.hang(job.out), "has not answered", job.disks.answer)


def test_a_full_spool_gives_up_lines_and_says_how_many(job: Job):
    """The log disk hangs, and the spool's disk holds less than what is printed meanwhile."""
    job.disks.mount(job.spool, "size=24m")
    job.start(100_000)
    job.trains_on()
    job.has_line_of_now()
    job.disks.hang(job.out)
    wait_until(lambda: "logs_given_up" in job.said(), LIMIT_S, "lines that were given up")
    job.trains_on()
    job.disks.answer()
    job.has_line_of_now()
    job.finish()
    gaps = [re.search(r"(\d+) bytes in (\d+) lines are missing here", line) for line in job.lines()]
    lost = sum(int(gap[2]) for gap in gaps if gap)
    steps = sum(" step " in line for line in job.lines())
    told = re.search(r"cycle 0 has (\d+) steps", "\n".join(job.lines()))
    assert lost > 0 and told is not None and steps + lost == int(told[1])


def test_a_spool_that_hangs_at_a_start_costs_that_cycle_its_file_alone(job: Job):
    job.disks.mount(job.spool, "size=64m")
    job.start()
    job.trains_on()
    job.disks.hang(job.spool)
    job.crash()
    job.trains_on(cycle=1)
    assert "spool_not_written" in job.said()
    job.disks.answer()
    job.crash()
    job.trains_on(cycle=2)
    job.has_line_of_now(cycle=2)
    job.finish()
    assert "cycle 1 step 5 " in job.said() and job.is_whole(0) and job.is_whole(2), "cycle 1 is on the terminal"


def test_a_spool_that_vanishes_is_made_anew_for_the_next_cycle(job: Job):
    job.start()
    job.trains_on()
    shutil.rmtree(job.spool)
    job.trains_on()
    job.crash()
    job.trains_on(cycle=1)
    job.has_line_of_now(cycle=1)
    job.finish()
    assert job.is_whole(1)


def test_a_spool_that_is_read_only_costs_that_cycle_its_file_alone(job: Job):
    job.disks.mount(job.spool, "size=64m")
    job.disks.remount(job.spool, "", MS_RDONLY)
    job.start()
    job.trains_on()
    assert "spool_not_written" in job.said() and "Read-only" in job.said()
    job.disks.remount(job.spool, "size=64m")
    job.crash()
    job.trains_on(cycle=1)
    job.has_line_of_now(cycle=1)
    job.finish()
    assert "cycle 0 step 5 " in job.said() and job.is_whole(1), "cycle 0 is on the terminal"
