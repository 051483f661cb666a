"""What makes a fork server unfit, what it says then, and that nothing of an order that failed is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.launcher.warm_stage import Scene, play

pytestmark = pytest.mark.integration
SAY = "import os\nprint(os.getpid(), os.getppid(), os.getsid(0))"

UNFIT = {
    "threads": (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
        "after the import of early: 1 other thread runs (python",
    ),
    "device": (
        "import ctypes, shutil\nlibc = [line.split()[-1] for line in open('/proc/self/maps') if '/libc' in line][0]\n"
        "shutil.copy(libc, 'libcuda.so.1')\nctypes.CDLL('./libcuda.so.1')",
        "the device driver's library libcuda.so.1 is loaded",
    ),
    "initialised": (
        "import sys, types\ntorch = sys.modules['torch'] = types.ModuleType('torch')\n"
        "torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)",
        "torch.cuda is initialised",
    ),
    "child": (
        "import subprocess\nchild = subprocess.Popen(['sleep', '60'])",
        "after the import of early: it has child processes",
    ),
    "socket": ("import socket\npair = socket.socketpair()", "is open and would be shared"),
    "epoll": ("import select\nepoll = select.epoll()", "anon_inode:[eventpoll]"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_a_module_that_forbids_a_fork_is_named_and_workers_are_execd(tmp_path: Path, what: str):
    text, sentence = UNFIT[what]
    (tmp_path / "early.py").write_text(text)
    (tmp_path / "train.py").write_text(SAY)
    found = play(tmp_path, Scene(True, "train.py", preload=["early"]))
    assert sentence in found["cold"] and sentence in found["log"]
    assert found["workers"][0]["code"] == 0
    pid, parent, session = map(int, found["workers"][0]["out"].split())
    assert (pid, parent, session) == (found["workers"][0]["pid"], found["launcher"], pid)


def test_a_forked_worker_is_the_launchers_own_child_and_leads_its_session(tmp_path: Path):
    (tmp_path / "train.py").write_text(SAY)
    found = play(tmp_path, Scene(True, "train.py", workers=4))
    assert found["cold"] == ""
    for worker in found["workers"]:
        pid, parent, session = map(int, worker["out"].split())
        assert (pid, parent, session) == (worker["pid"], found["launcher"], worker["pid"])
    assert found["left"] == []


def test_a_module_that_cannot_be_imported_is_left_to_the_worker(tmp_path: Path):
    (tmp_path / "early.py").write_text("import does_not_exist")
    (tmp_path / "train.py").write_text("import early")
    found = play(tmp_path, Scene(True, "train.py", preload=["early", "json"]))
    assert found["cold"] == "" and "preload_failed" in found["log"]
    assert found["workers"][0]["code"] == 1
    assert "No module named 'does_not_exist'" in found["workers"][0]["err"]


def test_a_module_that_ends_the_server_costs_the_warm_start_only(tmp_path: Path):
    (tmp_path / "early.py").write_text("import os\nos._exit(3)")
    (tmp_path / "train.py").write_text(SAY)
    found = play(tmp_path, Scene(True, "train.py", preload=["early"]))
    assert "the fork server has ended (" in found["cold"]
    assert found["workers"][0]["code"] == 0


def test_a_module_of_the_programs_folder_is_not_hidden_by_the_servers(tmp_path: Path):
    (tmp_path / "json.py").write_text("MINE = True\n")
    (tmp_path / "train.py").write_text("import json\nprint(json.MINE)")
    found = play(tmp_path, Scene(True, "train.py"))
    assert "its own json.py" in found["cold"]
    assert found["workers"][0]["out"] == "True\n"


def test_a_name_of_the_house_is_free_for_the_program(tmp_path: Path):
    (tmp_path / "server.py").write_text("MINE = 1\n")
    (tmp_path / "train.py").write_text("import server\nprint(server.MINE)")
    found = play(tmp_path, Scene(True, "train.py"))
    assert (found["cold"], found["workers"][0]["out"]) == ("", "1\n")


def test_a_limit_that_cannot_be_had_is_told_and_workers_are_execd(tmp_path: Path):
    pytest.importorskip("ctypes", reason="gives up the right to raise limits")
    no_rights = "import ctypes, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
    # PR_CAPBSET_DROP would not do: the rights that it has now go with the user id
    no_rights += "import os\nif os.getuid() == 0:\n    os.setresuid(65534, 65534, 65534)\n"
    (tmp_path / "early.py").write_text(no_rights)
    (tmp_path / "train.py").write_text(SAY)
    found = play(tmp_path, Scene(True, "train.py", preload=["early"]))
    assert "resource limit" in found["cold"] or "PermissionError" in found["cold"]
    assert found["workers"][0]["code"] == 0 and found["left"] == []


def test_what_modules_print_at_import_is_shown_once(tmp_path: Path):
    (tmp_path / "early.py").write_text("print('hello from early')")
    (tmp_path / "train.py").write_text("import early")
    found = play(tmp_path, Scene(True, "train.py", preload=["early"], workers=2))
    assert found["log"].count("hello from early") == 1
    assert [worker["out"] for worker in found["workers"]] == ["", ""]


def test_more_workers_than_one_message_carries(tmp_path: Path):
    (tmp_path / "train.py").write_text("import os\nprint(os.environ['RANK'])")
    found = play(tmp_path, Scene(True, "train.py", workers=130))
    assert found["cold"] == ""
    assert [worker["out"] for worker in found["workers"]] == [f"{rank}\n" for rank in range(130)]


def test_an_environment_larger_than_a_datagram(tmp_path: Path):
    (tmp_path / "train.py").write_text("import os\nprint(len(os.environ['BIG']), ascii(os.environ['ODD']))")
    big = Scene(True, "train.py", env={"BIG": "x" * 100_000, "ODD": "ü\udcff"}, workers=3)
    found = play(tmp_path, big)
    assert found["cold"] == "" and found["workers"][2]["out"] == "100000 '\\xfc\\udcff'\n"
