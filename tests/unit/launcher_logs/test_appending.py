"""Every node appends by itself: what was appended is known whatever becomes of the note of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resurge_launcher.logs import appending, spool
from resurge_launcher.logs.appending import SENT, Appender
from resurge_launcher.logs.backlog import SpoolRules
from resurge_launcher.logs.spool import SpoolNote

NOTE = SpoolNote("job", "n0", 0, 1, 0, 0, 1, incarnation=7)
RULES = SpoolRules(limit_bytes=1 << 40, reserve_bytes=0)
LINES = 60_000
"""About three mebibytes: more than is punched at a time."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    descriptor = spool.open_for_worker(tmp_path / "spool", NOTE)
    os.write(descriptor, b"".join(b"line %07d of the worker, some text to make it long\n" % n for n in range(LINES)))
    os.close(descriptor)
    spool.end_generation(tmp_path / "spool", 1)
    spool.close(tmp_path / "spool")
    return tmp_path / "spool"


def lines(folder: Path) -> list[bytes]:
    return (folder.parent / "app_cycle0.log").read_bytes().splitlines()


def test_all_is_appended_and_nothing_is_left(folder):
    assert Appender(folder, folder.parent / "app.log", RULES).run() == 0
    assert len(lines(folder)) == LINES and [item.name for item in folder.iterdir()] == [spool.CLOSING]


class Ended(Exception):
    """The process ends here."""


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch, rounds: int) -> int:
    """Let a sender append so many parts, and end it before it notes the next one; how many lines it appended."""
    left = iter(range(rounds))
    real = appending._append

    def append(path: Path, text: bytes) -> None:
        if next(left, None) is None:
            raise Ended
        real(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(appending, "_append", append)
        with pytest.raises(Ended):
            Appender(folder, folder.parent / "app.log", RULES).run()
    return len(lines(folder))


def test_the_next_sender_goes_on_where_the_last_one_was(folder, monkeypatch):
    assert 0 < interrupted(folder, monkeypatch, 3) < LINES
    Appender(folder, folder.parent / "app.log", RULES).run()
    assert len(set(lines(folder))) == len(lines(folder)) == LINES


def test_a_note_that_is_lost_never_brings_back_what_was_punched(folder, monkeypatch):
    interrupted(folder, monkeypatch, 7)
    (folder / (NOTE.name + SENT)).write_text("")  # as a sender of an earlier release may have left it
    Appender(folder, folder.parent / "app.log", RULES).run()
    text = lines(folder)
    assert len({line for line in text if b": line" in line}) == LINES and not any(b"NUL" in line for line in text)
    assert len(text) < LINES + LINES // 2, "only what was not punched yet comes again"


def test_while_the_note_cannot_be_written_progress_is_kept_and_the_note_is_named(folder, monkeypatch, capsys):
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool, "write_whole", full)
    assert Appender(folder, folder.parent / "app.log", RULES).run() == 0
    assert len(lines(folder)) == LINES
    told = capsys.readouterr().err
    assert f"{folder / (NOTE.name + SENT)} cannot be written: No space left" in told
