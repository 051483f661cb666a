"""Whatever ends a worker, its last line is in the file of its cycle within a second, and before the next cycle starts.

One job goes through one death after the other. A worker of the next cycle looks into the file itself, as its first act.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_launcher.pages import remove_pages

LIMIT_S = 180
WITHIN_S = 1.0
LOOK_S = 0.005
MEMORY_BYTES = 192 * 1024 * 1024
HOWS = ("exception", "_exit", "segv", "abort", "kill", "oom")
SAID = {
    "exception": b"RuntimeError: boom",
    "abort": b"terminate called without an active exception",
}
"""What stands behind the last words, by the runtime's own mouth."""
PROGRAM = """
import ctypes, os, signal, sys, time
folder, prefix, group, hows = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4].split(",")
cycle, rank = int(os.environ["RESURGE_CYCLE"]), os.environ["RANK"]
if cycle:
    path = f"{prefix}_cycle{cycle - 1}.log"
    before = open(path).read() if os.path.exists(path) else ""
    with open(f"{folder}/seen-{cycle - 1}-{rank}", "w") as file:
        file.write(str(int(f"1: last words {cycle - 1} " in before)))
for line in range(100):
    print("line", line)
if cycle == len(hows):
    sys.exit(0)
if rank == "0":
    open(f"{folder}/there-{cycle}", "w").close()
    signal.pause()
while not os.path.exists(f"{folder}/there-{cycle}"):
    time.sleep(0.005)
time.sleep(0.3)  # a sender at rest looks rarely
how = hows[cycle]
print("last words", cycle, time.time(), file=sys.stderr)
if how == "exception":
    raise RuntimeError("boom")
if how == "_exit":
    os._exit(3)
if how == "segv":
    ctypes.string_at(0)
if how == "abort":
    ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev()
if how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "oom":
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
    hoard = []
    while True:
        hoard.append(b"x" * (1 << 20))
"""


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A cgroup with little memory."""
    name, root = f"resurge-test-{os.getpid()}", Path("/sys/fs/cgroup")
    group, limit = (
        (root / "memory" / name, "memory.limit_in_bytes") if (root / "memory").is_dir() else (root / name, "memory.max")
    )
    try:
        group.mkdir()
        (group / limit).write_text(str(MEMORY_BYTES))
    except OSError as error:
        pytest.skip(f"no cgroup with a limit of memory can be made here: {error.strerror}")
    yield group
    group.rmdir()


@pytest.fixture
def run_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rs-"))  # short, for sockets
    yield folder
    remove_pages(folder)
    shutil.rmtree(folder, ignore_errors=True)


class Watch(threading.Thread):
    """Looks into the file of each cycle until the last words are there; by how much they were late."""

    def __init__(self, prefix: Path) -> None:
        super().__init__(daemon=True)
        self._prefix = prefix
        self.late_s: dict[str, float] = {}
        self.enough = threading.Event()

    def run(self) -> None:
        for cycle, how in enumerate(HOWS):
            path, words = Path(f"{self._prefix}_cycle{cycle}.log"), b"1: last words %d " % cycle
            text, said = b"", SAID.get(how, b"")
            while not (words in text and text.rpartition(words)[2].count(b"\n") and said in text):
                if self.enough.wait(LOOK_S):
                    return
                text = path.read_bytes() if path.exists() else b""
            now = time.time()
            self.late_s[how] = now - float(text.rpartition(words)[2].split(b"\n")[0])


@pytest.mark.parametrize("warm", ["off", "on"])
def test_last_words_are_in_the_file_in_time(tmp_path, run_dir, memory_group, warm):
    (tmp_path / "train.py").write_text(PROGRAM)
    prefix = tmp_path / "out" / "app"
    watch = Watch(prefix)
    words = ["run", "--nproc-per-node", "2", "--max-restarts", str(len(HOWS)), "--warm", warm]
    words += ["--run-dir", str(run_dir), "--state-dir", str(tmp_path / "state")]
    words += ["--ft-per-cycle-applog-prefix", f"{prefix}.log", str(tmp_path / "train.py")]
    words += [str(tmp_path), str(prefix), str(memory_group), ",".join(HOWS)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RESURGE_", "PET_", "SLURM"))}
    environ["RESURGE_POLICY__OFFENDER_FAULTS"] = "0"  # one rank dies again and again, on purpose
    environ["RESURGE_POLICY__FIRST_DELAY_S"] = "0"  # and a crash loop would wait longer and longer
    watch.start()
    try:
        command = [sys.executable, "-m", "resurge_launcher", *words]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    finally:
        watch.enough.set()
        watch.join()
    assert done.returncode == 0, done.stderr
    assert f"{signal.SIGKILL.name}" in done.stderr and f"{signal.SIGSEGV.name}" in done.stderr
    print({how: round(late, 3) for how, late in watch.late_s.items()})
    assert list(watch.late_s) == list(HOWS)
    assert {how: late for how, late in watch.late_s.items() if late > WITHIN_S} == {}
    seen = {path.name: path.read_text() for path in tmp_path.glob("seen-*")}
    assert len(seen) == 2 * len(HOWS) and set(seen.values()) == {"1"}, seen
