"""A job on one node with its own control plane: real services, started and watched over by the launcher."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_launcher.pages import remove_pages
from resurge_launcher.probe import answers
from resurge_libs.rpc.endpoint import parse_endpoint
from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive, kill, terminate
from tests.integration.launcher.launching import FOREVER, SAY_PID, end_control_plane


class Alone:
    """`resurge run` without an endpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.run_dir = Path(tempfile.mkdtemp(prefix="resurge-"))
        self.log = folder / "launcher.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._pids: set[int] = set()

    def start(self, program: str, *flags: str, workers: int = 2, job_id: str = "job") -> None:
        script = self.folder / "train.py"
        script.write_text(program)
        command = [sys.executable, "-m", "resurge_launcher", "run", "--state-dir", str(self.state_dir)]
        command += ["--rdzv-id", job_id] if job_id else []
        command += ["--run-dir", str(self.run_dir), "--nproc-per-node", str(workers), *flags]
        if "--warm" not in flags:  # importing torch for programs without it costs most of a start
            command += ["--warm", "off"]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, str(script), str(self.folder)], stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )

    def pids(self, generation: int, workers: int = 2) -> list[int]:
        files = [self.folder / f"pid-{generation}-{rank}" for rank in range(workers)]
        wait_until(lambda: all(file.exists() for file in files) or self.ended(), 30, f"generation {generation}")
        pids = [int(file.read_text()) for file in files]
        self._pids |= set(pids)
        return pids

    def control_pid(self, other_than: int = 0) -> int:
        def there() -> int:
            try:
                pid = int(json.loads((self.state_dir / "control.json").read_text())["pid"])
            except (OSError, ValueError):
                return 0
            return pid if pid != other_than and is_alive(pid) else 0

        pid = wait_until(there, 20, "the control plane")
        self._pids.add(pid)
        return pid

    def ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def exit_code(self) -> int:
        assert self.process is not None
        wait_until(self.ended, 30, "the launcher's end")
        return int(self.process.returncode)

    def end(self) -> None:
        for pid in (self.process.pid if self.process and not self.ended() else 0, *self._pids):
            if pid and is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(10)
        end_control_plane(self.state_dir)
        remove_pages(self.run_dir)  # a killed launcher leaves them to its successor
        shutil.rmtree(self.run_dir, ignore_errors=True)
        print(self.log.read_text(errors="replace") if self.log.exists() else "")
        control = self.state_dir / "control-plane.log"
        print(control.read_text(errors="replace") if control.exists() else "")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    alone = Alone(tmp_path)
    try:
        yield alone
    finally:
        alone.end()


WARM = ("--warm", "auto")
FAILS_ONCE = SAY_PID + "sys.exit(7 if os.environ['RESURGE_CYCLE'] == '0' and os.environ['RANK'] == '1' else 0)\n"


def test_a_fault_costs_a_restart_and_the_job_succeeds(alone: Alone):
    alone.start(FAILS_ONCE, "--max-restarts", "1", *WARM)
    assert alone.exit_code() == 0
    assert len(alone.pids(2)) == 2


@pytest.mark.users_row(54)
def test_without_a_restart_left_the_job_fails_and_says_why(alone: Alone):
    program = SAY_PID + "print('about to fail', file=sys.stderr)\nsys.exit(7)\n"
    alone.start(program, workers=1)
    assert alone.exit_code() == 1
    text = alone.log.read_text()
    assert "[rank 0] about to fail" in text and "exited with 7" in text
    shown = list((alone.state_dir / "logs").rglob("stderr.log"))
    assert [file.read_text() for file in shown] == ["about to fail\n"]


def test_a_killed_control_plane_is_back_within_two_seconds_and_stops_no_worker(alone: Alone):
    alone.start(FOREVER)
    pids = alone.pids(1)
    control = alone.control_pid()
    endpoint = parse_endpoint(json.loads((alone.state_dir / "control.json").read_text())["endpoint"])
    kill(control)
    began = time.monotonic()
    wait_until(lambda: not is_alive(control))
    wait_until(lambda: answers(endpoint), 10, "the control plane again")
    took_s = time.monotonic() - began
    assert all(is_alive(pid) for pid in pids)
    # under load of other tests the interpreter alone may take longer than the promise of an idle machine
    assert took_s < 2.0 + os.getloadavg()[0]
    control = alone.control_pid(other_than=control)
    kill(pids[0])
    wait_until(alone.ended, 20)
    assert alone.exit_code() == 1, "the fault is recovered, or ends the job, by the new control plane"


def test_a_control_plane_killed_during_a_recovery_only_delays_it(alone: Alone):
    alone.start(FOREVER, "--max-restarts", "3")
    pids = alone.pids(1)
    control = alone.control_pid()
    kill(pids[0])
    kill(control)
    fresh = alone.pids(2)
    assert all(is_alive(pid) for pid in fresh)


