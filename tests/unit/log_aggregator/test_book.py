"""A sender that has gone while its file was being opened takes no source away from the one that came after it."""

from __future__ import annotations

import asyncio

from resurge_log_aggregator.book import Book, Places
from resurge_log_aggregator.core.model import BlockHead, LogKind, SourceKey
from resurge_log_aggregator.writer import WriterRules

KEY = SourceKey(LogKind.APPLICATION, 1, 0, 1, 0, "n0", 1)


class Sender:
    def __init__(self) -> None:
        self.told: list[int | None] = []

    def ack(self, key, state, go_on_from=None) -> None:
        self.told.append(go_on_from)

    def trouble(self, sentence) -> None: ...

    def refuse(self, problem) -> None: ...

    def paced(self, gather_s, at_once) -> None: ...


async def test_who_has_gone_before_the_file_was_open_is_not_heard_in_place_of_a_later_one(monkeypatch):
    book = Book(Places(None, None), WriterRules(), "job")
    first, later, is_open = Sender(), Sender(), asyncio.Event()

    async def slow(key):
        await is_open.wait()

    monkeypatch.setattr(book, "_file", slow)
    book.listen(later)
    coming = asyncio.create_task(book.open_source(KEY, 1, later))
    await asyncio.sleep(0)
    book.listen(first)
    late = asyncio.create_task(book.open_source(KEY, 1, first))
    await asyncio.sleep(0)
    book.forget(first)
    is_open.set()
    await asyncio.wait_for(asyncio.gather(coming, late), 20)
    book.take(KEY, BlockHead(99, 2, 2, 1, False), b"a\n", 0.0)
    assert (first.told, later.told) == ([], [0, 0])
