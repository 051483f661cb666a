"""What a sender leaves about lines that are held back is said by the launcher: once, and as it stands at the end."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_launcher.logs.desk import SpoolDesk
from resurge_launcher.logs.trouble import SAID_MAX, TroubleWatch, leave, left
from resurge_libs.obs import log

SENTENCE = "/logs/app_cycle0.log cannot be opened: Read-only file system"


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    log.configure()


def looks(folder: Path, *steps: str | None) -> None:
    """One look after each of these is left; None: nothing new is left."""

    async def run() -> None:
        watch = TroubleWatch(folder, SpoolDesk())
        for sentence in steps:
            if sentence is not None:
                leave(folder, sentence)
            await watch.look()

    asyncio.run(run())


def test_each_is_said_once_however_often_it_comes_back(tmp_path, said):
    looks(tmp_path, SENTENCE, None, "", SENTENCE, "another")
    lines = said.getvalue().splitlines()
    assert len(lines) == 2 and SENTENCE in lines[0] and "another" in lines[1]
    assert f"Training goes on; lines wait in {tmp_path}" in lines[0]


def test_nothing_is_said_where_nothing_was_left_or_the_spool_is_gone(tmp_path, said):
    looks(tmp_path, None)
    looks(tmp_path / "gone", SENTENCE)
    assert said.getvalue() == "" and left(tmp_path / "gone") == ""


def test_so_many_and_no_more(tmp_path, said):
    looks(tmp_path, *(f"trouble {number}" for number in range(SAID_MAX + 3)))
    assert len(said.getvalue().splitlines()) == SAID_MAX


def test_the_end_comes_with_a_last_look_and_the_start_forgets_what_an_earlier_sender_met(tmp_path, said):
    leave(tmp_path, "of an earlier one")

    async def run() -> None:
        desk = SpoolDesk()
        watch = TroubleWatch(tmp_path, desk)
        watch.start()
        await desk.ask(lambda: leave(tmp_path, SENTENCE), 30)
        await watch.stop()

    asyncio.run(run())
    assert SENTENCE in said.getvalue() and "earlier" not in said.getvalue()
