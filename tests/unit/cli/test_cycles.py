"""`resurge cycles` and `resurge diagnose`: joined over attempts, and unknown wherever something is not known."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2
from resurge_launcher.cli import main
from resurge_libs.obs import cycle_files
from resurge_libs.obs.cycle_record import CycleEnd, CycleRecord, NodePlace, RankPlace
from resurge_libs.rpc.records import append_recovery, write_job
from tests.recovery_sample import recovery

BEGAN = 1_700_000_000.0
ENDED = BEGAN + 60.25


def record(cycle: int, attempt: int = 1, start: float = BEGAN, **changes: object) -> CycleRecord:
    made = CycleRecord(
        job="digits",
        attempt=attempt,
        cycle=cycle,
        generation=10 * attempt + cycle,
        start=start,
        nodes=(NodePlace("n0", "node001", 0), NodePlace("n1", "node002", 1)),
        standby_hosts=("node003",),
        ranks=tuple(
            RankPlace(rank, f"n{rank // 2}", f"node00{rank // 2 + 1}", rank % 2, 4000 + rank) for rank in range(4)
        ),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def put(root: Path, *records: CycleRecord) -> None:
    for item in records:
        cycle_files.write_record(cycle_files.record_path(root, item.job, item.attempt, item.cycle), item)


FAULTY = CycleEnd("inc-9", "WORKER_SIGNAL", "SIGSEGV", "n0/1", "RESTART", "4 of 5 restarts left", "policy")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Attempt 1: a cycle that a fault ended, and its successor; attempt 2: one that runs."""
    directory = tmp_path / "cycles"
    first = record(
        0,
        end=ENDED,
        ended_by=FAULTY,
        nodes=(NodePlace("n0", "node001", 0, str(tmp_path / "logs")), NodePlace("n1", "node002", 1)),
    )
    second = record(1, start=ENDED + 0.5, end=ENDED + 100, recovery_of="inc-9", restored_iteration=400)
    second = replace(second, ended_by=CycleEnd(reason="BUDGET_EXHAUSTED", sentence="none left", exit_code=1))
    put(directory, first, second, record(0, attempt=2, start=ENDED + 500))
    return directory


@pytest.fixture
def state(tmp_path: Path, root: Path) -> Path:
    """A state directory that leads to them, with the record of the incident."""
    directory = tmp_path / "state"
    directory.mkdir()
    (directory / "cycles").symlink_to(root)
    told = recovery("inc-9", [], 500, at_ns=int(ENDED * 1e9), generation=10, to=11)
    late = policy_pb2.Fault(node_id="n1", rank=2, because=ids_pb2.Because(code="WORKER_EXIT", sentence="exit code 1"))
    first = policy_pb2.Fault(
        node_id="n0", rank=1, culprit=True, last_step=412, signal=11,
        because=ids_pb2.Because(code="WORKER_SIGNAL", sentence="SIGSEGV"),
    )  # fmt: skip
    elsewhere = policy_pb2.Fault(node_id="n1", rank=3, because=ids_pb2.Because(code="WORKER_HUNG"))
    first.at.FromNanoseconds(int(ENDED * 1e9))
    late.at.FromNanoseconds(int((ENDED + 0.02) * 1e9))
    elsewhere.at.FromNanoseconds(int((ENDED + 50) * 1e9))  # of a later round of the same incident
    told.faults.extend([first, late, elsewhere])
    append_recovery(directory, told)
    return directory


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_cycles_are_joined_over_attempts_with_the_pauses_between_them(capsys, root: Path):
    code, out, _ = told(capsys, "cycles", "--cycle-info-dir", str(root), "--json")
    rows = json.loads(out)
    assert code == 0
    assert [(row["attempt_index"], row["cycle_number"]) for row in rows] == [(1, 0), (1, 1), (2, 0)]
    assert [row["ran_s"] for row in rows] == [pytest.approx(60.25), pytest.approx(99.5), None]
    assert [row["down_s"] for row in rows] == [pytest.approx(0.5), pytest.approx(400), None]
    assert rows[0]["active_nodes"] == "node[001-002]" and rows[0]["path"].endswith("digits/1/cycle_0.json")


