"""The end of a process with a thread that is stuck: by its own code, after its own tidying up, within a budget."""

import subprocess
import sys

import pytest

PREAMBLE = "import atexit, sys, threading\nfrom resurge.guards import exits\n"
STUCK = "exits.note_stuck('a thread')\n"


def ended(program, limit_s=30):
    done = subprocess.run([sys.executable, "-c", PREAMBLE + program], capture_output=True, text=True, timeout=limit_s)
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(
    ("ends_by", "code"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('why')", 1), ("raise ValueError", 1), ("pass", 0)],
)
def test_the_code_is_the_one_that_it_was_to_end_with(ends_by, code):
    tidy = "atexit.register(lambda: print('tidy'))\n"
    assert ended(tidy + STUCK + ends_by) == (code, ["tidy"])


def test_tidying_up_that_hangs_is_bounded():
    hangs = "exits.EXIT_BUDGET_S = 0.2\natexit.register(threading.Event().wait)\n"
    assert ended(hangs + STUCK + "print('last', end='')\nsys.exit(4)") == (4, ["last"])


def test_without_a_stuck_thread_nothing_is_changed():
    assert ended("before = sys.exit\nassert exits.stuck() == ()\nassert sys.exit is before\nraise SystemExit(5)") == (
        5,
        [],
    )


def test_what_is_stuck_is_named_and_a_forked_child_has_nothing_stuck():
    fork = "import os\nchild = os.fork()\nif not child: os._exit(len(exits.stuck()))\n"
    assert ended(STUCK + fork + "print(exits.stuck()[0]); sys.exit(os.waitpid(child, 0)[1])") == (0, ["a", "thread"])
