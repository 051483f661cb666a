"""What workers print: whole lines with a prefix on the terminal, bytes as they are in files, and a tail."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resurge_launcher import output_files
from resurge_launcher.output import OWN_LINES_LIMIT, TAIL_BYTES, Funnel, OwnLines, Stream
from resurge_launcher.terminal import LINE_LIMIT_BYTES, Terminal, prefixed
from resurge_libs.testing import wait_until


@dataclass
class Screen:
    """Both outputs of a terminal as one file."""

    path: Path
    terminal: Terminal

    @property
    def text(self) -> bytes:
        return self.path.read_bytes()


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    descriptor = os.open(tmp_path / "screen", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    yield Screen(tmp_path / "screen", Terminal(descriptor, descriptor))
    os.close(descriptor)


def test_whole_lines_get_the_rank_and_unfinished_ones_wait(screen: Screen):
    screen.terminal.write(3, False, b"one\ntwo\nthr")
    assert screen.text == b"[rank 3] one\n[rank 3] two\n"
    screen.terminal.write(3, False, b"ee\n")
    assert screen.text.endswith(b"[rank 3] three\n")


def test_lines_of_two_ranks_are_not_mixed(screen: Screen):
    screen.terminal.write(0, False, b"step ")
    screen.terminal.write(1, False, b"other\n")
    screen.terminal.write(0, False, b"5\n")
    assert screen.text == b"[rank 1] other\n[rank 0] step 5\n"


def test_a_line_that_stays_unfinished_is_shown_and_goes_on(screen: Screen):
    screen.terminal.write(0, False, b"Password: ")
    screen.terminal.flush_unfinished()
    screen.terminal.write(0, False, b"ok\n")
    assert screen.text == b"[rank 0] Password: ok\n"


def test_another_rank_breaks_an_open_line(screen: Screen):
    screen.terminal.write(0, False, b"loading")
    screen.terminal.flush_unfinished()
    screen.terminal.write(1, False, b"x\n")
    screen.terminal.write(0, False, b" done\n")
    assert screen.text == b"[rank 0] loading\n[rank 1] x\n[rank 0]  done\n"


def test_progress_bars_keep_their_carriage_returns(screen: Screen):
    screen.terminal.write(0, True, b"\r 10%\r 20%\r")
    screen.terminal.end(0, True)
    assert screen.text == b"[rank 0] \r[rank 0]  10%\r[rank 0]  20%\r"


def test_windows_line_ends_are_one_line_end():
    assert prefixed(b"a\r\nb\r\n", b"> ") == b"> a\r\n> b\r\n"


def test_a_line_without_end_is_bounded(screen: Screen):
    screen.terminal.write(0, False, b"x" * (LINE_LIMIT_BYTES + 1))
    assert len(screen.text) > LINE_LIMIT_BYTES


def test_a_closed_terminal_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    terminal = Terminal(writer, writer)
    terminal.write(0, False, b"a\n")
    terminal.write(0, False, b"b\n")
    os.close(writer)


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_nothing_printed_is_lost_or_changed_but_for_prefixes(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
):
    path = tmp_path_factory.mktemp("t") / "screen"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    terminal = Terminal(descriptor, descriptor)
    for piece in pieces:
        terminal.write(7, False, piece)
    terminal.end(7, False)
    os.close(descriptor)
    shown = path.read_bytes().replace(b"[rank 7] ", b"")
    printed = b"".join(pieces).replace(b"[rank 7] ", b"")
    assert shown in (printed, printed + b"\n")


@pytest.fixture
def funnel(screen: Screen) -> Iterator[Funnel]:
    funnel = Funnel(screen.terminal)
    yield funnel
    funnel.close(5)


def feed(funnel: Funnel, stream: Stream, data: bytes) -> None:
    file = None
    if stream.file is not None:
        file = os.open(stream.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    writer = funnel.open(stream, file)
    os.write(writer, data)
    os.close(writer)
    wait_until(lambda: funnel.at_end(stream.generation, stream.rank))


def test_files_hold_the_bytes_as_they_are(funnel: Funnel, screen: Screen, tmp_path: Path):
    file = tmp_path / "stdout.log"
    feed(funnel, Stream(1, 2, False, file), b"\x00\xff raw\r\nline")
    assert file.read_bytes() == b"\x00\xff raw\r\nline"
    assert screen.text == b"[rank 2] \x00\xff raw\r\n[rank 2] line\n"


def test_a_redirected_stream_stays_off_the_terminal(funnel: Funnel, screen: Screen, tmp_path: Path):
    feed(funnel, Stream(1, 2, False, tmp_path / "f", to_terminal=False), b"quiet\n")
    assert screen.text == b"" and (tmp_path / "f").read_bytes() == b"quiet\n"


@pytest.mark.users_row(24)
def test_every_ranks_tail_is_kept_stderr_first(funnel: Funnel):
    feed(funnel, Stream(1, 0, False), b"out\n")
    assert funnel.tail(1, 0, 5) == ("out",)
    feed(funnel, Stream(1, 0, True), b"".join(b"line %d\n" % i for i in range(10_000)))
    assert funnel.tail(1, 0, 2) == ("line 9998", "line 9999")
    assert len("\n".join(funnel.tail(1, 0, 100_000))) <= TAIL_BYTES


def test_a_full_disk_costs_the_file_and_nothing_else(funnel: Funnel, screen: Screen):
    feed(funnel, Stream(1, 0, False, Path("/dev/full")), b"a\n")
    wait_until(lambda: b"no longer" in screen.text and b"[rank 0] a\n" in screen.text)


def test_the_launchers_own_lines_stand_between_workers_lines(funnel: Funnel, screen: Screen):
    writer = funnel.open(Stream(1, 0, False))
    os.write(writer, b"half")
    wait_until(lambda: b"half" in screen.text)
    OwnLines(funnel).write("12:00 resurge fault\n")
    wait_until(lambda: b"fault" in screen.text)
    os.close(writer)
    assert screen.text == b"[rank 0] half\n12:00 resurge fault\n"


def test_a_terminal_that_blocks_does_not_block_the_launcher():
    reader, writer = os.pipe()
    funnel = Funnel(Terminal(writer, writer))
    for _ in range(2 * OWN_LINES_LIMIT):
        funnel.say("x" * 100 + "\n")
    os.close(reader)
    funnel.close(5)
    os.close(writer)


def test_a_disk_that_hangs_costs_the_files_and_stops_no_worker_that_prints(
    funnel: Funnel, screen: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output_files, "STALL_LIMIT_S", 0.2)
    monkeypatch.setattr(output_files, "QUEUE_BYTES", 64 * 1024)
    back, held = threading.Event(), tmp_path / "held"
    genuine = os.write

    def write(descriptor: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}") == str(held):
            back.wait(30)
        return genuine(descriptor, data)

    monkeypatch.setattr("os.write", write)
    writer = funnel.open(Stream(1, 0, False, held), os.open(held, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    printed = b"x" * 99 + b"\n"
    for _ in range(10_000):  # blocks for ever where the funnel does
        genuine(writer, printed)
    os.close(writer)
    try:
        wait_until(lambda: funnel.at_end(1, 0), 20)
        assert funnel.tail(1, 0, 1) == ("x" * 99,)
        assert screen.text.count(b"has not answered for 0.2 s") == 1 and str(held).encode() in screen.text
    finally:
        back.set()
    wait_until(lambda: b"answers again" in screen.text)
    wait_until(lambda: held.exists() and held.read_bytes().endswith(printed))
    assert len(held.read_bytes()) < 10_000 * len(printed)


def test_a_slow_disk_slows_the_worker_and_loses_nothing(
    funnel: Funnel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output_files, "QUEUE_BYTES", 1_000)
    genuine = os.write

    def write(descriptor: int, data: bytes) -> int:
        return genuine(descriptor, data[:700])

    file = tmp_path / "slow"
    monkeypatch.setattr("os.write", write)
    writer = funnel.open(Stream(1, 0, False, file, to_terminal=False), os.open(file, os.O_WRONLY | os.O_CREAT))
    for number in range(2_000):
        genuine(writer, b"%06d\n" % number)
    os.close(writer)
    wait_until(lambda: funnel.at_end(1, 0), 20)
    assert file.read_bytes() == b"".join(b"%06d\n" % number for number in range(2_000))
