"""A node's spool: what is sent, in which order, what is given up, and that nothing is sent twice or skipped."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from resurge_launcher.logs import backlog as backlog_module
from resurge_launcher.logs import spool
from resurge_launcher.logs.backlog import Backlog, Piece, SpoolRules
from resurge_launcher.logs.spool import SpoolNote

ROOMY = SpoolRules(limit_bytes=1 << 40, reserve_bytes=0)


def note(rank: int = 0, generation: int = 1, cycle: int = 0) -> SpoolNote:
    return SpoolNote("job", "n0", 0, generation, cycle, rank, 2, incarnation=7)


class Worker:
    """Writes as a worker does: straight into the file."""

    def __init__(self, folder: Path, of: SpoolNote) -> None:
        self.descriptor = spool.open_for_worker(folder, of)

    def write(self, data: bytes) -> None:
        os.write(self.descriptor, data)


def ready(folder: Path, rules: SpoolRules = ROOMY) -> Backlog:
    backlog = Backlog(folder, rules)
    backlog.scan()
    for name in backlog.sources:
        backlog.go_on_from(name, 0)
    return backlog


def sent(backlog: Backlog, limit: int = 1 << 20) -> list[Piece]:
    backlog.scan()
    return list(backlog.pieces(limit))


def test_what_is_written_is_sent_once_and_the_end_with_it(tmp_path):
    worker = Worker(tmp_path, note())
    backlog = ready(tmp_path)
    worker.write(b"one\ntw")
    assert [(p.offset, p.length, p.text) for p in sent(backlog)] == [(0, 4, b"0: one\n")]
    assert sent(backlog) == []
    worker.write(b"o\n")
    spool.end_generation(tmp_path, 1)
    (last,) = sent(backlog)
    assert (last.offset, last.text, last.ends) == (4, b"0: two\n", True)
    assert sent(backlog) == []
    backlog.durable(note().name, 8, ended=True)
    assert list(tmp_path.iterdir()) == []


def test_an_end_without_a_word_is_sent(tmp_path):
    Worker(tmp_path, note())
    backlog = ready(tmp_path)
    spool.end_generation(tmp_path, 1)
    assert [(p.length, p.ends) for p in sent(backlog)] == [(0, True)]


def test_last_words_of_the_dead_go_first(tmp_path):
    for rank in (0, 1):
        Worker(tmp_path, note(rank)).write(b"x\n")
    dead = Worker(tmp_path, note(1, generation=2, cycle=1))
    dead.write(b"Traceback\n")
    (tmp_path / (note(1, generation=2, cycle=1).name + spool.END)).touch()
    assert [(p.note.cycle, p.note.rank) for p in sent(ready(tmp_path))] == [(1, 1), (0, 0), (0, 1)]


def test_after_a_break_it_goes_on_where_the_other_side_says(tmp_path):
    worker = Worker(tmp_path, note())
    worker.write(b"one\ntwo\n")
    backlog = ready(tmp_path)
    sent(backlog)
    backlog.forget_progress()
    assert sent(backlog) == []
    backlog.go_on_from(note().name, 4)
    assert [p.text for p in sent(backlog)] == [b"0: two\n"]


def test_a_line_of_ten_megabytes_goes_in_parts_that_say_so(tmp_path):
    worker = Worker(tmp_path, note())
    line = b"x" * 10_000_000 + b"\n"
    worker.write(b"short\n")
    with (tmp_path / (note().name + spool.OUT)).open("ab") as file:
        file.write(line + b"after\n")
    pieces = sent(ready(tmp_path), 1 << 30)
    assert max(len(piece.text) for piece in pieces) < 1 << 20
    text = b"".join(piece.text for piece in pieces).replace(b"\n0: [resurge: the line goes on] ", b"")
    assert text == b"0: short\n0: " + line + b"0: after\n"


def test_what_is_durable_is_given_back_to_the_disk(tmp_path):
    worker = Worker(tmp_path, note())
    line = b"y" * 1023 + b"\n"
    for _ in range(3 * 1024):
        worker.write(line)
    backlog = ready(tmp_path)
    while sent(backlog):
        pass
    path = tmp_path / (note().name + spool.OUT)
    before = path.stat().st_blocks
    backlog.durable(note().name, 3 * 1024 * 1024 - 5, ended=False)
    if path.stat().st_blocks == before:
        pytest.skip(f"the file system of {tmp_path} makes no holes")
    assert path.stat().st_blocks <= before // 2
    worker.write(b"more\n")
    assert [p.text for p in sent(backlog)] == [b"0: more\n"]


def read_all(backlog: Backlog) -> tuple[bytes, int, int]:
    text, gap_bytes, gap_lines = b"", 0, 0
    while pieces := sent(backlog):
        for piece in pieces:
            text += piece.text
            gap_bytes, gap_lines = gap_bytes + piece.gap_bytes, gap_lines + piece.gap_lines
    return text, gap_bytes, gap_lines


def test_over_its_limit_the_spool_gives_up_the_oldest_and_says_how_much(tmp_path, monkeypatch):
    monkeypatch.setattr(backlog_module, "GIVE_UP_BYTES", 100)
    worker = Worker(tmp_path, note())
    for number in range(100):
        worker.write(b"line %03d\n" % number)
    backlog = ready(tmp_path, SpoolRules(limit_bytes=450, reserve_bytes=0))
    backlog.make_room()
    text, gap_bytes, gap_lines = read_all(backlog)
    first, *rest = text.splitlines()
    assert b"are missing here: the spool held 900 bytes, 450 are allowed" in first or b"450 are allowed" in first
    assert len(rest) == 100 - gap_lines and rest[-1] == b"0: line 099"
    assert (gap_bytes, gap_lines) == (gap_lines * 9, 55)


def test_what_was_given_up_is_known_to_the_next_sender_and_after_a_break(tmp_path, monkeypatch):
    monkeypatch.setattr(backlog_module, "GIVE_UP_BYTES", 90)
    worker = Worker(tmp_path, note())
    for number in range(100):
        worker.write(b"line %03d\n" % number)
    backlog = ready(tmp_path, SpoolRules(limit_bytes=800, reserve_bytes=0))
    backlog.forget_progress()  # nobody to send to
    backlog.make_room()
    for again in (backlog, Backlog(tmp_path, ROOMY)):
        again.scan()
        again.forget_progress()
        again.go_on_from(note().name, 0)
        text, gap_bytes, gap_lines = read_all(again)
        assert (gap_bytes, gap_lines) == (180, 20)
        assert b"<NUL>" not in text and text.count(b"\n") == 81


def test_room_is_made_by_the_longest_backlog(tmp_path, monkeypatch):
    monkeypatch.setattr(backlog_module, "GIVE_UP_BYTES", 10)
    Worker(tmp_path, note(0)).write(b"short\n")
    Worker(tmp_path, note(1)).write(b"long line\n" * 100)
    backlog = ready(tmp_path, SpoolRules(limit_bytes=500, reserve_bytes=0))
    backlog.make_room()
    assert [bool(source.gone) for source in backlog.sources.values() if source.note.rank == 0] == [False]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_breaks_each_line_is_sent_once_or_counted_as_given_up(tmp_path, monkeypatch, seed):
    chance = random.Random(seed)
    monkeypatch.setattr(backlog_module, "GIVE_UP_BYTES", 64)
    worker = Worker(tmp_path, note())
    rules = SpoolRules(limit_bytes=chance.choice((200, 1_000, 1 << 30)), reserve_bytes=0)
    backlog = ready(tmp_path, rules)
    there, written, gap_lines = b"", 0, 0  # what the other side has, and how far of the source that is

    def take(limit: int) -> None:
        nonlocal there, written, gap_lines
        for piece in sent(backlog, limit):
            assert piece.offset == written
            there, written, gap_lines = there + piece.text, written + piece.length, gap_lines + piece.gap_lines

    for number in range(300):
        worker.write(b"line %d" % number + b"\n")
        match chance.randrange(5):
            case 0:
                take(chance.randrange(1, 400))
            case 1:
                backlog.durable(note().name, written, ended=False)
            case 2:
                backlog.scan()
                backlog.make_room()
            case 3:
                backlog.forget_progress()
                if chance.random() < 0.5:
                    backlog.close()
                    backlog = Backlog(tmp_path, rules)
                    backlog.scan()
                backlog.go_on_from(note().name, written)
            case _:
                pass
    spool.end_generation(tmp_path, 1)
    for _ in range(50):
        take(1 << 20)
    lines = [int(line.split()[-1]) for line in there.splitlines() if b"resurge" not in line]
    assert lines == sorted(set(lines))
    assert len(lines) + gap_lines == 300


def test_thousands_of_sources_need_few_descriptors_and_one_look_each(tmp_path, monkeypatch):
    notes = [note(rank, generation, generation) for generation in range(1, 31) for rank in range(8)]
    for number, one in enumerate(notes):
        worker = Worker(tmp_path, one)
        worker.write(b"line %d\n" % number)
        os.close(worker.descriptor)
    monkeypatch.setattr(backlog_module, "OPEN_MAX", 4)
    reads = []
    monkeypatch.setattr(
        spool, "read_note", lambda folder, name, real=spool.read_note: reads.append(name) or real(folder, name)
    )
    before = len(os.listdir("/proc/self/fd"))
    backlog = ready(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before, "what waits needs none"
    assert len(sent(backlog)) == len(notes) == len(reads)
    assert len(os.listdir("/proc/self/fd")) <= before + 4
    spool.end_generation(tmp_path, 31)
    for piece in sent(backlog):
        backlog.durable(piece.note.name, piece.offset + piece.length, piece.ends)
    assert list(tmp_path.iterdir()) == [] and len(os.listdir("/proc/self/fd")) == before


def test_a_file_taken_away_by_hand_harms_no_other(tmp_path):
    for rank in (0, 1):
        Worker(tmp_path, note(rank)).write(b"line\n")
    backlog = ready(tmp_path)
    (tmp_path / (note(0).name + spool.OUT)).unlink()
    assert [piece.text for piece in sent(backlog)] == [b"1: line\n"]
