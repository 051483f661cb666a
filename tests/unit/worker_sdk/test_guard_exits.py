"""The end of a process with a thread that is stuck: by its own code, after its own tidying up, within a budget."""

import os
import subprocess
import sys

import pytest

PREAMBLE = "import atexit, os, sys, threading\nfrom resurge.guards import exits\n"
STUCK = "exits.note_stuck('a thread')\n"
NATIVE = "class Native:\n    def __del__(self): os.write(1, b' waited for ')\nnative = Native()\n"
"""What the interpreter tidies up itself, after all that Python code has registered."""
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def run(program, limit_s=30):
    command = [sys.executable, "-c", PREAMBLE + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, env=BUFFERED)


def ended(program):
    done = run(program)
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(
    ("ends_by", "code"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('why')", 1), ("raise ValueError", 1), ("pass", 0)],
)
def test_the_code_is_the_one_that_it_was_to_end_with(ends_by, code):
    tidy = "atexit.register(lambda: print('tidy'))\n"
    done = run(NATIVE + tidy + STUCK + ends_by + "\nprint('on')")
    assert (done.returncode, done.stdout.split()) == (code, ["on", "tidy"] if ends_by == "pass" else ["tidy"])
    assert ("Traceback" in done.stderr) == ("ValueError" in ends_by)


def test_tidying_up_that_hangs_is_bounded():
    hangs = "exits.EXIT_BUDGET_S = 0.2\natexit.register(threading.Event().wait)\n"
    assert ended(hangs + STUCK + "print('last', end='')\nsys.exit(4)") == (4, ["last"])


def test_without_a_stuck_thread_nothing_is_changed():
    assert ended("before = sys.exit\nassert exits.stuck() == ()\nassert sys.exit is before\nraise SystemExit(5)") == (
        5,
        [],
    )


def test_what_is_stuck_is_named_and_a_forked_child_has_nothing_stuck():
    fork = "child = os.fork()\nif not child: os._exit(len(exits.stuck()))\n"
    last = "print(exits.stuck()[0]); sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    assert ended(STUCK + fork + last) == (0, ["a", "thread"])
