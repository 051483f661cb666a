"""`resurge logs` against a real log server: tail, list, flush, merge."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from resurge_launcher.cli import main
from resurge_launcher.logs import shipper, spool
from resurge_launcher.logs.spool import SpoolNote
from resurge_libs.obs import cycle_files
from resurge_libs.obs.cycle_record import CycleRecord, NodePlace, RankPlace
from resurge_libs.testing.wait import wait_until
from tests.fakes.host import HostProcess

LIMIT_S = 30.0


def left_behind(folder, rank: int, text: bytes) -> None:
    """A spool as it is after the launcher and its sender were killed."""
    note = SpoolNote("job", "n0", 1, 1, 0, rank, 2, incarnation=7)
    descriptor = spool.open_for_worker(folder, note)
    os.write(descriptor, text)
    os.close(descriptor)
    spool.end_generation(folder, 1)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A log server with what two ranks wrote, sent by hand."""
    folder = tmp_path_factory.mktemp("logs")
    more = ("--applog-prefix", str(folder / "app.log"), "--sync", "ack")
    with HostProcess(folder / "state", module="resurge_log_aggregator", more=more) as host:
        left_behind(folder / "spool", 0, b"a\nb\nlast words")
        left_behind(folder / "spool", 1, b"error: x\n")
        assert main(["logs", "flush", str(folder / "spool"), "--log-endpoint", host.endpoint]) == 0
        yield folder, host.endpoint


def told(capfdbinary, *words: str) -> tuple[int, bytes, bytes]:
    code = main(["logs", *words])
    out, err = capfdbinary.readouterr()
    return code, out, err


def test_what_was_left_in_a_spool_is_in_the_file(served):
    folder, _ = served
    assert sorted((folder / "app_cycle0.log").read_bytes().splitlines()) == [
        b"0: a", b"0: b", b"0: last words", b"1: error: x",
    ]  # fmt: skip
    assert list(spool.notes(folder / "spool")) == []


def test_tail_chooses_ranks_lines_and_patterns(served, capfdbinary):
    _, endpoint = served
    at = ("--log-endpoint", endpoint)
    assert told(capfdbinary, "tail", *at, "--rank", "0")[1] == b"0: a\n0: b\n0: last words\n"
    assert told(capfdbinary, "tail", *at, "--rank", "0", "-n", "1")[1] == b"0: last words\n"
    assert told(capfdbinary, "tail", *at, "--grep", "err.r")[1] == b"1: error: x\n"
    assert told(capfdbinary, "tail", *at, "--rank", "1", "--colour", "always")[1] == b"\x1b[33m1: error: x\x1b[0m\n"
    assert told(capfdbinary, "tail", *at, "--since", "1h", "--node", "n0", "--rank", "1")[1] == b"1: error: x\n"


def test_tail_says_of_a_rank_that_it_has_no_line(served, capfdbinary):
    _, endpoint = served
    code, out, err = told(capfdbinary, "tail", "--log-endpoint", endpoint, "--rank", "9", "--rank", "1")
    assert (code, out) == (1, b"1: error: x\n") and b"no line of rank 9 is there: this cycle has no such rank" in err
    assert told(capfdbinary, "tail", "--log-endpoint", endpoint, "--rank", "9", "--since", "1h")[:2] == (0, b"")


def test_list_says_that_the_cycle_is_complete(served, capfdbinary):
    _, endpoint = served
    code, out, _ = told(capfdbinary, "list", "--log-endpoint", endpoint)
    assert code == 0 and b"attempt 1 cycle 0" in out and b"complete" in out
    logs = json.loads(told(capfdbinary, "list", "--log-endpoint", endpoint, "--json")[1])
    assert (logs[0]["sealed"], logs[0]["lines"]) == (True, "4")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("tail", "--cycle", "9"), 1, b"attempt 1 cycle 0"),
        (("tail", "--since", "soon"), 2, b"--since"),
        (("tail", "--grep", "("), 2, b"--grep"),
        (("tail", "--launchers"), 1, b"no such log"),
    ],
)
def test_what_cannot_be_shown_is_named(served, capfdbinary, words, code, said):
    _, endpoint = served
    found, _, err = told(capfdbinary, *words, "--log-endpoint", endpoint)
    assert (found, said in err) == (code, True), err


def test_no_log_server_is_said_with_what_to_do(tmp_path, capfdbinary):
    code, _, err = told(capfdbinary, "tail", "--log-endpoint", "127.0.0.1:1")
    assert code == 1 and b"did not answer" in err
    code, _, err = told(capfdbinary, "tail", "--state-dir", str(tmp_path))
    assert code == 2 and b"--log-endpoint" in err


