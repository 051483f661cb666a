"""A job that restarts without getting on, with real processes: its end, its exit code, and a marker that hangs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive
from tests.fakes.mounts import Mounts
from tests.integration.launcher.launching import PREAMBLE, SAY_PID
from tests.integration.launcher.test_standalone import Alone, alone

__all__ = ["alone"]

FAILS = SAY_PID + "sys.exit(3)\n"
FAILS_WITH_A_PEER = (
    SAY_PID
    + """
def leave(*_):
    time.sleep(0.3)  # saves something: the marker is read meanwhile, however busy the machine is
    os._exit(0)
if os.environ["RANK"] == "0":
    signal.signal(signal.SIGTERM, leave)
    said("ready-" + me, "yes")
    threading.Event().wait()
while not os.path.exists(os.path.join(folder, "ready-%s-0" % os.environ["RESURGE_GENERATION"])):
    time.sleep(0.01)
sys.exit(3)
"""
)
SAVES_AND_FAILS = (
    PREAMBLE
    + """
marker = os.path.join(folder, "marker")
step = int(open(marker).read()) + 10
said("marker", step)
said("pid-" + me, os.getpid())
sys.exit(3)
"""
)


def cycles(alone: Alone) -> int:
    return len(list(alone.folder.glob("pid-*-0")))


def flags(alone: Alone, restarts: int = 20, *more: str) -> tuple[str, ...]:
    marker = str(alone.folder / "marker")
    return ("--max-restarts", str(restarts), "--ft-checkpoint-iteration-file", marker, "--warm", "off", *more)


def output(alone: Alone) -> str:
    return alone.log.read_text(errors="replace")


def test_three_cycles_without_a_checkpoint_end_the_job_with_93(alone: Alone):
    (alone.folder / "marker").write_text("100")
    alone.start(FAILS_WITH_A_PEER, *flags(alone), workers=2)
    assert alone.exit_code() == 93
    assert cycles(alone) == 3, "the fourth is never started"
    assert "no_progress" in output(alone) and "looks exactly like a stuck job" in output(alone)


def test_a_job_that_completes_checkpoints_goes_on(alone: Alone, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RESURGE_POLICY__FIRST_DELAY_S", "0")  # a crash loop would wait longer and longer
    (alone.folder / "marker").write_text("100")
    alone.start(SAVES_AND_FAILS, *flags(alone, 4, "--ft-max-no-progress-cycles", "2"), workers=1)
    assert alone.exit_code() == 1, "its restarts are spent"
    assert cycles(alone) == 5 and (alone.folder / "marker").read_text().strip() == "150"


def test_before_the_first_checkpoint_only_the_budget_ends_it(alone: Alone):
    alone.start(FAILS, *flags(alone, 2, "--ft-max-no-progress-cycles", "1"), workers=1)
    assert alone.exit_code() == 1
    assert cycles(alone) == 3 and output(alone).count("marker_skipped") == 1, "said once"


def test_without_a_marker_it_is_said_once_that_nothing_is_tracked(alone: Alone):
    alone.start(FAILS, "--max-restarts", "1", "--warm", "off", workers=1)
    assert alone.exit_code() == 1
    assert output(alone).count("progress over restarts is not tracked") == 1


def marker_child(alone: Alone) -> int:
    """The launcher's process that reads the marker."""
    assert alone.process is not None
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if b"marker_program.py" in words and parent == alone.process.pid:
            return int(entry.name)
    return 0


@pytest.mark.parametrize("hangs", [False, True], ids=["it reads", "it hangs"])
def test_a_file_system_that_hangs_delays_no_restart(alone: Alone, hangs: bool, record_property):
    (alone.folder / "marker").write_text("100")
    alone.start(SAY_PID + "threading.Event().wait()\n", *flags(alone), workers=1)
    (worker,) = alone.pids(1, 1)
    child = wait_until(lambda: marker_child(alone), 10, "the reader of the marker")
    if hangs:
        os.kill(child, signal.SIGSTOP)
    began = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    alone.pids(2, 1)
    took_s = time.monotonic() - began
    record_property("restart_s", round(took_s, 3))
    print(f"restart {took_s:.3f} s, hanging: {hangs}")
    assert took_s < 15, "a hanging marker would wait for ever"
    if hangs:
        wait_until(lambda: not is_alive(child), 10, "the end of the reader that hung")
        assert "marker_skipped" in output(alone)


def test_a_mount_that_hangs_under_the_marker_delays_no_restart(alone: Alone):
    """The real thing: whoever looks into it cannot be killed before it answers."""
    disk, disks = alone.folder / "disk", Mounts()
    disk.mkdir()
    (disk / "marker").write_text("100")
    words = ("--max-restarts", "20", "--ft-checkpoint-iteration-file", str(disk / "marker"), "--warm", "off")
    alone.start(SAY_PID + "threading.Event().wait()\n", *words, workers=1)
    (worker,) = alone.pids(1, 1)
    wait_until(lambda: marker_child(alone), 10, "the reader of the marker")
    disks.hang(disk)
    try:
        began = time.monotonic()
        for generation in (2, 3):
            os.kill(worker, signal.SIGKILL)
            (worker,) = alone.pids(generation, 1)
        assert time.monotonic() - began < 15, "two restarts, and none waits for the marker"
        wait_until(lambda: "marker_skipped" in output(alone), 10, "that the marker was not read")
    finally:
        disks.end()
