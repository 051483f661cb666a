"""Where `job.json` is not there, damaged or old, the reading commands tell what the journal holds, and say so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.cli import main
from resurge_libs.core import codec
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.engine.ports import Entry
from resurge_libs.engine.replay import fact_record
from resurge_libs.engine.sqlite_journal import SqliteJournal
from resurge_libs.rpc.records import JOURNAL_NAME, read_job, write_job
from resurge_rendezvous import wire_out
from resurge_rendezvous.core.step import RULES_VERSION
from resurge_rendezvous.core.views import job_view
from tests.unit.rendezvous.desk import Desk, started

pytestmark = pytest.mark.integration


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RESURGE_LAUNCHER__RDZV_ENDPOINT", "PET_RDZV_ENDPOINT", "RESURGE_JOB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path / "state"
    directory.mkdir()
    return directory


def journaled(directory: Path, desk: Desk) -> None:
    """The desk's facts as the journal of the directory."""
    journal = SqliteJournal(directory, "job")
    because = Because(Reason.OBSERVED, "")
    records = tuple(fact_record(fact) for fact in desk.facts)
    digest = codec.digest(desk.state.durable)
    journal.append([Entry(1, Wall(1.0), "Played", because, records, digest, RULES_VERSION)]).result()
    journal.close()


def shown(directory: Path, desk: Desk) -> rendezvous_pb2.Job:
    """The desk's picture of the job as its `job.json`."""
    job = wire_out.job_to_proto(job_view(desk.state))
    write_job(directory, job)
    return job


def told(capsys, *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_end_that_found_no_room_is_told_from_the_journal(capsys, state):
    desk = started()
    shown(state, desk)
    desk.finish("n0", "n1")
    journaled(state, desk)
    before = {path.name: path.read_bytes() for path in state.iterdir()}
    code, out, err = told(capsys, "verdict", "--state-dir", str(state), "--exit-code")
    assert (code, out) == (0, "0\n")
    assert err == (
        f"resurge: {state}/job.json is older than the journal; shown from the journal {state / JOURNAL_NAME}\n"
    )
    assert "SUCCEEDED" in told(capsys, "verdict", "--state-dir", str(state))[1]
    assert "ended: SUCCEEDED" in told(capsys, "status", "--state-dir", str(state))[1]
    assert {path.name: path.read_bytes() for path in state.iterdir()} == before


@pytest.mark.parametrize(("text", "why"), [(None, "is not there"), ("{", "is damaged"), ("", "is damaged")])
def test_a_picture_that_is_missing_or_damaged_is_made_up_for_by_the_journal(capsys, state, text, why):
    desk = started()
    desk.finish("n0", "n1")
    journaled(state, desk)
    if text is not None:
        (state / "job.json").write_text(text)
    code, out, err = told(capsys, "verdict", "--state-dir", str(state), "--exit-code")
    assert (code, out) == (0, "0\n")
    assert f"{state}/job.json {why}" in err and "shown from the journal" in err


def test_a_job_that_goes_on_in_both_is_shown_as_its_picture_was(capsys, state):
    desk = started()
    job = shown(state, desk)
    journaled(state, desk)
    code, out, err = told(capsys, "nodes", "--state-dir", str(state))
    assert (code, err) == (0, "")
    assert out.count("active") == len(job.nodes) == 2, "the journal itself knows of no stream"
    assert told(capsys, "verdict", "--state-dir", str(state))[0] == 1


def test_a_next_attempt_that_has_begun_is_no_end_though_the_old_picture_has_one(capsys, state):
    ended = started()
    ended.finish("n0", "n1")
    shown(state, ended)
    os.utime(state / "job.json", ns=(1, 1))
    journaled(state, started())
    code, out, err = told(capsys, "verdict", "--state-dir", str(state), "--exit-code")
    assert (code, out) == (1, "")
    assert "older than the journal" in err and "no terminal decision" in err


def test_a_journal_that_is_garbage_is_said_and_the_picture_shown(capsys, state):
    shown(state, started())
    (state / JOURNAL_NAME).write_bytes(b"no database at all" * 500)
    code, out, err = told(capsys, "status", "--state-dir", str(state))
    assert code == 0 and "generation 1" in " ".join(out.split())
    assert "is damaged" in err and f"shown from {state}/job.json" in err


def test_with_neither_the_reason_of_each_is_given(capsys, state):
    (state / "job.json").write_text("{")
    (state / JOURNAL_NAME).write_bytes(b"no database at all" * 500)
    code, out, err = told(capsys, "status", "--state-dir", str(state))
    assert (code, out) == (1, "")
    assert "job.json is damaged" in err and f"{JOURNAL_NAME} is damaged" in err
    assert read_job(state) is None
