"""A real job recovers though nothing of what it writes for people can be written, and says what and why, once each.

Records of cycles, recoveries and spans, the job as it stands, the control plane's log, the workers' output: a file or a
directory in the way, a full disk, a read-only one, one that vanishes meanwhile, and one that hangs for ever.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_launcher.pages import remove_pages
from resurge_libs.testing import wait_until
from tests.fakes.mounts import MS_RDONLY, Mounts
from tests.integration.launcher.launching import end_control_plane

LIMIT_S = 90
RESTARTS = 2
PROGRAM = """
import os, shutil, sys, time
folder, vanish = sys.argv[1], sys.argv[2:]
cycle, rank = int(os.environ["RESURGE_CYCLE"]), os.environ["RANK"]
with open(os.path.join(folder, "times"), "a") as file:
    file.write("%d %s %.6f start\\n" % (cycle, rank, time.time()))
print("rank", rank, "of cycle", cycle, flush=True)
if cycle == 0 and rank == "0":
    for path in vanish:
        shutil.rmtree(path, ignore_errors=True)
        open(path, "w").close()
    open(os.path.join(folder, "vanished"), "w").close()
if cycle < 2 and rank == "1":
    while cycle == 0 and not os.path.exists(os.path.join(folder, "vanished")):
        time.sleep(0.01)
    with open(os.path.join(folder, "times"), "a") as file:
        file.write("%d %s %.6f end\\n" % (cycle, rank, time.time()))
    sys.exit(7)
if cycle < 2:
    time.sleep(60)
"""


class Job:
    """`resurge run` of two workers that fail in cycles 0 and 1 and succeed in cycle 2; warm start off."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.state_dir.mkdir()
        self.cycles = folder / "cycles"
        self.excluded = folder / "excluded"
        """The list of excluded hosts; its JSON form beside it is written first."""
        self.run_dir = Path(tempfile.mkdtemp(prefix="resurge-"))
        self.disks = Mounts()

    @property
    def logs(self) -> Path:
        return self.state_dir / "logs"

    def run(self, *vanish: Path) -> str:
        """Run it to its end; what launcher and control plane said. It must have recovered twice and succeeded."""
        script = self.folder / "train.py"
        script.write_text(PROGRAM)
        command = [sys.executable, "-m", "resurge_launcher", "run", "--state-dir", str(self.state_dir), "--warm", "off"]
        command += ["--rdzv-id", "job", "--run-dir", str(self.run_dir), "--nproc-per-node", "2", "--max-restarts", "2"]
        command += ["--ft-cycle-info-dir", str(self.cycles), "--exclusion-file", str(self.excluded / "hosts")]
        command += [str(script), str(self.folder), *map(str, vanish)]
        output = self.folder / "launcher.log"
        with output.open("ab") as file:
            code = subprocess.run(
                command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False
            )
        wait_until(lambda: not self._is_served(), 20, "the end of the control plane")
        control = self.state_dir / "control-plane.log"
        said = output.read_text(errors="replace") + (control.read_text(errors="replace") if control.is_file() else "")
        print(said)
        assert code.returncode == 0
        return said

    def gap_s(self, restart: int) -> float:
        """From the end of the worker that failed to the start of the last worker of the next cycle."""
        lines = [line.split() for line in (self.folder / "times").read_text().splitlines()]
        ended = next(float(at) for cycle, _, at, what in lines if what == "end" and int(cycle) == restart - 1)
        return max(float(at) for cycle, _, at, what in lines if what == "start" and int(cycle) == restart) - ended

    def _is_served(self) -> bool:
        try:
            return Path(f"/proc/{int((self.state_dir / 'control.lock').read_text())}/exe").exists()
        except (OSError, ValueError):
            return False

    def end(self) -> None:
        self.disks.end()
        end_control_plane(self.state_dir)
        remove_pages(self.run_dir)
        shutil.rmtree(self.run_dir, ignore_errors=True)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    try:
        yield job
    finally:
        job.end()