def test_the_table_says_what_ended_each_and_what_runs(capsys, state: Path):
    code, out, _ = told(capsys, "cycles", "--state-dir", str(state))
    assert code == 0
    lines = out.splitlines()
    assert lines[0].strip() == "3 cycles"
    assert all(
        word in lines[2] for word in ("1/0", "node[001-002]", "node003", "WORKER_SIGNAL", "n0/1", "restart", "500 ms")
    )
    assert "exit 1" in lines[3] and "400" in lines[3] and "runs" in lines[4]


def test_a_damaged_record_is_said_and_the_others_are_shown(capsys, root: Path):
    cycle_files.record_path(root, "digits", 1, 1).write_text("{")
    code, out, err = told(capsys, "cycles", "--cycle-info-dir", str(root))
    assert code == 0 and "2 cycles" in out and "cycle_1.json is no JSON" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cycles", "--cycle-info-dir", "/nowhere"), "--cycle-info-dir: /nowhere is not a directory"),
        (
            ("diagnose", "7"),
            "CYCLE: there is no cycle '7'. Give its number or ATTEMPT/NUMBER; known are 1/0, 1/1, 2/0.",
        ),
        (("diagnose", "2/1"), "there is no cycle '2/1'"),
        (("cycles", "--job-id", "other"), "holds no job 'other'"),
        (("diagnose", "--lines", "0"), "--lines"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(capsys, root: Path, words: tuple[str, ...], said: str):
    named = () if "/nowhere" in words else ("--cycle-info-dir", str(root))
    code, _, err = told(capsys, *words, *named)
    assert code == 2 and said in err


def test_of_several_jobs_one_must_be_named(capsys, root: Path):
    put(root, replace(record(0), job="other"))
    code, _, err = told(capsys, "cycles", "--cycle-info-dir", str(root))
    assert code == 2 and "Give one of digits, other." in err
    assert told(capsys, "cycles", "--cycle-info-dir", str(root), "--job-id", "other")[0] == 0


def at(wall: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall)) + f".{int(wall % 1 * 1000):03d}"


def test_a_state_directory_means_its_own_job_where_others_have_records_beside(capsys, root: Path, state: Path):
    put(root, record(0, job="another"))
    write_job(state, rendezvous_pb2.Job(spec=attach_pb2.JobSpec(job_id="digits")))
    assert main(["cycles", "--state-dir", str(state)]) == 0
    assert "WORKER_SIGNAL" in capsys.readouterr().out


def test_a_diagnosis_shows_first_fault_and_cascade_logs_ranks_and_steps(capsys, state: Path, tmp_path: Path):
    worker = tmp_path / "logs" / "1"
    worker.mkdir(parents=True)
    (worker / "stdout.log").write_text("never shown: stderr has more to say\n")
    (worker / "stderr.log").write_text(
        "".join(f"line {n}\n" for n in range(100)) + "Fatal Python error: \x1b[31mSegv\n"
    )
    (worker / "error.json").write_text(json.dumps({"message": "RuntimeError: bad"}))
    launcher = tmp_path / "step.out"
    launcher.write_text(
        f"{at(ENDED - 50)} resurge phase_changed phase=running\n"
        f"0: {at(ENDED + 0.01)} resurge fault_seen rank=1\n"
        "[rank 0] a line of a worker\n"
        f"{at(ENDED + 90)} resurge too_late\n"
    )
    (state / "control-plane.log").write_text(json.dumps({"time": ENDED + 0.02, "event": "incident_opened"}) + "\n")
    words = ("--state-dir", str(state), "--launcher-log", str(launcher), "--lines", "3")
    code, out, _ = told(capsys, "diagnose", "1/0", *words)
    assert code == 0
    assert "first fault n0 rank 1: WORKER_SIGNAL (SIGSEGV), last step 412" in out
    assert "cascade     +0.020 s n1 rank 2: WORKER_EXIT" in out and "WORKER_HUNG" not in out
    assert "verdict     restart by policy: 4 of 5 restarts left" in out and "cycle 1/1 began 500 ms later" in out
    assert "reached     step 412" in out and "then from   step 400" in out
    assert "   1  n0 (node001)  local 1, pid 4001" in out
    assert "error file: RuntimeError: bad" in out and "line 99" in out and "line 96" not in out
    assert "\x1b" not in out and "never shown" not in out
    assert "fault_seen" in out and "too_late" not in out and "phase=running" not in out
    assert "incident_opened" in out
    assert "marker      unknown: none was read (--ft-checkpoint-iteration-file names one)" in out
    assert "no core dump" in out


