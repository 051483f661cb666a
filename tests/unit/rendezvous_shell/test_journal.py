"""Whose journal it is: named or not, a directory serves one job, and damage is said."""

import sqlite3

import pytest

from resurge_libs.engine.memory_journal import MemoryJournal
from resurge_libs.hosting.usage import UsageError
from resurge_rendezvous.core.step import RendezvousMachine
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
