"""The messages of the fork server, and when there is none."""

from __future__ import annotations

import os
import random
import zipfile
from pathlib import Path

import pytest

from resurge_launcher.commands import values
from resurge_launcher.settings import Entry, EntryKind
from resurge_launcher.warm import orders
from resurge_launcher.warm.chance import Chance
from resurge_launcher.warm.inherited import order_for
from resurge_launcher.warm.plan import why_never_warm


@pytest.mark.parametrize(
    "message",
    [
        orders.Ready((orders.Preloaded("torch", 1.5), orders.Preloaded("x", 0.0, "ImportError: y"))),
        orders.Unfit("why"),
        orders.Born((3, 4)),
        orders.Refused("ü\ud800"),
        orders.Ack(7),
        orders.Ack(7, "why not"),
    ],
)
def test_a_message_comes_back_as_it_was(message: orders.Message):
    assert orders.decoded(orders.encoded(message)) == message


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"kind": "Ack"}', b'{"kind": "Nothing"}', b"\xff", b"3"])
def test_anything_else_is_refused(data: bytes):
    with pytest.raises(ValueError):
        orders.decoded(data)


def test_a_long_sentence_fits_into_a_message():
    assert len(orders.encoded(orders.Refused("x" * 10**6))) < orders.MESSAGE_BYTES


def test_an_order_comes_back_as_it_was():
    order = order_for([{"A": "1", "ODD": "\udcff"}, {"B": "x" * 10**6}])
    descriptor = order.to_memory_file()
    try:
        found = orders.Order.from_memory_file(descriptor)
    finally:
        os.close(descriptor)
    assert found == order and found.launcher_pid == os.getpid()


def test_who_is_never_forked(tmp_path: Path):
    script, archive = tmp_path / "t.py", tmp_path / "t.pyz"
    script.write_text("")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("__main__.py", "")
    why = {
        "script": why_never_warm(Entry(EntryKind.SCRIPT, str(script)), "py", "py"),
        "module": why_never_warm(Entry(EntryKind.MODULE, "a.b"), "py", "py"),
        "program": why_never_warm(Entry(EntryKind.PROGRAM, "bash"), "py", "py"),
        "other": why_never_warm(Entry(EntryKind.SCRIPT, str(script)), "py", "py2"),
        "archive": why_never_warm(Entry(EntryKind.SCRIPT, str(archive)), "py", "py"),
        "compiled": why_never_warm(Entry(EntryKind.SCRIPT, "t.pyc"), "py", "py"),
    }
    assert [name for name, sentence in why.items() if not sentence] == ["script", "module"]


def test_modules_are_named_as_imports_name_them():
    assert values.modules(" numpy , a.b,") == ("numpy", "a.b")
    with pytest.raises(values.Wrong):
        values.modules("a-b")


def test_a_seed_set_on_purpose_is_kept():
    before = random.getstate()
    try:
        chance = Chance()
        random.seed(5)
        chance.settle()
        expected = random.random()
        random.seed()  # as Python does in a forked child
        chance.renew()
        assert random.random() == expected
    finally:
        random.setstate(before)