def test_a_follower_outlives_a_log_server_that_is_killed_and_ends_with_one_that_ends(tmp_path):
    more = ("--applog-prefix", str(tmp_path / "app.log"), "--sync", "ack", "--job-id", "job")
    state, app, out = tmp_path / "state", tmp_path / "app_cycle0.log", tmp_path / "out"
    command = [sys.executable, "-m", "resurge_launcher", "logs", "tail", "-f", "--rank", "1", "--state-dir", str(state)]
    spools = tmp_path / "spool"
    note = SpoolNote("job", "n1", 1, 1, 0, 1, 2, incarnation=7)
    descriptor = spool.open_for_worker(spools, note)

    def say(text: bytes) -> None:
        os.write(descriptor, text)
        assert main(["logs", "flush", str(spools), "--log-endpoint", host.endpoint]) == 0

    with HostProcess(state / "log-server", module="resurge_log_aggregator", more=more) as host, out.open("wb") as shown:
        say(b"a\nb\n")
        tail = subprocess.Popen(command, stdout=shown, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: out.read_bytes() == b"1: a\n1: b\n", LIMIT_S, "the first lines")
            host.kill()
            host.start()
            say(b"c\n")
            wait_until(lambda: out.read_bytes().endswith(b"1: c\n"), LIMIT_S, "the line of the second server")
            host.terminate()
            _, said = tail.communicate(timeout=LIMIT_S)
        finally:
            tail.kill()
            os.close(descriptor)
    assert tail.returncode == 0, said
    assert out.read_bytes() == app.read_bytes() == b"1: a\n1: b\n1: c\n"
    assert "it is waited for" in said and "answers again" in said and "has ended" in said, said


def test_without_following_the_file_is_read_where_the_server_that_was_announced_is_dead(tmp_path, capfdbinary):
    path = tmp_path / "app_cycle0.log"
    path.write_bytes(b"0: a\n1: b\n")
    nodes = (NodePlace("n0", "h0", 0, "", str(path)),)
    record = CycleRecord("job", 1, 0, 1, 1_700_000_000.0, nodes=nodes, ranks=(RankPlace(0, "n0", "h0", 0),))
    cycle_files.write_record(cycle_files.record_path(tmp_path / "cycles", "job", 1, 0), record)
    (tmp_path / "log-server").mkdir()
    (tmp_path / "log-server" / "control.json").write_text(json.dumps({"endpoint": "127.0.0.1:1"}))
    code, out, err = told(capfdbinary, "tail", "--state-dir", str(tmp_path), "--rank", "1")
    assert (code, out) == (0, b"1: b\n") and b"read from the file of cycle 0 itself" in err, err
    code, out, err = told(capfdbinary, "tail", "--state-dir", str(tmp_path), "-f")
    assert (code, out) == (1, b"") and b"did not answer" in err


def test_what_nobody_writes_any_more_ends_with_the_flush_and_what_somebody_does_is_kept(tmp_path, capfdbinary):
    more = ("--applog-prefix", str(tmp_path / "app.log"), "--sync", "ack", "--job-id", "job")
    writing = []
    for rank in (0, 1):  # as a killed launcher leaves it: no end is noted
        note = SpoolNote("job", "n0", 1, 1, 0, rank, 2, incarnation=7)
        writing.append(spool.open_for_worker(tmp_path / "spool", note))
        os.write(writing[rank], b"x\nlast words")
    with HostProcess(tmp_path / "state", module="resurge_log_aggregator", more=more) as host:
        words = ("flush", str(tmp_path / "spool"), "--log-endpoint", host.endpoint)
        os.close(writing[0])
        command = [sys.executable, "-m", "resurge_launcher", "logs", *words]  # as a process: it has them open itself
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0 and b"1 of 2 sources are complete" in done.stdout, done
        assert b"a process has them open" in done.stdout
        os.close(writing[1])
        code, out, _ = told(capfdbinary, *words)
        assert code == 0 and b"1 of 1 sources are complete in their files." in out, out
        assert b"complete" in told(capfdbinary, "list", "--log-endpoint", host.endpoint)[1]
    assert sorted((tmp_path / "app_cycle0.log").read_bytes().splitlines()) == [
        b"0: last words", b"0: x", b"1: last words", b"1: x",
    ]  # fmt: skip


def test_a_log_server_elsewhere_needs_the_token_and_that_is_said(tmp_path, capfdbinary, monkeypatch):
    monkeypatch.delenv("RESURGE_JOB_TOKEN", raising=False)
    left_behind(tmp_path, 1, b"x\n")
    for words in (("tail",), ("tail", "-f"), ("list",), ("flush", str(tmp_path))):
        code, _, err = told(capfdbinary, *words, "--log-endpoint", "logs.invalid:7472")
        assert code == 2 and b"--log-endpoint: endpoint logs.invalid:7472" in err and b"RESURGE_JOB_TOKEN" in err, err


def test_a_spool_that_another_process_sends_is_left_to_it(tmp_path, served, capfdbinary):
    _, endpoint = served
    left_behind(tmp_path, 1, b"x\n")
    descriptor = shipper.claim(tmp_path)
    assert descriptor is not None
    code, _, err = told(capfdbinary, "flush", str(tmp_path), "--log-endpoint", endpoint)
    assert code == 1 and b"another process" in err
    os.close(descriptor)


