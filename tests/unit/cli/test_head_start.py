"""The fork server begins before the command line is parsed, and is kept only where it is the one that was asked for."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from resurge import environment as sdk
from resurge_launcher import cli, node_environment
from resurge_launcher.warm import fork_server

EARLY = "import sys, resurge_launcher.cli, resurge_launcher.commands.head_start; print(*sorted(sys.modules))"


class Server:
    """A server that imports nothing; says what became of it."""

    def __init__(self, plan):
        self.plan, self.fate = plan, "runs"

    def let_go(self):
        pass

    def end(self):
        self.fate = "ended"
        return -9


@pytest.fixture
def launched(tmp_path, monkeypatch):
    """Runs a command line up to the agent; answers its code, the servers begun, and the one that was kept."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "cfg.yaml").write_text("launcher:\n  preload: json\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    begun, given = [], []

    def start(plan):
        begun.append(Server(plan))
        return begun[-1]

    def run(settings, warm, early):
        given.append(warm)
        return 0

    monkeypatch.setattr(fork_server, "start", start)
    monkeypatch.setitem(sys.modules, "resurge_launcher.agent", SimpleNamespace(run=run))

    def launch(*words):
        code = cli.main(["run", *words])
        kept = given[0]._server if given and given[0] is not None else None
        return code, begun, kept

    return launch


@pytest.mark.parametrize("words", [
    ("train.py",),
    ("--standalone", "--nproc_per_node=4", "train.py", "--epochs", "3", "-x"),
    ("--nproc-per-node", "2", "--max-restarts", "3", "--preload", "json,csv", "train.py"),
    ("-m", "json.tool", "--indent", "2"),
    ("--rdzv-id", "first", "--rdzv_id", "second", "--node-id", "n7", "train.py"),
    ("--rdzv-endpoint", "127.0.0.1:1", "--nnodes", "2", "--node-rank", "1", "train.py"),
])  # fmt: skip
def test_one_server_is_begun_and_it_is_the_one_that_is_kept(launched, words):
    code, begun, kept = launched(*words)
    assert code == 0 and len(begun) == 1, "a second one says that the head start had read another command line"
    assert kept is begun[0] and kept.fate == "runs"
    assert kept.plan.args == words[words.index("train.py") + 1 :] if "train.py" in words else ("--indent", "2")


@pytest.mark.parametrize("words", [("--warm", "off", "train.py"), ("--no-python", "true")])
def test_where_workers_are_executed_no_server_is_begun(launched, words):
    code, begun, kept = launched(*words)
    assert (code, begun, kept) == (0, [], None)


@pytest.mark.parametrize("words", [("--print-config", "train.py"), ("--state-dir", "/proc/none", "train.py")])
def test_a_server_that_nobody_claims_is_ended(launched, words):
    _, begun, kept = launched(*words)
    assert kept is None and [server.fate for server in begun] in ([], ["ended"])


def test_a_refusal_ends_it_too(launched, capsys):
    code, begun, kept = launched("--state-dir", "/proc/none", "train.py")
    assert (code, kept) == (2, None) and [server.fate for server in begun] == ["ended"]
    assert "--state-dir: /proc/none cannot be used" in capsys.readouterr().err


def test_what_only_the_file_says_has_no_head_start_and_the_right_server(launched):
    code, begun, kept = launched("--ft-cfg-path", "cfg.yaml", "train.py")
    assert code == 0 and begun == [kept] and "json" in kept.plan.preload


@pytest.mark.parametrize("words", [("--nonsense", "train.py"), ("none.py",), ("--nnodes", "2:1", "train.py"), ("-h",)])
def test_what_cannot_run_begins_nothing(launched, words, capsys):
    code, begun, _ = launched(*words)
    assert begun == [] and code == (0 if words == ("-h",) else 2)


def test_the_head_start_imports_nothing_that_takes_long():
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=50, check=True)
    long = {"asyncio", "click", "resurge", "grpc", "google.protobuf", "yaml", "pydantic", "torch", "logging"}
    assert not long & set(done.stdout.split())


def test_the_workers_sdk_and_the_launcher_name_the_job_alike():
    assert node_environment.JOB_ID == sdk.JOB_ID
