"""Whatever happens to a journal's files, what is replayed is what was written, without a gap, from the beginning or
from a snapshot; and whatever was answered before a crash is in the replay after it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resurge_libs.engine import sqlite_file
from resurge_libs.engine.ports import JournalUnusable, Snapshot
from resurge_libs.engine.replay import restore
from resurge_libs.engine.sqlite_journal import SqliteJournal
from tests.integration.libs.journal_writer import entry
from tests.unit.libs.engine_bench import Add, Added, Adder, Bench, Look, Refuse, SlowJournal, Total, turns

COUNT, SNAPSHOT_AT = 60, 40


@pytest.fixture(scope="module")
def closed():
    """The files of a journal that was closed, so that all is in its main file."""
    with tempfile.TemporaryDirectory() as name:
        made(Path(name)).close()
        yield Path(name)


@pytest.fixture(scope="module")
def crashed():
    """The files of a journal whose process died, so that much is in its write-ahead log."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as copy:
        journal = made(Path(name))
        for file in Path(name).glob("journal.sqlite*"):
            if not file.name.endswith("-shm"):
                shutil.copyfile(file, Path(copy) / file.name)
        journal.close()
        yield Path(copy)


def made(directory: Path) -> SqliteJournal:
    journal = SqliteJournal(directory, "job")
    for n in range(1, COUNT + 1):
        journal.append([entry(n)]).result()
        if n == SNAPSHOT_AT:
            journal.snapshot(Snapshot(n, b"state", b"digest")).result()
    return journal


def check_what_is_left(directory: Path) -> None:
    try:
        journal = SqliteJournal(directory, "job")
    except JournalUnusable as refused:
        assert str(directory) in str(refused)
        return
    replay = journal.replay()
    first = replay.snapshot.seq + 1 if replay.snapshot else 1
    assert replay.snapshot in (None, Snapshot(SNAPSHOT_AT, b"state", b"digest"))
    assert replay.entries == tuple(entry(n) for n in range(first, first + len(replay.entries)))
    if replay.damage is not None:
        assert replay.damage.last_whole_seq == replay.last_seq
    last = replay.last_seq
    journal.append([entry(last + 1)]).result()
    journal.close()
    journal = SqliteJournal(directory, "job")
    assert journal.replay().last_seq == last + 1 and journal.replay().damage is None
    journal.close()


def harmed(source: Path, suffix: str, cut: float | None, flips: list[tuple[float, int]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        for file in source.glob("journal.sqlite*"):
            shutil.copyfile(file, Path(name) / file.name)
        path = Path(name) / f"{sqlite_file.FILE_NAME}{suffix}"
        data = bytearray(path.read_bytes())
        if cut is not None:
            del data[int(cut * len(data)) :]
        for at, bits in flips:
            if data:
                data[int(at * (len(data) - 1))] ^= bits
        path.write_bytes(data)
        check_what_is_left(Path(name))


share = st.floats(0, 1)
flips = st.lists(st.tuples(share, st.integers(1, 255)), max_size=3)


@settings(max_examples=60)
@given(cut=st.one_of(st.none(), share), flips=flips)
@example(cut=0.5, flips=[])
@example(cut=0.0, flips=[])
def test_a_harmed_file_is_never_replayed_wrongly(closed, cut, flips):
    harmed(closed, "", cut, flips)


@settings(max_examples=60)
@given(cut=st.one_of(st.none(), share), flips=flips)
@example(cut=0.5, flips=[])
def test_a_harmed_log_is_never_replayed_wrongly(crashed, cut, flips):
    harmed(crashed, "-wal", cut, flips)


events = st.lists(st.sampled_from([Add(1), Add(2), Add(3), Look(), Refuse()]), min_size=1, max_size=12)


@given(asked=events, together=st.integers(1, 4), written=st.integers(0, 12))
def test_what_was_answered_is_in_the_replay(asked, together, written):
    async def crash_after_some_writes() -> None:
        journal = SlowJournal()
        bench = Bench(journal)
        replies = []
        for number, event in enumerate(asked):
            replies.append(bench.engine.ask(event))
            if number % together == 0:
                await turns(3)
        await turns(3)
        for _ in range(min(written, len(journal.waiting))):
            journal.write_next()
        await turns(3)
        known = [r.result() for r in replies if r.done() and r.exception() is None]
        restored = restore(Adder(), Total(), journal.replay(), Added, verify_each=True)
        assert restored.durable.value >= max(known, default=0)
        assert restored.durable == bench.engine.published.durable
        for reply in replies:
            reply.cancel()

    asyncio.run(crash_after_some_writes())
