"""status, nodes, recoveries, explain, verdict: from the records that a control plane left, without one."""

from __future__ import annotations

import json
import re
import time

import pytest

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_launcher.cli import main
from resurge_launcher.views.replay import replayed_by_default
from resurge_launcher.views.report import ledger_view
from resurge_libs.rpc.records import append_recovery, write_job
from tests.recovery_sample import all_three, ended_job, killed_rank


def job(**changes):
    made = rendezvous_pb2.Job(
        spec=attach_pb2.JobSpec(job_id="digits", min_nodes=2, max_nodes=3, max_restarts=5),
        token=ids_pb2.FencingToken(job_id="digits", attempt=0, generation=9),
        cycle=3, phase=rendezvous_pb2.JOB_PHASE_RUNNING, restarts_spent=2,
        because=ids_pb2.Because(code="ROUND_CLOSED", sentence="2 of 2 nodes joined"),
        nodes=[
            rendezvous_pb2.Node(node_id="n2", standing=rendezvous_pb2.NODE_STANDING_SPARE, host="c"),
            rendezvous_pb2.Node(
                node_id="n1", standing=rendezvous_pb2.NODE_STANDING_ACTIVE, phase=attach_pb2.NODE_PHASE_RUNNING,
                group_rank=1, base_rank=2, local_world_size=2, host="b", generation=9,
            ),
            rendezvous_pb2.Node(
                node_id="n0", standing=rendezvous_pb2.NODE_STANDING_ACTIVE, phase=attach_pb2.NODE_PHASE_RUNNING,
                group_rank=0, base_rank=0, local_world_size=2, host="a", generation=9,
            ),
        ],
    )  # fmt: skip
    made.MergeFrom(rendezvous_pb2.Job(**changes))
    return made


