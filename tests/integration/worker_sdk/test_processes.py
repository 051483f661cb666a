"""The SDK in processes of its own: forks, spawned children, uncaught exceptions, a reader beside a writer."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from resurge import environment
from resurge.page import LauncherCells, PageReader
from resurge_libs.testing import wait_until

LEASE_NS = 3600 * 1_000_000_000


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "rank-0.page"
    cells = LauncherCells.create(path, generation=1)
    cells.set_lease(time.monotonic_ns() + LEASE_NS)
    return path


def worker_variables(page, **more):
    return {**os.environ, environment.PAGE: str(page), environment.GENERATION: "1", **more}


def run(script, page, **more):
    return subprocess.run(
        [sys.executable, "-c", script],
        env=worker_variables(page, **more),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_forked_child_is_silent_but_may_ask_the_fence(page):
    ended = run(
        """
import os, resurge
with resurge.session(beat_limit=5) as s, s.phase("load"):
    s.beat(1)
    child = os.fork()
    if child == 0:
        s.beat(999); s.step_committed(999); s.process_group_ready()
        with resurge.session() as t, t.phase("child"):
            t.beat(999)
        os._exit(0 if t is s and not t.armed and t.fence(wait=0).holds else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    s.beat(2)
""",
        page,
    )
    assert ended.returncode == 0, ended.stderr
    view = PageReader(page).read()
    assert (view.beat_step, view.committed_step, view.process_group_ready_ns) == (2, None, 0)
    assert view.beat_count == 3, "two beats and the end of the phase"
    assert view.closed_ns > 0


def test_a_spawned_child_does_not_take_its_parents_page(page):
    ended = run(
        """
import subprocess, sys, resurge
s = resurge.session()
s.beat(1)
child = "import resurge; s = resurge.session(); s.beat(999); raise SystemExit(s.armed)"
raise SystemExit(subprocess.run([sys.executable, "-c", child]).returncode)
""",
        page,
    )
    assert ended.returncode == 0, ended.stderr
    assert PageReader(page).read().beat_step == 1


def test_a_program_after_another_takes_the_page_over(page):
    for step in (1, 2):
        assert run(f"import resurge; resurge.session().beat({step})", page).returncode == 0
    assert PageReader(page).read().beat_step == 2


def test_an_uncaught_exception_is_left_in_torchruns_error_file(page, tmp_path):
    error_file = tmp_path / "error.json"
    ended = run(
        "import resurge; resurge.session(); raise ValueError('loss is NaN')",
        page,
        TORCHELASTIC_ERROR_FILE=str(error_file),
    )
    assert ended.returncode == 1
    assert "ValueError: loss is NaN" in ended.stderr, "the usual traceback is still printed"
    message = json.loads(error_file.read_text())["message"]
    assert message["message"] == "ValueError: loss is NaN"
    assert "Traceback" in message["extraInfo"]["py_callstack"]
    assert abs(int(message["extraInfo"]["timestamp"]) - time.time()) < 60


@pytest.mark.parametrize(
    "end", ["raise SystemExit(3)", "raise KeyboardInterrupt", "pass"], ids=["exit", "interrupt", "success"]
)
def test_other_ends_leave_no_error_file(page, tmp_path, end):
    error_file = tmp_path / "error.json"
    run(f"import resurge; resurge.session(); {end}", page, TORCHELASTIC_ERROR_FILE=str(error_file))
    assert not error_file.exists()


def test_an_error_file_of_the_scripts_own_is_left_alone_and_hooks_chain(page, tmp_path):
    error_file = tmp_path / "error.json"
    error_file.write_text('{"message": "mine"}')
    ended = run(
        """
import sys, resurge
sys.excepthook = lambda *_: print("own hook", file=sys.stderr)
resurge.session()
raise ValueError
""",
        page,
        TORCHELASTIC_ERROR_FILE=str(error_file),
    )
    assert "own hook" in ended.stderr
    assert json.loads(error_file.read_text()) == {"message": "mine"}


def test_an_error_file_that_cannot_be_written_changes_nothing(page, tmp_path):
    ended = run(
        "import resurge; resurge.session(); raise ValueError('x')",
        page,
        TORCHELASTIC_ERROR_FILE=str(tmp_path / "no" / "such"),
    )
    assert ended.returncode == 1
    assert "ValueError: x" in ended.stderr


QUICK = """
import atexit, resurge
atexit.register(lambda: print("tidied up"))
with resurge.session(quick_exit=True):
    print("no newline", end="")
    {end}
"""


def test_a_quick_exit_tells_all_and_skips_the_tidying_up(page, tmp_path):
    error_file = tmp_path / "error.json"
    ended = run(QUICK.format(end="raise ValueError('loss is NaN')"), page, TORCHELASTIC_ERROR_FILE=str(error_file))
    assert (ended.returncode, ended.stdout) == (1, "no newline")
    assert ended.stderr.rstrip().endswith("ValueError: loss is NaN")
    assert "loss is NaN" in error_file.read_text()


@pytest.mark.parametrize(("end", "code"), [("pass", 0), ("raise SystemExit(3)", 3), ("raise KeyboardInterrupt", -2)])
def test_other_ends_are_not_quick(page, end, code):
    ended = run(QUICK.format(end=end), page)
    assert (ended.returncode, "tidied up" in ended.stdout) == (code, True)


def test_without_a_launcher_no_exit_is_quick():
    ended = subprocess.run(
        [sys.executable, "-c", QUICK.format(end="raise ValueError")], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, "tidied up" in ended.stdout) == (1, True)


def test_import_loads_no_third_party_module(page):
    ended = run(
        "import sys; before = set(sys.modules); import resurge, resurge.torch; resurge.session().beat(1)\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "new -= {*sys.stdlib_module_names, 'resurge'}\n"
        "raise SystemExit(str(new) if new else 0)",
        page,
    )
    assert ended.returncode == 0, ended.stderr


WRITER = """
import itertools, resurge
s = resurge.session()
for n in itertools.count(1):
    with s.phase(str(n) * 8, limit=n):
        s.step_committed(n)
"""


def test_a_reader_beside_a_busy_writer_sees_only_whole_records(page):
    writer = subprocess.Popen([sys.executable, "-c", WRITER], env=worker_variables(page))
    try:
        reader = PageReader(page)
        wait_until(lambda: reader.read().first_commit_ns > 0, limit_s=20)
        seen, last_beat_ns, last_step = 0, 0, 0
        for _ in range(20_000):
            view = reader.read()
            assert view.beat_ns >= last_beat_ns
            assert view.committed_step >= last_step
            last_beat_ns, last_step = view.beat_ns, view.committed_step
            if view.phase is not None:
                seen += 1
                number = view.phase.limit_ns // 1_000_000_000
                assert view.phase.name == (str(number) * 8)[:64]
                assert view.phase.deadline_ns == view.phase.opened_ns + view.phase.limit_ns
        assert seen > 0
    finally:
        writer.kill()
        writer.wait()


def test_a_worker_frozen_anywhere_leaves_a_page_that_can_be_read(page):
    writer = subprocess.Popen([sys.executable, "-c", WRITER], env=worker_variables(page))
    try:
        reader = PageReader(page)
        wait_until(lambda: reader.read().first_commit_ns > 0, limit_s=20)
        for _ in range(50):
            writer.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, writer.pid, os.WSTOPPED)
            view = reader.read()
            assert view == reader.read()
            assert view.beat_count > 0
            writer.send_signal(signal.SIGCONT)
    finally:
        writer.kill()
        writer.wait()