def test_a_diagnosis_reads_the_ranks_lines_in_the_file_for_all_nodes(capsys, root: Path, tmp_path: Path):
    shared = tmp_path / "app_cycle0.log"
    nodes = (NodePlace("n0", "node001", 0, str(tmp_path / "logs"), str(shared)), NodePlace("n1", "node002", 1))
    put(root, record(0, end=ENDED, ended_by=FAULTY, nodes=nodes))
    words = ("diagnose", "1/0", "--cycle-info-dir", str(root), "--lines", "2")
    assert f"{shared}: No such file or directory. Run this command where" in told(capsys, *words)[1]
    shared.write_text("".join(f" 0: other {n}\n 1: line {n}\n" for n in range(50)) + "11: not mine\n")
    error = tmp_path / "logs" / "1" / "error.json"
    error.parent.mkdir(parents=True)
    error.write_text(json.dumps({"message": "RuntimeError: bad"}))
    _, out, _ = told(capsys, *words)
    assert f"application log of rank 1, {shared}, last 2 lines" in out and "error file: RuntimeError: bad" in out
    assert "line 48" in out and "line 49" in out and "line 47" not in out
    assert "other" not in out and "not mine" not in out
    shared.write_text(" 0: another rank alone\n")
    (error.parent / "stderr.log").write_text("the spool was away\n")
    assert "the spool was away" in told(capsys, *words)[1]


def test_the_marker_is_shown_or_why_it_was_not_read(capsys, root: Path):
    known = replace(FAULTY, checkpoint_iteration=400, reached_iteration=415)
    put(root, record(0, end=ENDED, ended_by=known))
    _, out, _ = told(capsys, "diagnose", "1/0", "--cycle-info-dir", str(root))
    assert "marker      iteration 400 is the newest completed checkpoint" in out and "reached     step 415" in out
    put(root, record(0, end=ENDED, ended_by=replace(FAULTY, progress_unknown="the file is empty")))
    _, out, _ = told(capsys, "diagnose", "1/0", "--cycle-info-dir", str(root))
    assert "marker      unknown: the file is empty" in out


def test_everything_that_is_not_known_says_so_and_why(capsys, root: Path):
    code, out, _ = told(capsys, "diagnose", "1/0", "--cycle-info-dir", str(root))
    assert code == 0
    assert "cascade     unknown: neither --state-dir nor --endpoint was named" in out
    assert "began from  unknown: no rank reported a restored step" in out
    assert "marker      unknown" in out and "conditions  unknown" in out
    assert "application log of rank 1: unknown: " in out and "on node001: No such file or directory" in out
    assert "launcher log: unknown: " in out and "control plane log: unknown: " in out
    _, out, _ = told(capsys, "diagnose", "1/0", "--cycle-info-dir", str(root), "--json")
    found = json.loads(out)
    assert found["faults"] is None and found["application_log"] is None and found["conditions"] is None
    assert {"cascade", "conditions", "marker", "launcher log", "control plane log"} <= set(found["unknown"])


def test_without_a_name_the_last_cycle_that_a_fault_ended_is_meant(capsys, root: Path):
    _, out, _ = told(capsys, "diagnose", "--cycle-info-dir", str(root), "--json")
    assert json.loads(out)["cycle"]["incident"] == "inc-9"
    _, out, _ = told(capsys, "diagnose", "0", "--cycle-info-dir", str(root), "--json")
    assert json.loads(out)["cycle"]["attempt_index"] == 2, "of two attempts the newer one's"


def test_a_cycle_that_runs_and_one_that_ended_without_fault(capsys, root: Path):
    _, out, _ = told(capsys, "diagnose", "2/0", "--cycle-info-dir", str(root))
    assert "ended by    nothing: it runs" in out
    _, out, _ = told(capsys, "diagnose", "1/1", "--cycle-info-dir", str(root))
    assert "ended by    no fault: BUDGET_EXHAUSTED (none left)" in out and "job ended   with exit code 1" in out
