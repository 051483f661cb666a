"""One file per cycle with every rank's lines, whatever ends a worker; nothing of a new cycle in an old one's file."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = """
import ctypes, os, signal, sys
rank, restarts, how = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"], sys.argv[1]
for line in range(200):
    print(f"cycle {restarts} line {line}")
if restarts == "0":
    written = sys.argv[2]
    if rank == "0":
        open(written, "w").close()
    if rank == "1":
        while not os.path.exists(written):
            pass
        print("last words", file=sys.stderr)
        if how == "exception":
            raise RuntimeError("boom")
        if how == "_exit":
            os._exit(3)
        if how == "abort":
            ctypes.CDLL(None).dprintf(2, b"terminate called after throwing an instance of 'c10::Error'\\n")
        os.kill(os.getpid(), {"segv": signal.SIGSEGV, "kill": signal.SIGKILL, "abort": signal.SIGABRT}[how])
    signal.pause()
"""


@pytest.fixture
def run_dir():
    folder = Path(tempfile.mkdtemp(prefix="rs-"))  # short, for sockets
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def resurge(*words: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RESURGE_", "PET_", "SLURM"))}
    command = [sys.executable, "-m", "resurge_launcher", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize("how", ["exception", "_exit", "segv", "kill", "abort"])
def test_what_a_worker_wrote_before_it_died_is_in_the_file_of_its_cycle(tmp_path, run_dir, how):
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ["run", "--nproc-per-node", "2", "--max-restarts", "1", "--warm", "off"]
    words += ["--run-dir", str(run_dir), "--state-dir", str(tmp_path / "state")]
    words += ["--ft-per-cycle-applog-prefix", str(tmp_path / "out" / "app.log")]
    words += ["--ft-nvrx-logfile", str(tmp_path / "out" / "launcher.log")]
    done = resurge(*words, str(tmp_path / "train.py"), how, str(tmp_path / "written"))
    assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / "out" / f"app_cycle{n}.log").read_text() for n in (0, 1))
    for rank in (0, 1):
        for cycle, text in ((0, first), (1, second)):
            mine = [line for line in text.splitlines() if re.match(rf"{rank}: cycle \d+ line", line)]
            assert mine == [f"{rank}: cycle {cycle} line {number}" for number in range(200)]
    assert "1: last words" in first
    if how == "exception":
        assert "1: RuntimeError: boom" in first
    if how == "abort":
        assert "c10::Error" in first
    assert "cycle 0" not in second and "cycle 1" not in first
    launcher = (tmp_path / "out" / "launcher.log").read_text()
    assert "fault_seen" in launcher and "launcher_exits" in launcher
    assert "line 0" not in done.stdout, "what goes into the file is not on the terminal as well"
    assert "last words" in done.stderr, "but the last lines of a fault are"
    assert not (run_dir / "spool").exists() and not list(run_dir.glob("logs-*")), "nothing is left behind"


def test_a_prefix_alone_on_several_nodes_warns_once_and_can_be_refused(tmp_path, run_dir):
    (tmp_path / "train.py").write_text("print('hello')")
    words = [
        "run",
        "--nnodes",
        "2",
        "--rdzv-endpoint",
        "127.0.0.1:1",
        "--applog-prefix",
        "/tmp/app.log",
        "--strict-logs",
    ]
    done = resurge(*words, str(tmp_path / "train.py"))
    assert done.returncode == 2
    assert "--strict-logs refuses" in done.stderr and "--ft-enable-log-server" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ft-nvrx-logfile", "/x/launcher.log"], "--ft-per-cycle-applog-prefix"),
        (["--ft-enable-log-server"], "--ft-per-cycle-applog-prefix"),
        (["--applog-prefix", "app.log"], "absolute path"),
        (["--applog-prefix", "/x/app.log", "--ft-log-server-port", "70000"], "port"),
    ],
)
def test_what_cannot_go_together_is_refused(tmp_path, words, said):
    (tmp_path / "train.py").write_text("print('hello')")
    done = resurge("run", *words, str(tmp_path / "train.py"))
    assert done.returncode == 2 and said in done.stderr.lower()


def test_two_nodes_without_a_log_server_append_to_one_file(tmp_path, run_dir):
    """Both launchers are on this host, so what their appends make is what a local file system makes of it."""
    (tmp_path / "train.py").write_text("import os\nfor n in range(100): print('line', n)\n")
    prefix = str(tmp_path / "out" / "app.log")
    socket = f"unix:{run_dir}/control.sock"
    launchers = []
    for node in ("a", "b"):
        words = [
            "run",
            "--nnodes",
            "2",
            "--node-id",
            node,
            "--rdzv-id",
            "direct",
            "--rdzv-endpoint",
            socket,
            "--warm",
            "off",
        ]
        words += ["--state-dir", str(tmp_path / "state"), "--run-dir", str(run_dir / node), "--applog-prefix", prefix]
        command = [sys.executable, "-m", "resurge_launcher", *words, str(tmp_path / "train.py")]
        launchers.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    told = [launcher.communicate(timeout=90)[1] for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], told
    assert all("--ft-enable-log-server" in text for text in told)
    lines = (tmp_path / "out" / "app_cycle0.log").read_text().splitlines()
    for rank in (0, 1):
        assert [line for line in lines if line.startswith(f"{rank}: ")] == [f"{rank}: line {n}" for n in range(100)]


def test_the_next_job_with_the_same_prefix_has_its_lines_behind_those_of_the_first(tmp_path, run_dir):
    (tmp_path / "train.py").write_text("import sys\nfor n in range(50): print(sys.argv[1], n)\n")
    for name in ("first", "second"):
        words = ["run", "--warm", "off", "--run-dir", str(run_dir), "--state-dir", str(tmp_path / name)]
        words += ["--applog-prefix", str(tmp_path / "app.log"), str(tmp_path / "train.py"), name]
        done = resurge(*words)
        assert done.returncode == 0, done.stderr
    lines = (tmp_path / "app_cycle0.log").read_text().splitlines()
    assert lines == [f"0: {name} {n}" for name in ("first", "second") for n in range(50)]


def test_lines_that_cannot_be_sent_hold_up_neither_the_exit_code_nor_who_reads_the_output(tmp_path, run_dir):
    (tmp_path / "train.py").write_text("print('hello')")
    words = ["run", "--warm", "off", "--run-dir", str(run_dir), "--state-dir", str(tmp_path / "state")]
    words += ["--applog-prefix", str(tmp_path / "app.log"), "--log-endpoint", "127.0.0.1:1"]
    words += ["--ft-log-server-graceful-shutdown-timeout", "3"]
    done = resurge(*words, str(tmp_path / "train.py"))
    returned = datetime.datetime.now()
    assert done.returncode == 0, done.stderr
    said = next(line for line in done.stderr.splitlines() if "logs_not_sent" in line)
    at = datetime.datetime.combine(returned.date(), datetime.time.fromisoformat(said.split()[0]))
    assert (returned - at).total_seconds() % 86_400 < 10, "the sender, which goes on, holds the launcher's output"
    left_at = next(line for line in done.stderr.splitlines() if "launcher_exits" in line).split()[0]
    exits = datetime.datetime.combine(returned.date(), datetime.time.fromisoformat(left_at))
    assert (at - exits).total_seconds() % 86_400 < 13, "three seconds, and what a busy machine adds"
    assert "logs_held_back" in (run_dir / "spool" / "sender.log").read_text()
    assert not (tmp_path / "app_cycle0.log").exists()


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody has now."""
    while True:
        with contextlib.ExitStack() as held:
            first = held.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            number = first.getsockname()[1]
            try:
                for offset in range(1, count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", number + offset))
            except (OSError, OverflowError):
                continue
            return number


def test_two_nodes_send_through_leaves_that_their_launcher_started(tmp_path, run_dir):
    (tmp_path / "train.py").write_text("import os\nfor n in range(100): print('line', n)\n")
    control, logs = free_ports(1), free_ports(3)
    launchers = []
    for number, node in enumerate(("a", "b")):
        words = ["run", "--nnodes", "2", "--node-id", node, "--node-rank", str(number), "--rdzv-id", "leaves"]
        words += ["--rdzv-endpoint", f"127.0.0.1:{control}", "--rdzv-conf", f"is_host={number == 0}".lower()]
        words += ["--warm", "off", "--state-dir", str(tmp_path / "state"), "--run-dir", str(run_dir / node)]
        words += ["--ft-enable-log-server", "--ft-log-aggregator-count", "2", "--ft-log-server-port", str(logs)]
        words += ["--ft-log-server-graceful-shutdown-timeout", "60"]  # a busy machine may start a sender late
        words += ["--ft-per-cycle-applog-prefix", str(tmp_path / "out" / "app.log")]
        words += ["--ft-log-server-log-prefix", str(tmp_path / "said" / "grpc")]
        command = [sys.executable, "-m", "resurge_launcher", *words, str(tmp_path / "train.py")]
        environ = {**os.environ, "RESURGE_MACHINE_ID": node}
        launchers.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ))
    told = [launcher.communicate(timeout=90)[1] for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], told
    lines = (tmp_path / "out" / "app_cycle0.log").read_text().splitlines()
    for rank in (0, 1):
        assert [line for line in lines if line.startswith(f"{rank}: ")] == [f"{rank}: line {n}" for n in range(100)]
    for number in (0, 1):
        said = (tmp_path / "said" / f"grpc_leaf_{number}.log").read_text()
        assert "log_root_found" in said and f"127.0.0.1:{logs + 2}" in said
    assert "log_opened" in (tmp_path / "said" / "grpc_root.log").read_text()
