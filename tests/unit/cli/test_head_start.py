"""Fork server and control plane begin before the command line is parsed; kept is only what was asked for."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from resurge import environment as sdk
from resurge_launcher import cli, early_control, node_environment
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


class Control:
    """A control plane that is never told to begin."""

    def __init__(self, plan):
        self.plan, self.fate = plan, "runs"

    def end(self):
        self.fate = "ended"


@pytest.fixture
def controls(monkeypatch):
    """Every control plane that is begun, where there are processors enough; the one that the agent gets is `given`."""
    begun = []

    def start(plan):
        begun.append(Control(plan))
        return begun[-1]

    monkeypatch.setattr(early_control, "start", start)
    monkeypatch.setattr(early_control, "is_worth_it", lambda with_fork_server: True)
    return begun


@pytest.fixture
def launched(tmp_path, monkeypatch, controls):
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
        if early is not None:
            early.fate = "given"
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


@pytest.mark.parametrize("words", [
    ("train.py",),
    ("--warm", "off", "train.py"),
    ("--rdzv-id", "job7", "--max-restarts", "2", "train.py"),
    ("--rdzv-endpoint", "127.0.0.1:7470", "--nnodes", "2", "--node-rank", "0", "train.py"),
])  # fmt: skip
def test_a_launcher_that_starts_the_control_plane_begins_it_at_once(launched, controls, words, monkeypatch):
    given = []
    monkeypatch.setattr(Control, "end", lambda self: given.append(self.fate))  # at the end of the command
    assert launched(*words)[0] == 0
    assert given == ["given"] and len(controls) == 1, "the agent gets the one that was begun"


@pytest.mark.parametrize("words", [
    ("--rdzv-endpoint", "127.0.0.1:1", "--rdzv-conf", "is_host=false", "--nnodes", "2", "--node-rank", "1", "train.py"),
    ("--ft-cfg-path", "cfg.yaml", "train.py"),
    ("--print-config", "train.py"),
    ("none.py",),
])  # fmt: skip
def test_where_it_is_not_certain_that_one_is_wanted_none_is_begun(launched, controls, words):
    launched(*words)
    assert controls == []


def test_a_control_plane_that_nobody_wants_is_ended(launched, controls):
    assert launched("--state-dir", "/proc/none", "train.py")[0] == 2
    assert [control.fate for control in controls] == ["ended"]


def test_beside_a_fork_server_it_waits_where_processors_are_few(launched, controls, monkeypatch):
    asked = []
    monkeypatch.setattr(early_control, "is_worth_it", lambda with_fork_server: asked.append(with_fork_server))
    launched("train.py")
    launched("--warm", "off", "train.py")
    assert asked == [True, False] and controls == []


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