def test_files_that_nodes_appended_to_are_put_in_order_by_rank(tmp_path, capfdbinary):
    (tmp_path / "a.log").write_bytes(b" 1: x\n10: y\n 1: z\n")
    (tmp_path / "b.log").write_bytes(b" 0: first\n10: last")
    code, out, _ = told(capfdbinary, "merge", str(tmp_path / "a.log"), str(tmp_path / "b.log"))
    assert (code, out) == (0, b" 0: first\n 1: x\n 1: z\n10: y\n10: last\n")
    code, _, err = told(capfdbinary, "merge", str(tmp_path / "a.log"), "--output", str(tmp_path / "no" / "x"))
    assert code == 1 and b"cannot be written" in err


def test_without_a_log_server_the_file_that_the_cycles_record_names_is_read(tmp_path, capfdbinary):
    path = tmp_path / "app_cycle1.log"
    path.write_bytes(b"0: a\n1: b\n2: c\nno rank\n1: d\n")
    for cycle, file in ((0, tmp_path / "gone.log"), (1, path)):
        nodes = (NodePlace("n0", "h0", 0, "", str(file)), NodePlace("n1", "h1", 1, "", str(file)))
        ranks = tuple(RankPlace(rank, f"n{rank // 2}", f"h{rank // 2}", rank % 2) for rank in range(3))
        record = CycleRecord("job", 1, cycle, cycle + 1, 1_700_000_000.0 + cycle, nodes=nodes, ranks=ranks)
        cycle_files.write_record(cycle_files.record_path(tmp_path / "cycles", "job", 1, cycle), record)
    at = ("--state-dir", str(tmp_path))
    assert told(capfdbinary, "tail", *at)[1] == path.read_bytes()
    assert told(capfdbinary, "tail", *at, "--rank", "1")[1] == b"1: b\n1: d\n"
    assert told(capfdbinary, "tail", *at, "--node", "n1")[1] == b"2: c\nno rank\n"
    assert told(capfdbinary, "tail", *at, "--rank", "1", "-n", "1", "--grep", "d")[1] == b"1: d\n"
    code, out, err = told(capfdbinary, "list", *at)
    assert code == 0 and b"no log server serves" in err
    assert [line.split() for line in out.splitlines()] == [
        [b"attempt", b"1", b"cycle", b"0", b"0", b"lines", b"0", b"bytes", b"%s/gone.log" % bytes(tmp_path)],
        [b"attempt", b"1", b"cycle", b"1", b"5", b"lines", b"28", b"bytes", bytes(path)],
    ]
    assert json.loads(told(capfdbinary, "list", *at, "--json")[1])[1]["lines"] == "5"
    code, _, err = told(capfdbinary, "tail", *at, "--cycle", "7")
    assert code == 2 and b"a cycle that has a file: resurge logs list" in err
    code, _, err = told(capfdbinary, "tail", *at, "--cycle", "0")
    assert code == 1 and b"gone.log cannot be read here" in err
    code, _, err = told(capfdbinary, "tail", *at, "-f")
    assert code == 2 and b"needs a log server" in err


@pytest.mark.parametrize("command", ["tail", "list"])
def test_where_no_file_of_a_cycle_was_asked_for_the_ranks_own_logs_are_named(tmp_path, capfdbinary, command):
    code, _, err = told(capfdbinary, command, "--state-dir", str(tmp_path))
    assert code == 2 and b"%s/logs" % bytes(tmp_path) in err and b"--ft-per-cycle-applog-prefix" in err
    logs = tmp_path / "elsewhere" / "job"
    for cycle in (0, 1):
        nodes = (NodePlace("n0", "h0", 0, str(logs / f"1-{cycle}"), ""),)
        record = CycleRecord("job", 1, cycle, cycle + 1, 1_700_000_000.0 + cycle, nodes=nodes)
        cycle_files.write_record(cycle_files.record_path(tmp_path / "cycles", "job", 1, cycle), record)
    code, _, err = told(capfdbinary, command, "--state-dir", str(tmp_path))
    assert code == 2 and b"printed is in %s/1-1." % bytes(logs) in err, err
    assert b"Without --ft-per-cycle-applog-prefix a cycle has no file" in err and b"grep" not in err


def test_the_files_are_listed_where_the_server_that_was_announced_is_dead(tmp_path, capfdbinary):
    path = tmp_path / "app_cycle0.log"
    path.write_bytes(b"0: a\n")
    record = CycleRecord("job", 1, 0, 1, 1_700_000_000.0, nodes=(NodePlace("n0", "h0", 0, "", str(path)),))
    cycle_files.write_record(cycle_files.record_path(tmp_path / "cycles", "job", 1, 0), record)
    (tmp_path / "log-server").mkdir()
    (tmp_path / "log-server" / "control.json").write_text(json.dumps({"endpoint": "127.0.0.1:1"}))
    code, out, err = told(capfdbinary, "list", "--state-dir", str(tmp_path))
    assert code == 0 and bytes(path) in out and b"did not answer" in err
