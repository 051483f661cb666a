"""Runs a module's tests against its mutants: each in a process of its own that has pytest imported already.

A mutant is killed when a test fails or the process dies of it. Where they do not end in time it counts as noticed too.
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
FIRST_LIMIT_S = 300.0
"""Of the tests without a mutant."""
LEAST_LIMIT_S, TIMES = 60.0, 3
"""Of the tests with one: so many times what they took without, or this if it is longer."""
KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed_out"


@dataclass(frozen=True)
class Verdict:
    """What the tests said of one mutant."""

    mutant: Mutant
    outcome: str


def limit_s(unmutated_s: float) -> float:
    """How long tests may take that took this long without a mutant."""
    return max(LEAST_LIMIT_S, TIMES * unmutated_s)


class Stage:
    """A copy of the package that a module's mutants are written into, before all others on the path of the tests."""

    def __init__(self, folder: Path, module: str, tests: Sequence[str]) -> None:
        self._folder, self._module, self._tests = folder, module, tests
        self._limit_s = 0.0
        shutil.copytree(PACKAGE, folder / "resurge", ignore=shutil.ignore_patterns("__pycache__"))

    def judge(self, mutant: Mutant) -> str:
        """Its outcome. Raises RuntimeError when the tests fail without any."""
        self._limit_s = self._limit_s or self._limit_now_s()
        outcome = self._outcome_of(mutant)
        if outcome == TIMED_OUT and (now_s := self._limit_now_s()) > self._limit_s:  # the machine has become slower
            self._limit_s = now_s
            outcome = self._outcome_of(mutant)
        return outcome

    def _outcome_of(self, mutant: Mutant) -> str:
        with self._changed(mutant.source):
            return self._outcome(self._limit_s)

    def _limit_now_s(self) -> float:
        began = time.monotonic()
        if self._outcome(FIRST_LIMIT_S) != SURVIVED:
            raise RuntimeError(f"the tests of {self._module} fail without a mutant: {' '.join(self._tests)}")
        return limit_s(time.monotonic() - began)

    @contextmanager
    def _changed(self, source: str) -> Iterator[None]:
        path = self._folder / "resurge" / f"{self._module}.py"
        before = path.read_text()
        path.write_text(source)
        try:
            yield
        finally:
            path.write_text(before)

    def _outcome(self, limit_s: float) -> str:
        """Of the tests, as the package is now."""
        pid = os.fork()
        if pid == 0:
            self._test()
        ended = os.pidfd_open(pid)
        in_time, _, _ = select.select([ended], [], [], limit_s)
        os.close(ended)
        if not in_time:
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        return TIMED_OUT if not in_time else SURVIVED if status == 0 else KILLED

    def _test(self) -> None:
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
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *self._tests]))
        finally:
            os._exit(code)


def judged(module: str, mutants: Sequence[Mutant], tests: Sequence[str]) -> Iterator[Verdict]:
    """Each mutant's verdict, as the tests give it now. Raises RuntimeError when they fail without any."""
    assert not any(name == "resurge" or name.startswith("resurge.") for name in sys.modules), "it is to be loaded anew"
    with tempfile.TemporaryDirectory(prefix="resurge-mutants-") as name:
        stage = Stage(Path(name), module, tests)
        for mutant in mutants:
            yield Verdict(mutant, stage.judge(mutant))