@pytest.fixture
def state(tmp_path, monkeypatch):
    for name in ("RESURGE_LAUNCHER__RDZV_ENDPOINT", "PET_RDZV_ENDPOINT", "RESURGE_JOB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    directory = tmp_path / "state"
    directory.mkdir()
    for record in all_three():
        append_recovery(directory, record)
    write_job(directory, job())
    return directory


def told(capsys, *words):
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_the_announcement_of_a_control_plane_that_was_killed_is_passed_over(capsys, state, tmp_path):
    (state / "control.json").write_text(json.dumps({"pid": 1, "endpoint": f"unix:{tmp_path}/gone.sock"}))
    began = time.monotonic()
    code, out, err = told(capsys, "recoveries", "--state-dir", str(state))
    assert code == 0 and "recovered" in out and "UNAVAILABLE" not in err
    assert time.monotonic() - began < 2.0


def test_recoveries_as_table(capsys, state):
    code, out, _ = told(capsys, "recoveries", "--state-dir", str(state))
    assert code == 0
    assert "3 recoveries" in out
    assert "LEASE_EXPIRED" in out


def test_recoveries_as_json_page_and_trace(capsys, state, tmp_path):
    page, trace = tmp_path / "a.html", tmp_path / "a.json"
    code, out, _ = told(
        capsys, "recoveries", "--state-dir", str(state), "--json", "--html", str(page), "--perfetto", str(trace)
    )
    assert code == 0
    assert [row["incident"] for row in json.loads(out)] == ["inc-1", "inc-2", "inc-3"]
    assert "Recoveries of digits" in page.read_text()
    assert json.loads(trace.read_text())["traceEvents"]


def test_the_newest_version_of_a_record_is_shown_once(capsys, state):
    amended = killed_rank()
    amended.restored_step = 777
    append_recovery(state, amended)
    _, out, _ = told(capsys, "recoveries", "--state-dir", str(state), "--json")
    assert [row["restored_step"] for row in json.loads(out)] == [777, 400, 400]


def test_lines_that_cannot_be_read_are_said(capsys, state):
    with (state / "recoveries.jsonl").open("a") as file:
        file.write('{"cut')
    code, out, err = told(capsys, "recoveries", "--state-dir", str(state))
    assert code == 0
    assert "3 recoveries" in out
    assert "1 lines" in err


def test_records_that_are_no_longer_kept_are_said(capsys, state):
    write_job(state, job(recoveries_closed=10))
    _, out, err = told(capsys, "recoveries", "--state-dir", str(state))
    assert "3 recoveries" in out
    assert err == "resurge: 7 earlier recoveries are not shown: only the newest are kept\n"


def test_no_recovery_is_no_error(capsys, tmp_path):
    write_job(tmp_path, job())
    code, out, _ = told(capsys, "recoveries", "--state-dir", str(tmp_path))
    assert (code, out.startswith("No recovery so far")) == (0, True)


@pytest.mark.parametrize("command", ["recoveries", "explain", "status", "nodes", "verdict", "report"])
def test_a_directory_that_is_no_job_s_is_not_told_of_as_one(capsys, tmp_path, command):
    (tmp_path / "hosts").write_text("127.0.0.1 localhost")
    code, out, err = told(capsys, command, "--state-dir", str(tmp_path))
    assert (code, out) == (1, "")
    assert f"{tmp_path} holds no record of a job (job.json)" in err


@pytest.mark.parametrize("command", ["recoveries", "explain", "status", "nodes", "verdict", "report"])
def test_a_damaged_record_of_the_job_is_called_damaged(capsys, tmp_path, command):
    (tmp_path / "job.json").write_text('{"spec": {"job_')
    code, out, err = told(capsys, command, "--state-dir", str(tmp_path))
    assert (code, out) == (1, "")
    assert f"{tmp_path}/job.json is damaged" in err and "holds no record of a job (" not in err


@pytest.mark.parametrize("command", ["recoveries", "explain"])
@pytest.mark.parametrize(
    ("told_of", "why"),
    [
        ({}, "none of the 2 lines of"),
        ({"recoveries_closed": 2}, "the job had 2 recoveries, and"),
        ({"recoveries_closed": 1}, "the job had 1 recovery, and"),
    ],
)
def test_recoveries_that_cannot_be_read_are_not_denied(capsys, tmp_path, command, told_of, why):
    write_job(tmp_path, job(**told_of))
    (tmp_path / "recoveries.jsonl").write_text('{"cut\n{"cut')
    code, out, err = told(capsys, command, "--state-dir", str(tmp_path))
    assert (code, out) == (1, "")
    assert why in err and "nothing had to be restarted" not in err


def test_an_incident_that_stayed_open_is_not_denied(capsys, tmp_path):
    write_job(tmp_path, job(incident_id="inc-7"))
    code, out, err = told(capsys, "recoveries", "--state-dir", str(tmp_path))
    assert (code, out) == (1, "")
    assert "incident inc-7 was open" in err


def test_records_that_are_no_file_are_an_error_without_a_traceback(capsys, tmp_path):
    write_job(tmp_path, job())
    (tmp_path / "recoveries.jsonl").mkdir()
    code, _, err = told(capsys, "recoveries", "--state-dir", str(tmp_path))
    assert code == 1 and "recoveries.jsonl cannot be read: Is a directory" in err and "Traceback" not in err


def test_a_page_that_cannot_be_written_is_an_error_without_a_traceback(capsys, state):
    code, _, err = told(capsys, "recoveries", "--state-dir", str(state), "--html", "/nowhere/a.html")
    assert code == 1
    assert err == "resurge recoveries: /nowhere/a.html cannot be written: No such file or directory\n"


def test_status_shows_active_nodes_by_rank_first(capsys, state):
    code, out, _ = told(capsys, "status", "--state-dir", str(state))
    assert code == 0
    assert "generation 9, cycle 3" in " ".join(out.split())
    assert "2 of 5 spent" in out
    assert out.index("n0") < out.index("n1") < out.index("n2")


def test_status_of_a_job_that_has_ended_names_the_generation_that_ran(capsys, state):
    token = ids_pb2.FencingToken(job_id="digits", generation=8)
    write_job(state, job(decision=rendezvous_pb2.TerminalDecision(exit_code=0, token=token)))
    assert "generation 8, cycle 3" in " ".join(told(capsys, "status", "--state-dir", str(state))[1].split())


def test_a_phase_that_nobody_tells_any_more_is_a_dash(capsys, state):
    assert "unspecified" not in told(capsys, "nodes", "--state-dir", str(state))[1]


def test_nodes_as_json(capsys, state):
    _, out, _ = told(capsys, "nodes", "--state-dir", str(state), "--json")
    assert {row["node_id"] for row in json.loads(out)} == {"n0", "n1", "n2"}


def test_nodes_show_who_is_out_until_when_and_what_is_held_against_them(capsys, state):
    plain = told(capsys, "nodes", "--state-dir", str(state))[1]
    assert "excluded until" not in plain and "offences" not in plain, "what nobody has gets no column"
    out = rendezvous_pb2.Exclusion(node_id="n3", host="d", by="ann@desk", because=ids_pb2.Because(sentence="fans"))
    out.until.FromSeconds(1_700_000_000)
    gone = rendezvous_pb2.Exclusion(node_id="n4", host="e", by="policy", because=ids_pb2.Because(sentence="3 faults"))
    kept = ids_pb2.Because(code="WOULD_EXCLUDE", sentence="too few would be left")
    more = [
        rendezvous_pb2.Node(node_id="n3", standing=rendezvous_pb2.NODE_STANDING_EXCLUDED, host="d", exclusion=out),
        rendezvous_pb2.Node(node_id="n5", standing=rendezvous_pb2.NODE_STANDING_SPARE, would_exclude=kept, offences=2),
    ]
    write_job(state, job(nodes=more, exclusions=[out, gone]))
    lines = told(capsys, "nodes", "--state-dir", str(state))[1].splitlines()
    assert "excluded until" in lines[0] and "offences" in lines[0]
    row = {line.split()[0]: line for line in lines[1:]}
    assert "2023-11-14 22:13:20 UTC" in row["n3"] and "fans (ann@desk)" in row["n3"]
    assert " 2 " in row["n5"] and "WOULD_EXCLUDE: too few would be left" in row["n5"]
    assert lines[-1] == "e, then n4, is excluded until readmitted: 3 faults (policy)"


def test_verdict_of_a_job_that_goes_on_ends_with_1(capsys, state):
    code, out, err = told(capsys, "verdict", "--state-dir", str(state), "--exit-code")
    assert (code, out) == (1, "")
    assert "no terminal decision" in err


def test_verdict_prints_the_code_for_batch_scripts(capsys, state):
    decision = rendezvous_pb2.TerminalDecision(exit_code=93, because=ids_pb2.Because(code="NO_PROGRESS"))
    write_job(state, job(decision=decision))
    assert told(capsys, "verdict", "--state-dir", str(state), "--exit-code")[:2] == (0, "93\n")
    assert "NO_PROGRESS" in told(capsys, "verdict", "--state-dir", str(state))[1]


def test_explain_tells_the_rules_in_order(capsys, state):
    code, out, _ = told(capsys, "explain", "inc-1", "--state-dir", str(state))
    assert code == 0
    assert "n0 rank 1: WORKER_SIGNAL" in out
    assert "then n1 rank 2" in out
    rules = [
        line.split()[-len(line.split())]
        for line in out.splitlines()
        if line.startswith((" =>", "    ")) and "_" in line
    ]
    assert rules
    assert "=> restart" in out
    assert re.search(r"job_already_succeeded.* budget .*budget_of_cause.*=> restart", out, re.DOTALL)


def test_explain_without_a_name_means_the_last_and_a_stop_is_told(capsys, state):
    _, out, _ = told(capsys, "explain", "--state-dir", str(state))
    assert "inc-3" in out
    assert "=> budget" in out


@pytest.mark.parametrize(("name", "hint"), [("inc-", "inc-1, inc-2, inc-3"), ("inc-9", "inc-")])
def test_a_name_that_is_none_or_several_is_refused(capsys, state, name, hint):
    code, _, err = told(capsys, "explain", name, "--state-dir", str(state))
    assert code == 2
    assert hint in err


def test_a_replay_that_differs_says_so(capsys, state):
    record = killed_rank()
    record.verdict.kind = policy_pb2.VERDICT_KIND_STOP
    append_recovery(state, record)
    assert "The recorded verdict holds" in told(capsys, "explain", "inc-1", "--state-dir", str(state))[1]


def test_the_default_replay_agrees_with_the_record_it_was_made_from():
    answer = replayed_by_default(ended_job().incident)
    assert answer.verdict.kind == policy_pb2.VERDICT_KIND_STOP
    assert [rule.rule for rule in answer.rules if rule.decided] == ["budget"]


def test_the_newest_job_is_found_without_being_named(capsys, state, tmp_path):
    home = tmp_path / "home" / "resurge"
    home.mkdir(parents=True)
    state.rename(home / "digits")
    assert "digits" in told(capsys, "status")[1]


def test_no_job_at_all_says_how_to_name_one(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code, _, err = told(capsys, "status")
    assert code == 2
    assert "--endpoint HOST:PORT" in err


def test_a_dead_control_plane_is_said_and_its_records_are_shown(capsys, state, tmp_path):
    (state / "control.json").write_text(json.dumps({"endpoint": f"unix:{tmp_path}/gone.sock", "pid": 1}))
    code, out, err = told(capsys, "status", "--state-dir", str(state))
    assert code == 0
    assert "digits" in out
    assert "no control plane answered" in err


def test_orders_need_a_live_control_plane(capsys, state):
    code, _, err = told(capsys, "shutdown", "--state-dir", str(state))
    assert code == 1
    assert "no control plane serves" in err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["status", "--endpoint", "http://x"], "HOST:PORT"),
        (["status", "--endpoint", "n0:1"], "RESURGE_JOB_TOKEN"),
        (["status", "--state-dir", "/nowhere"], "not a directory"),
        (["status", "--state-dri", "x"], "--state-dir"),
        (["exclude"], "NODE"),
        (["exclude", "a", "--for", "soon", "--endpoint", "localhost:1"], "--for"),
        (["recoveriez"], "recoveries"),
    ],
)
def test_bad_words_end_with_2_and_say_what_would_be_right(capsys, state, words, hint):
    code, _, err = told(capsys, *words)
    assert code == 2
    assert hint in err
    assert len(err.strip().splitlines()) == 1


