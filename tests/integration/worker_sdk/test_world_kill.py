"""K20: two real ranks under a real launcher, one of whose loops crashes."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from resurge_launcher.pages import remove_pages
from resurge_libs.testing.process_faults import is_alive
from tests.integration.launcher.launching import SAY_PID, end_control_plane

PROGRAM = (
    SAY_PID
    + """
import resurge
own = resurge.session()
def wait_for(name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.01)
said("ready-%d" % own.rank, "")
wait_for("ready-%d" % (1 - own.rank))
print("READY %d" % own.rank, flush=True)
if own.rank == 0:
    is_delivered = sys.argv[2] == "delivered"
    delivered = threading.Event()
    if is_delivered:
        delivered.set()
    cleanup = (lambda: None) if is_delivered else threading.Event().wait
    try:
        with resurge.crash_guard(own, cleanup=cleanup, delivered=delivered, grace_s=0.3):
            raise ValueError("what broke the loop")
    except ValueError:
        said("went-on", "")
else:
    wait_for("went-on")
    print("PEER WENT ON", flush=True)
"""
)


@pytest.fixture
def job(tmp_path):
    run_dir = Path(tempfile.mkdtemp(prefix="resurge-"))

    def run(how):
        script = tmp_path / "train.py"
        script.write_text(PROGRAM)
        command = [sys.executable, "-m", "resurge_launcher", "run", "--state-dir", str(tmp_path / "state")]
        command += [
            "--run-dir",
            str(run_dir),
            "--nproc-per-node",
            "2",
            "--warm",
            "off",
            str(script),
            str(tmp_path),
            how,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL)
        print(done.stdout, done.stderr)
        return done.returncode, done.stdout + done.stderr

    yield run
    end_control_plane(tmp_path / "state")
    remove_pages(run_dir)
    shutil.rmtree(run_dir, ignore_errors=True)


def test_K20_undelivered_both_ranks_are_gone_and_the_cause_is_the_exception(job, tmp_path):
    code, output = job("undelivered")
    assert "READY 0" in output
    assert "READY 1" in output
    assert code == 1
    assert "PEER WENT ON" not in output
    assert not (tmp_path / "went-on").exists()
    assert not any(is_alive(int(file.read_text())) for file in tmp_path.glob("pid-*"))
    assert "rank_crashed" in output
    fault = next(line for line in output.splitlines() if "fault_evidence" in line and "error file" in line)
    after = output.split(fault, 1)[1].splitlines()
    assert any("ValueError: what broke the loop" in line for line in after[:10])


def test_K20_delivered_the_job_ends_with_0(job):
    code, output = job("delivered")
    assert "READY 0" in output
    assert "READY 1" in output
    assert code == 0
    assert "PEER WENT ON" in output
