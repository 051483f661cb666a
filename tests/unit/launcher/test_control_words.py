"""What is taken out of a control plane's log for the launcher's terminal: a damaged journal, in either form."""

from __future__ import annotations

import io

import pytest

from resurge_launcher.control_words import FORGOTTEN, journal_damage, last_words
from resurge_libs.obs import log

DAMAGE = 'journal "x" is damaged: recovered to the last whole record, entry 3; kept as /s/journal.sqlite.damaged-1'


def written(as_json: bool, *names: str) -> str:
    stream = io.StringIO()
    log.configure(as_json=as_json, stream=stream)
    try:
        with log.bound(job="my job"):
            for name in names:
                log.event(name, sentence=DAMAGE, last_whole_seq=3, entries_lost="unknown")
    finally:
        log.configure()
    return stream.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_damaged_journal_is_found_in_what_was_written_since_the_start(tmp_path, as_json):
    path, before = tmp_path / "log", written(as_json, "journal_damaged")
    path.write_text(before + written(as_json, "host_ready"))
    assert journal_damage(path, len(before)) == "", "of an earlier start"
    assert journal_damage(path, 0) == f"{DAMAGE}. {FORGOTTEN}"


def test_words_that_are_another_line_s_are_not_taken_for_it(tmp_path):
    path = tmp_path / "log"
    path.write_text("journal_damaged\n" + written(False, "host_ready").replace("x", "journal_damaged"))
    assert journal_damage(path, 0) == ""
    assert journal_damage(tmp_path / "none", 0) == ""


def test_the_last_line_that_says_something(tmp_path):
    path = tmp_path / "log"
    path.write_text("first\nlast\n\n")
    assert (last_words(path), last_words(tmp_path / "none")) == ("last", "")
