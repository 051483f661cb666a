"""Bad input to a real `resurge run`: exit code 2, one clear line that names the field and what would be right."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until

SCRIPT_BODY = "import pathlib, sys\npathlib.Path(sys.argv[1]).write_text('started')\n"


class Shell:
    """Runs the command in a directory of its own; knows whether a worker was ever started."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.proof = directory / "started"
        self.run_dir = Path(tempfile.mkdtemp(prefix="rs-"))  # short, for sockets
        self.script = directory / "train.py"
        self.script.write_text(SCRIPT_BODY)

    def environ(self, **variables: str) -> dict[str, str]:
        foreign = ("RESURGE_", "PET_", "SLURM", "XDG_")
        own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return own | {"XDG_STATE_HOME": str(self.directory / "state")} | variables

    def run(self, *words: str, script: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        program = [str(self.script), str(self.proof)] if script is None else [script, str(self.proof)]
        return subprocess.run(
            [sys.executable, "-m", "resurge_launcher", "run", *words, *filter(None, program)],
            cwd=self.directory, env=self.environ(**variables), capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path)
    yield made
    shutil.rmtree(made.run_dir, ignore_errors=True)


def refused(done: subprocess.CompletedProcess[str], *words: str):
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("resurge run: ")
    for word in words:
        assert word in lines[0]


CASES = [
    (["--nnodes", "3:2"], ["--nnodes", "MIN 3", "MAX 2", "MIN:MAX"]),
    (["--nnodes=0"], ["--nnodes", "1 <= MIN"]),
    (["--nnodes", "two"], ["--nnodes", "'two'"]),
    (["--nproc-per-node", "0"], ["--nproc-per-node", "from 1"]),
    (["--nproc_per_node=-4"], ["--nproc_per_node", "from 1"]),
    (["--nproc-per-node", "all"], ["--nproc-per-node", "cpu, gpu, auto"]),
    (["--node-rank", "1"], ["--node-rank", "out of range", "0 to 0"]),
    (["--node-rank", "-1"], ["--node-rank", "from 0"]),
    (["--rdzv-endpoint", "http://n0"], ["--rdzv-endpoint", "HOST:PORT"]),
    (["--rdzv-endpoint", "localhost:99999"], ["--rdzv-endpoint", "65535"]),
    (["--rdzv-endpoint", "n0.example:29400"], ["RESURGE_JOB_TOKEN", "secret"]),
    (["--rdzv-backend", "etcd-v2"], ["--rdzv-backend", "c10d"]),
    (["--rdzv-conf", "is_hots=1"], ["is_hots", "is_host"]),
    (["--nnodes", "2"], ["--rdzv-endpoint", "missing", "HOST:PORT"]),
    (["--standalone", "--nnodes", "2"], ["--standalone", "--nnodes"]),
    (["--master-port", "0"], ["--master-port", "65535"]),
    (["--max-restarts", "-1"], ["--max-restarts", "from 0"]),
    (["--max-restarts", "some"], ["--max-restarts", "whole number"]),
    (["-r", "7"], ["-r: ", "3 (both)"]),
    (["-t", "0:9"], ["-t: ", "3 (both)"]),
    (["--nnodes", "4", "--segment", "3", "--rdzv-endpoint", "localhost:1"], ["--segment", "MIN 4", "2, 4"]),
    (["--nproc", "2"], ["--nproc", "no such option", "--nproc-per-node"]),
    (["--max-restart", "2"], ["--max-restart", "--max-restarts"]),
    (["--elastic"], ["--elastic", "MIN nodes run"]),
    (["--lease-ttl", "1", "--beat-interval", "0.9"], ["beat_interval_s", "lease_ttl_s"]),
    (["--ft-rank-heartbeat-timeout", "900"], ["hang_limit_s", "collective_timeout_s"]),
    (["--state-dir", "/proc/nowhere"], ["--state-dir", "local file system"]),
    (["--log-dir", "/dev/null/logs"], ["--log-dir", "/dev/null/logs"]),
    (["--ft-cfg-path", "/nowhere.yaml"], ["--ft-cfg-path", "/nowhere.yaml"]),
    (["--signals-to-handle", "SIGKILL"], ["--signals-to-handle", "SIGKILL"]),
    (["-m", "--no-python"], ["--module", "--no-python"]),
]


@pytest.mark.parametrize(("words", "says"), CASES, ids=[" ".join(words) for words, _ in CASES])
@pytest.mark.users_row(6)
@pytest.mark.users_row(7)
@pytest.mark.users_row(30)
def test_refused_with_the_field_and_what_would_be_right(shell, words, says):
    refused(shell.run(*words), *says)
    assert not shell.proof.exists()
    assert not (shell.directory / "state").exists()


def test_a_missing_script(shell):
    refused(shell.run(script="trian.py"), "training script", "trian.py", "does not exist")


def test_no_script_at_all(shell):
    done = subprocess.run(
        [sys.executable, "-m", "resurge_launcher", "run", "--nnodes", "1"],
        cwd=shell.directory, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    refused(done, "training script", "is missing")


def test_a_directory_for_a_script(shell):
    refused(shell.run(script=str(shell.directory)), "training script", "directory")


def test_a_bad_variable_is_named(shell):
    refused(shell.run(PET_NNODES="5:1"), "PET_NNODES", "MIN 5")
    refused(shell.run(RESURGE_LAUNCHER__MAX_RESTARTZ="1"), "RESURGE_LAUNCHER__MAX_RESTARTZ", "MAX_RESTARTS")


def test_a_bad_file_is_named(shell):
    config = shell.directory / "cfg.yaml"
    config.write_text("launcher:\n  max_restartz: 3\n")
    refused(shell.run("--ft-cfg-path", str(config)), "launcher.max_restartz", "max_restarts")
    config.write_text("launcher: [\n")
    refused(shell.run("--ft-cfg-path", str(config)), "--ft-cfg-path", "not YAML")


def test_print_config_shows_values_with_sources_and_starts_nothing(shell):
    done = shell.run("--nnodes", "2:3", "--rdzv-endpoint", "localhost:1", "--print-config", PET_MAX_RESTARTS="3")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert rows["launcher.nnodes"] == ["2:3", "--nnodes"]
    assert rows["launcher.max_restarts"] == ["3", "PET_MAX_RESTARTS"]
    assert rows["launcher.role"] == ["default", "default"]
    assert rows["limits.lease_ttl_s"] == ["5", "default"]
    assert not shell.proof.exists()


def test_the_scripts_own_options_are_left_alone(shell):
    done = shell.run("--print-config", script="train.py")
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "resurge_launcher", "run", "--print-config", "train.py", "--nnodes", "9:1", "--foo"],
        cwd=shell.directory, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.users_row(5)
@pytest.mark.users_row(43)
def test_an_endpoint_where_nobody_answers_is_given_up_within_the_limit(shell):
    with socket.socket() as held:  # bound and never listening: every try is refused
        held.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{held.getsockname()[1]}"
        done = shell.run(
            "--nnodes", "2", "--rdzv-endpoint", endpoint, "--rdzv-conf", "is_host=false", "--connect-timeout", "1",
            "--run-dir", str(shell.run_dir),
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("resurge run: --rdzv-endpoint: no control plane answered")
    for word in (endpoint, "Connection refused", "nothing was started", "resurge serve", "--connect-timeout"):
        assert word in line
    assert not shell.proof.exists()


@pytest.mark.users_row(5)
def test_an_endpoint_whose_name_does_not_resolve_is_refused_by_name(shell):
    done = shell.run("--nnodes", "2", "--rdzv-endpoint", "no-such-host.invalid:1", RESURGE_JOB_TOKEN="x" * 32)
    assert done.returncode == 2, done.stderr
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .startswith("resurge run: --rdzv-endpoint: no way to no-such-host.invalid:1")
    )


def test_a_second_launcher_of_one_node_is_refused_and_names_the_first(shell):
    waits = shell.directory / "waits.py"
    waits.write_text("import pathlib, signal, sys\npathlib.Path(sys.argv[1]).write_text('started')\nsignal.pause()\n")
    words = ["--job-id", "twice", "--run-dir", str(shell.run_dir), "--term-timeout", "1"]
    first = subprocess.Popen(
        [sys.executable, "-m", "resurge_launcher", "run", *words, str(waits), str(shell.proof)],
        env=shell.environ(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(shell.proof.exists, 40)
        done = shell.run(*words, script=str(waits))
        assert done.returncode == 2, done.stderr
        last = done.stderr.strip().splitlines()[-1]
        assert f"held by launcher pid {first.pid}" in last
        assert "--take-over" in last
        assert first.poll() is None, "the first is not harmed"
    finally:
        first.terminate()
        first.communicate(timeout=40)


def test_a_state_directory_of_another_job_is_refused(shell):
    words = ["--state-dir", str(shell.directory / "state"), "--run-dir", str(shell.run_dir), "--lease-ttl", "1"]
    first = shell.run(*words, "--job-id", "mine")
    assert first.returncode == 0, first.stderr
    shell.proof.unlink()
    done = shell.run(*words, "--job-id", "other")
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "job 'mine', not 'other'" in last, "by the directory, or by the control plane that still serves it"
    assert not shell.proof.exists()


def test_two_programs_under_one_job_id_on_one_endpoint_are_told_apart(shell):
    waits = shell.directory / "waits.py"
    waits.write_text("import pathlib, signal, sys\npathlib.Path(sys.argv[1]).write_text('started')\nsignal.pause()\n")
    endpoint = ["--rdzv-endpoint", f"unix:{shell.run_dir}/c.sock", "--job-id", "one", "--term-timeout", "1"]
    own = ["--run-dir", f"{shell.run_dir}/a", "--node-id", "a"]
    first = subprocess.Popen(
        [sys.executable, "-m", "resurge_launcher", "run", *endpoint, *own, str(waits), str(shell.proof)],
        env=shell.environ(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(shell.proof.exists, 40)
        done = shell.run(*endpoint, "--run-dir", f"{shell.run_dir}/b", "--node-id", "b")
        assert done.returncode == 2, done.stderr
        assert "job 'one' runs another program here" in done.stderr.strip().splitlines()[-1]
        assert first.poll() is None, "the first is not harmed"
        assert shell.proof.read_text() == "started"
    finally:
        first.terminate()
        first.communicate(timeout=40)