def ledger(**changes):
    seconds = {"productive": 80, "lost": 10, "detection": 1, "teardown": 2, "start": 3, "restore": 4}
    made = rendezvous_pb2.Ledger(doing=rendezvous_pb2.ACTIVITY_TRAINING, lost_steps=5)
    made.begun.FromSeconds(1_000)
    made.reached.FromSeconds(1_100)
    for name, took_s in seconds.items():
        getattr(made, name).FromSeconds(took_s)
    made.MergeFrom(rendezvous_pb2.Ledger(**changes))
    return made


def test_a_report_from_the_records_says_where_the_time_went(capsys, state):
    write_job(state, job(ledger=ledger()))
    code, out, _ = told(capsys, "report", "--state-dir", str(state))
    assert code == 0
    assert "goodput 80.00%" in out
    assert "lost" in out and "10.0 s" in out and "5 steps" in out
    code, out, _ = told(capsys, "report", "--state-dir", str(state), "--json")
    told_of = json.loads(out)
    assert sum(told_of["accounts_s"].values()) == told_of["wall_s"] == 100
    assert (told_of["goodput"], told_of["doing"]) == (0.8, "training")


def test_a_report_of_a_live_job_counts_what_it_does_now():
    view = ledger_view(job(ledger=ledger()), now_s=1_150.0)
    assert (view.wall_s, view.accounts_s["productive"]) == (150.0, 130.0)
    assert sum(view.accounts_s.values()) == view.wall_s


def test_a_report_names_what_nobody_measured(capsys, state):
    write_job(state, job(ledger=ledger(unmeasured={"seconds": 30})))
    assert "30.0 s of the productive time" in told(capsys, "report", "--state-dir", str(state))[1]


def test_a_report_without_a_ledger_says_so(capsys, state):
    code, _, err = told(capsys, "report", "--state-dir", str(state))
    assert code == 1 and "keeps no ledger" in err