def told_once(said: str, *paths: Path) -> None:
    """Each of these places is said once, as one that cannot be written, with what to do."""
    for path in paths:
        lines = [line for line in said.splitlines() if "record_not_written" in line and f"path={path} " in line]
        assert len(lines) == 1, f"{path}: {lines}"
        assert "The job goes on without." in lines[0]


def quick(job: Job) -> None:
    """No restart waited for anything but, once, a record of a cycle; an idle machine takes a tenth of this."""
    slack_s = 2.0 + os.getloadavg()[0]
    for restart in range(1, RESTARTS + 1):
        assert job.gap_s(restart) < slack_s, f"restart {restart} took {job.gap_s(restart):.2f} s"


def test_with_something_else_in_every_place_the_job_recovers_and_says_each_once(job: Job):
    files = [job.state_dir / name for name in ("recoveries.jsonl", "spans.jsonl", "job.json", "control-plane.log")]
    for path in (*files, job.state_dir / "control.json"):
        path.mkdir()
        (path / "in the way").touch()
    for path in (job.logs, job.cycles, job.excluded):
        path.write_text("in the way")
    said = job.run()
    told_once(said, *files, job.logs / "job", job.cycles, job.excluded / "hosts")
    assert said.count("control_not_announced") == 1
    assert said.count("cycle_record_not_there") == 1
    assert "[rank 1] rank 1 of cycle 2" in said, "output is on the terminal all the same"
    quick(job)


def test_with_every_disk_full_the_job_recovers_and_says_each_once(job: Job):
    full = job.folder / "full"
    for path in (full, job.logs, job.cycles, job.excluded):
        job.disks.mount(path, "size=64k,mode=755")
        (path / "ballast").write_bytes(b"")
        with (path / "ballast").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while file.write(bytes(4096)) == 4096:
                pass
            raise OSError(28, "No space left on device")
    for name in ("recoveries.jsonl", "spans.jsonl"):
        (job.state_dir / name).symlink_to("/dev/full")
    said = job.run()
    reports = (job.state_dir / name for name in ("recoveries.jsonl", "spans.jsonl"))
    told_once(said, *reports, job.cycles, job.excluded / "hosts")
    assert "No space left on device" in said
    assert "[rank 1] rank 1 of cycle 2" in said
    quick(job)


def test_with_every_directory_read_only_the_job_recovers_and_says_each_once(job: Job):
    locked = job.folder / "locked"
    for path in (locked, job.logs, job.cycles, job.excluded):
        job.disks.mount(path, "size=64k,mode=755")
        job.disks.remount(path, flags=MS_RDONLY)
    for name in ("recoveries.jsonl", "spans.jsonl", "control-plane.log"):
        (job.state_dir / name).symlink_to(locked / name)
    said = job.run()
    names = ("recoveries.jsonl", "spans.jsonl", "control-plane.log")
    told_once(said, *(job.state_dir / name for name in names), job.logs / "job", job.cycles, job.excluded / "hosts")
    assert "Read-only file system" in said and "[rank 1] rank 1 of cycle 2" in said
    quick(job)


def test_directories_that_vanish_while_the_job_runs_keep_nobody_from_recovering(job: Job):
    said = job.run(job.logs, job.cycles)
    told_once(said, job.logs / "job", job.cycles)
    assert "[rank 1] rank 1 of cycle 2" in said
    quick(job)


def test_directories_that_hang_for_ever_delay_one_start_and_hold_up_no_end(job: Job):
    hanging = job.folder / "hanging"
    for path in (hanging, job.logs, job.cycles, job.excluded):
        job.disks.hang(path)
    for name in ("recoveries.jsonl", "spans.jsonl"):
        (job.state_dir / name).symlink_to(hanging / name)
    said = job.run()
    told_once(said, job.state_dir / "recoveries.jsonl", job.logs / "job", job.cycles, job.excluded / "hosts")
    assert said.count("spans_not_exported") == 1 and f"sink={job.state_dir / 'spans.jsonl'} " in said
    assert said.count("cycle_record_not_there") == 1
    assert "[rank 1] rank 1 of cycle 2" in said
    quick(job)
