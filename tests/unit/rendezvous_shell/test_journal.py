"""Whose journal it is: named or not, a directory serves one job, and damage is said."""

import sqlite3

import pytest

from resurge_libs.core import codec
from resurge_libs.core.ids import RequestId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.engine.memory_journal import MemoryJournal
from resurge_libs.engine.ports import Entry, FactRecord
from resurge_libs.hosting.usage import UsageError
from resurge_rendezvous.core import facts as f
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
