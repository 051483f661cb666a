"""Whose journal it is: named or not, a directory serves one job, and damage is said."""

import sqlite3
from dataclasses import fields, is_dataclass, make_dataclass
from hashlib import sha256
from typing import get_args, get_type_hints

import pytest

from resurge_libs.core import codec
from resurge_libs.core.ids import RequestId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.engine.memory_journal import MemoryJournal
from resurge_libs.engine.ports import Entry, FactRecord
from resurge_libs.hosting.usage import UsageError
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.job import Job
from resurge_rendezvous.core.model import OrderTaken
from resurge_rendezvous.core.step import RULES_VERSION, RendezvousMachine
from resurge_rendezvous.core.store import answer_to
from resurge_rendezvous.journal import open_journal, restored


def reopened(path, job_id):
    journal = open_journal(path, job_id)
    journal.close()
    with sqlite3.connect(path / "journal.sqlite") as db:
        return db.execute("SELECT value FROM meta WHERE name = 'job'").fetchone()[0]


def test_a_journal_made_for_a_job_is_opened_without_its_name_and_not_under_another(tmp_path):
    assert reopened(tmp_path, "mine") == "mine"
    assert reopened(tmp_path, "") == "mine"
    with pytest.raises(UsageError, match="'mine'") as refused:
        open_journal(tmp_path, "yours")
    assert refused.value.field == "--state-dir"
    assert reopened(tmp_path, "mine") == "mine"


def test_a_journal_made_for_no_job_leaves_the_word_to_its_facts(tmp_path):
    assert reopened(tmp_path, "") == ""
    assert reopened(tmp_path, "mine") == ""


def test_a_journal_that_lost_its_end_is_taken_up_where_it_is_whole(capsys):
    journal = MemoryJournal()
    journal.lose_last(0)
    found = restored(RendezvousMachine(), journal, "mine")
    assert (found.last_seq, found.durable.spec) == (0, None)


def test_a_directory_on_a_path_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        open_journal(tmp_path / "file" / "x", "")


def test_orders_that_an_earlier_release_took_are_read_and_repeats_of_them_are_still_known():
    body = codec.encode(f.RequestAnswered(RequestId("r"), OrderTaken())).replace(b'"order":"","warning":""', b"")
    assert b"order" not in body
    journal = MemoryJournal()
    record = FactRecord("RequestAnswered", body)
    journal.append([Entry(1, Wall(0.0), "ExcludeAsked", Because(Reason.EXCLUDED), (record,), b"\1" * 32)])
    found = restored(RendezvousMachine(), journal, "")
    assert found.rules_version == 1 < RULES_VERSION
    assert answer_to(found.durable, RequestId("r"), OrderTaken) == OrderTaken("")


def as_it_was_before_ranks_were_replaced(job):
    """The same durable state as the release of rules version 5 held it."""
    hints = get_type_hints(Job)
    names = [item.name for item in fields(Job) if item.name != "replaced"]
    earlier = make_dataclass("Job", [(name, hints[name]) for name in names], frozen=True)
    return earlier(*(getattr(job, name) for name in names))


def test_a_journal_of_the_release_before_fresh_processes_is_taken_up_although_its_digests_are_others():
    fact = f.RequestAnswered(RequestId("r"), OrderTaken(""))
    durable = RendezvousMachine().evolve(Job(), fact)
    recorded = codec.digest(as_it_was_before_ranks_were_replaced(durable))
    assert recorded != codec.digest(durable)
    journal = MemoryJournal()
    record = FactRecord("RequestAnswered", codec.encode(fact))
    journal.append([Entry(1, Wall(0.0), "ExcludeAsked", Because(Reason.EXCLUDED), (record,), recorded, 5)])
    assert restored(RendezvousMachine(), journal, "").durable == durable


def shape_of(root):
    """The classes of a durable state, and what each writes: its fields in their order."""
    found, left = {}, [root]
    while left:
        kind = left.pop()
        left += get_args(kind)
        if isinstance(kind, type) and is_dataclass(kind) and kind not in found:
            hints = get_type_hints(kind)
            found[kind] = [item.name for item in fields(kind) if item.init]
            left += [hints[name] for name in found[kind]]
    return sorted((kind.__name__, names) for kind, names in found.items())


SHAPES = {6: "8321f1afc9d38b38"}
"""Of each rules version since the shape is pinned."""


def test_a_durable_state_of_another_shape_has_another_rules_version():
    found = sha256(repr(shape_of(Job)).encode()).hexdigest()[:16]
    assert SHAPES.get(RULES_VERSION) == found, (
        "a field that is added to the durable state, or taken from it, changes the digest of each state, also where it "
        "has its default: journals of the release before are then refused. Raise RULES_VERSION, and pin the shape"
    )
