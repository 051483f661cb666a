"""Where a launcher's pages are, and that nothing else goes with them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resurge_launcher import page_owner
from resurge_launcher.pages import page_home, page_homes, remove_pages, sweep_pages

HOLDER = """
import sys
from pathlib import Path
from resurge_launcher.pages import page_home
home = page_home(Path(sys.argv[1]), Path(sys.argv[2]))
(home.path / "1").mkdir()
(home.path / "1" / "rank-0.page").touch()
print(home.path, flush=True)
sys.stdin.read()
"""
LIMIT_S = 50


@pytest.fixture
def shared_memory(tmp_path: Path) -> Path:
    (tmp_path / "shm").mkdir()
    return tmp_path / "shm"


def killed_with_pages(run_dir: Path, shared_memory: Path) -> Path:
    """What a launcher that was killed left, after it was there for all to see."""
    command = [sys.executable, "-c", HOLDER, str(run_dir), str(shared_memory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        home = Path(holder.stdout.readline().strip())
        sweep_pages(shared_memory)
        assert (home / "1" / "rank-0.page").exists(), "its owner lives"
        holder.kill()
        assert holder.wait(LIMIT_S) == -signal.SIGKILL
    assert home.parent == shared_memory
    return home


def test_pages_in_the_run_directory_leave_a_users_own_pages_alone(tmp_path: Path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.html").write_text("mine")
    no_shared_memory = tmp_path / "absent"
    home = page_home(tmp_path, no_shared_memory)
    assert home.path.parent == tmp_path and home.path.is_dir()
    home.let_go()
    remove_pages(tmp_path, no_shared_memory)
    assert not home.path.exists() and (tmp_path / "pages" / "index.html").read_text() == "mine"


def test_pages_of_a_killed_launcher_go_with_any_later_one(tmp_path: Path, shared_memory: Path):
    home = killed_with_pages(tmp_path / "run", shared_memory)
    other = page_home(tmp_path / "other", shared_memory)
    assert sweep_pages(shared_memory) == 1
    assert not home.exists() and other.path.exists(), "our own pages have an owner that lives"
    other.let_go()


def test_pages_of_a_killed_launcher_give_way_to_its_successor(tmp_path: Path, shared_memory: Path):
    home = killed_with_pages(tmp_path / "run", shared_memory)
    successor = page_home(tmp_path / "run", shared_memory)
    assert successor.path == home and not (home / "1").exists()
    successor.let_go()
    remove_pages(tmp_path / "run", shared_memory)
    assert not list(shared_memory.iterdir())


def test_nothing_without_an_owner_or_of_another_name_is_swept(tmp_path: Path, shared_memory: Path):
    older_release = page_homes(tmp_path, shared_memory)[0]
    strangers = [shared_memory / f"resurge-{os.getuid() + 1}-abc", shared_memory / "psm_1"]
    for directory in (older_release, *strangers):
        directory.mkdir()
    for directory in strangers:
        (directory / page_owner.OWNER).touch()
    linked = shared_memory / f"{older_release.name}.link"
    linked.symlink_to(strangers[0])
    assert sweep_pages(shared_memory) == 0 and len(list(shared_memory.iterdir())) == 4
    home = page_home(tmp_path, shared_memory)
    assert home.path == older_release, "its own successor takes its place"
    home.let_go()


def test_pages_whose_owner_lives_are_not_taken_under_the_same_path(
    tmp_path: Path, shared_memory: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(page_owner, "LOCK_WAIT_S", 0.02)
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    first = page_home(run_dir, shared_memory)
    second = page_home(run_dir, shared_memory)
    assert second.path == page_homes(run_dir, shared_memory)[1], "as of another container that shares the memory"
    second.let_go()
    remove_pages(run_dir, shared_memory)
    assert first.path.exists() and not second.path.exists()
    first.let_go()


def test_a_file_system_without_locks_does(tmp_path: Path, shared_memory: Path, monkeypatch: pytest.MonkeyPatch):
    def none(lock: int, how: int) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    home = page_home(tmp_path, shared_memory)
    assert home.lock is None and home.path.parent == shared_memory and not list(home.path.iterdir())
    assert sweep_pages(shared_memory) == 0
    home.let_go()
    remove_pages(tmp_path, shared_memory)
    assert not home.path.exists()