def test_a_control_plane_that_is_stopped_for_good_is_replaced_and_stops_no_worker(alone: Alone):
    alone.start(FOREVER, "--max-restarts", "3")
    pids = alone.pids(1)
    control = alone.control_pid()
    os.kill(control, signal.SIGSTOP)
    kill(pids[0])
    assert alone.pids(2), "the new one goes on with the journal of the stopped one"
    assert not is_alive(control)
    assert f"process {control} has been stopped by a signal" in alone.log.read_text()


def test_a_standalone_job_removes_nothing_that_is_not_its_own(alone: Alone):
    (alone.run_dir / "thesis.tex").write_text("years of work")
    alone.start("print('done')\n", "--standalone")
    assert alone.exit_code() == 0
    assert (alone.run_dir / "thesis.tex").read_text() == "years of work"


@pytest.mark.users_row(51)
def test_a_signalled_launcher_takes_its_control_plane_along(alone: Alone):
    alone.start(FOREVER, *WARM)
    pids = alone.pids(1)
    control = alone.control_pid()
    terminate(alone.process.pid)
    assert alone.exit_code() == 128 + signal.SIGTERM
    assert not any(is_alive(pid) for pid in pids)
    # it is told to end, or ends by itself where it was quick enough to end the job first
    wait_until(lambda: not is_alive(control), 20, "the control plane's end")


def test_a_rerun_after_a_killed_launcher_goes_on_with_the_same_job(alone: Alone):
    alone.start(FOREVER, "--max-restarts", "2", *WARM)
    pids = alone.pids(1)
    control = alone.control_pid()
    kill(alone.process.pid)
    alone.process.wait(10)
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 5, "the workers' end")
    assert is_alive(control), "it outlives the launcher"
    alone.start(FOREVER, "--max-restarts", "2", *WARM)
    fresh = alone.pids(2)
    assert all(is_alive(pid) for pid in fresh) and alone.control_pid() == control


def test_a_control_plane_that_nobody_can_come_back_to_ends_soon_after_its_killed_launcher(alone: Alone):
    alone.start(FOREVER, "--max-restarts", "2", job_id="")
    alone.pids(1)
    control = alone.control_pid()
    kill(alone.process.pid)
    alone.process.wait(10)
    wait_until(lambda: not is_alive(control), 15, "the control plane's end")


def test_a_rerun_of_an_ended_job_is_a_new_attempt(alone: Alone):
    alone.start(SAY_PID)
    assert alone.exit_code() == 0
    alone.start(SAY_PID)
    assert alone.exit_code() == 0
    assert alone.pids(2), "generations rise over attempts"
    files = sorted((alone.state_dir / "logs" / "job").glob("*/0/0/stdout.log"))
    assert [file.relative_to(alone.state_dir / "logs").parts[1] for file in files] == ["1", "2"], "a log for each"


def test_a_state_directory_of_another_job_is_refused(alone: Alone):
    alone.start(SAY_PID)
    assert alone.exit_code() == 0
    alone.start(SAY_PID, "--rdzv-id", "another")
    assert alone.exit_code() == 2
    assert "job" in alone.log.read_text().splitlines()[-1]


def test_another_state_directory_is_used_while_the_last_control_plane_still_lingers(alone: Alone):
    alone.start("", workers=1)
    assert alone.exit_code() == 0
    alone.state_dir = alone.folder / "other"
    alone.start("", workers=1)
    assert alone.exit_code() == 0
    assert (alone.state_dir / "journal.sqlite").exists()


TIDIES = (
    SAY_PID
    + """
import atexit
atexit.register(said, "atexit-" + me, 0)
import resurge
class Own:
    def __del__(self, sleep=time.sleep):
        sleep(60)
own, held = Own(), open(os.path.join(folder, "held-" + me), "w")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with resurge.session():
    if os.environ["RESURGE_CYCLE"] == "1":
        os._exit(0)
    held.write("all")
    said("there-" + me, 0)
    while not os.path.exists(os.path.join(folder, "there-1-1")):
        time.sleep(0.01)
    if os.environ["RANK"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()
"""
)


def test_after_a_fault_nobody_waits_for_destructors_and_nothing_of_the_script_is_lost(alone: Alone):
    alone.start(TIDIES, "--max-restarts", "1", "--fault-grace", "4.5")
    assert alone.exit_code() == 0
    died_at, began_at = (os.stat(alone.folder / name).st_mtime for name in ("there-1-1", "pid-2-1"))
    assert began_at - died_at < 4.5, "the grace was waited for"
    assert (alone.folder / "atexit-1-1").exists()
    assert (alone.folder / "held-1-1").read_text() == "all"
