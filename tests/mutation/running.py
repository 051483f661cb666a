"""Runs a module's tests against its mutants: each in a process of its own that has pytest imported already.

A mutant is killed when a test fails, or the tests do not end in time, or the process dies of it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutation.mutants import Mutant

PACKAGE = Path("worker_sdk/src/resurge")
FIRST_LIMIT_S = 120.0
"""Of the tests without a mutant; with one they may take three times as long as that took, and some seconds."""
PATIENCE = 4
"""So many times as long they have when they did not end in time, before the mutant counts as noticed."""
KILLED, SURVIVED, HUNG = "killed", "survived", "hung"


@dataclass(frozen=True)
class Verdict:
    """What the tests said of one mutant."""

    mutant: Mutant
    outcome: str


class Stage:
    """A copy of the package that mutants are written into, before all others on the path of the tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(PACKAGE, folder / "resurge", ignore=shutil.ignore_patterns("__pycache__"))

    @contextmanager
    def changed(self, module: str, source: str) -> Iterator[None]:
        """With this text for the module."""
        path = self._folder / "resurge" / f"{module}.py"
        before = path.read_text()
        path.write_text(source)
        try:
            yield
        finally:
            path.write_text(before)

    def outcome(self, tests: Sequence[str], limit_s: float) -> str:
        """Of the tests, as the package is now."""
        pid = os.fork()
        if pid == 0:
            self._test(tests)
        ended = os.pidfd_open(pid)
        in_time, _, _ = select.select([ended], [], [], limit_s)
        os.close(ended)
        if not in_time:
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        return HUNG if not in_time else SURVIVED if status == 0 else KILLED

    def _test(self, tests: Sequence[str]) -> None:
        code: int = 99
        try:
            os.setsid()
            sink = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(sink, descriptor)
            sys.dont_write_bytecode = True
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            os.environ["PYTHONPATH"] = os.pathsep.join((str(self._folder), os.getcwd()))
            sys.path.insert(0, str(self._folder))
            # what a mutant leaves unread is no fault of a test, and pytest makes one of it only where it is told to
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
        finally:
            os._exit(code)


def judged(module: str, mutants: Sequence[Mutant], tests: Sequence[str]) -> Iterator[Verdict]:
    """Each mutant's verdict. Raises RuntimeError when the tests fail without any."""
    assert not any(name == "resurge" or name.startswith("resurge.") for name in sys.modules), "it is to be loaded anew"
    with tempfile.TemporaryDirectory(prefix="resurge-mutants-") as name:
        stage = Stage(Path(name))
        began = time.monotonic()
        if stage.outcome(tests, FIRST_LIMIT_S) != SURVIVED:
            raise RuntimeError(f"the tests of {module} fail without a mutant: {' '.join(tests)}")
        limit_s = 5.0 + 3 * (time.monotonic() - began)
        for mutant in mutants:
            with stage.changed(module, mutant.source):
                outcome = stage.outcome(tests, limit_s)
                if outcome == HUNG:  # or the machine was busy just then
                    outcome = stage.outcome(tests, PATIENCE * limit_s)
            yield Verdict(mutant, outcome)
