"""Whoever stops reading ends a command quietly, as `head` does to any other program."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_host.targets import TARGETS
from resurge_launcher.cli import main
from resurge_libs.hosting.command import host_command
from resurge_libs.obs import outlets
from resurge_libs.obs.outlets import EXIT_READER_LEFT, ReaderLeft, reader_may_leave, settled
from resurge_libs.rpc.records import append_recovery, write_job
from tests.recovery_sample import all_three

LIMIT_S = 50


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    directory = tmp_path / "state"
    directory.mkdir()
    for record in all_three():
        append_recovery(directory, record)
    write_job(directory, rendezvous_pb2.Job(phase=rendezvous_pb2.JOB_PHASE_RUNNING))
    return directory


@contextlib.contextmanager
def nobody_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard output as a pipe that nobody reads any more."""
    reads, writes = os.pipe()
    os.close(reads)
    with io.TextIOWrapper(os.fdopen(writes, "wb", 0), encoding="utf-8", write_through=True) as stream:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stream)
            yield


@pytest.mark.parametrize(
    "words",
    [("status",), ("nodes",), ("recoveries",), ("recoveries", "--json"), ("explain",)],
    ids=" ".join,
)
def test_commands_that_show_records(capfd, monkeypatch: pytest.MonkeyPatch, state: Path, words: tuple[str, ...]):
    with nobody_reads(monkeypatch):
        assert main([*words, "--state-dir", str(state)]) == EXIT_READER_LEFT
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("logs", "--help"), ()], ids=" ".join)
def test_help(capfd, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]):
    with nobody_reads(monkeypatch):
        assert main(list(words)) == EXIT_READER_LEFT
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("words", [("--help",), ("--print-config",)], ids=" ".join)
def test_the_program_that_serves(capfd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]):
    serve = host_command("resurge-host", TARGETS, "Serve.")
    with nobody_reads(monkeypatch), pytest.raises(SystemExit) as leave:
        serve.main([*words, "--state-dir", str(tmp_path)])
    assert leave.value.code == EXIT_READER_LEFT and capfd.readouterr() == ("", "")


def merging(folder: Path, lines: int) -> subprocess.Popen[bytes]:
    (folder / "a.log").write_text("".join(f"0: line {number} of many\n" for number in range(lines)))
    command = [sys.executable, "-m", "resurge_launcher", "logs", "merge", str(folder / "a.log")]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("lines, code", [(100_000, EXIT_READER_LEFT), (1, 0)], ids=["long", "short"])
def test_a_whole_program_whose_reader_leaves(tmp_path: Path, lines: int, code: int):
    with merging(tmp_path, lines) as program:
        assert program.stdout is not None and program.stderr is not None
        if lines > 1:
            assert program.stdout.read(8) == b"0: line "
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.wait(LIMIT_S) == code, "what was all done and only not read keeps its code"


def test_a_connection_of_our_own_that_broke_is_not_taken_for_it():
    with pytest.raises(RuntimeError, match="connection"), reader_may_leave():
        raise BrokenPipeError(errno.EPIPE, "broken")


def test_another_end_stays_what_it_was(monkeypatch: pytest.MonkeyPatch):
    with nobody_reads(monkeypatch):
        with pytest.raises(SystemExit) as leave, reader_may_leave():
            sys.exit(3)
        with pytest.raises(ReaderLeft), reader_may_leave():
            print("hello")
    assert leave.value.code == 3


def test_a_full_disk_is_said(capsys, monkeypatch: pytest.MonkeyPatch):
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(outlets.sys, "stdout", Full())
    assert settled(0) == 1 and settled(93) == 93
    assert "resurge: the output cannot be written: No space left on device\n" in capsys.readouterr().err
