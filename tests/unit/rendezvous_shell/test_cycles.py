"""The record of each cycle, as a real machine's states give it: beginning, processes, end, verdict, and every crash."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from resurge_libs.core.ids import Rank
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import Verdict, VerdictKind
from resurge_libs.obs import cycle_files, log
from resurge_libs.testing import wait_until
from resurge_rendezvous.core.model import NodePhase, WorkerProcess
from resurge_rendezvous.cycles import CycleExport, CyclePlace
from tests.unit.rendezvous.desk import RESTART, Desk, spec, started


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    log.configure(stream=stream)
    yield stream
    log.configure()


class Watched(Desk):
    """A desk whose every step is told to an export, as the service tells it."""

    def __init__(self, root: Path, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.root = root
        self.export = CycleExport(CyclePlace(root, is_given=True))

    def ask(self, event):
        step = super().ask(event)
        self.export.told(step.state, step.facts)
        self.export.shown(step.state)
        return step

    def restart_service(self):
        """Killed: what was handed over may be lost, and is here; a new service takes up the journal."""
        super().restart_service()
        self.export = CycleExport(CyclePlace(self.root, is_given=True))
        self.export.catch_up(self.state)

    def told_of(self, cycle: int, attempt: int = 1) -> dict:
        self.settle()
        return json.loads(cycle_files.record_path(self.root, "job", attempt, cycle).read_text())

    def settle(self):
        wait_until(lambda: self.export._writer.is_idle)

    def with_processes(self, *nodes: str):
        for node in nodes:
            run = self.run_of(node)
            pid = 1_000 * int(run.generation) + int(run.base_rank)
            self.tell(
                node, NodePhase.RUNNING, run.generation, workers=(WorkerProcess(Rank(run.base_rank), 0, pid),)
            )  # fmt: skip
        self.settle()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Watched]:
    d = Watched(tmp_path)
    yield d
    d.export.close()


def current(d: Watched, attempt: int = 1) -> str:
    return cycle_files.current_path(d.root, "job", attempt).readlink().name


def test_a_cycle_is_there_with_its_rank_map_before_anything_of_it_runs(desk: Watched):
    desk.join("n0", "n1", log_root="/logs/job")
    told = desk.told_of(0)
    assert (told["generation"], told["active_nodes"], told["standby_nodes"]) == (1, "n[0-1]", "")
    assert told["cycle_end_time"] == "" and told["incident"] is None and told["restored_iteration"] is None
    assert [(at["rank"], at["host"], at["local_rank"], at["pid"]) for at in told["ranks"]] == [
        (0, "n0", 0, None),
        (1, "n1", 0, None),
    ]
    assert told["cycle_log_file"] == "/logs/job/1/0"
    assert current(desk) == "cycle_0.json"


def test_a_file_for_all_nodes_stands_before_their_directories(desk: Watched):
    desk.join("n0", "n1", log_root="/logs/job", log_prefix="/logs/app.txt")
    told = desk.told_of(0)
    assert told["cycle_log_file"] == "/logs/app_cycle0.txt"
    assert [(at["log_dir"], at["log_file"]) for at in told["nodes"]] == [("/logs/job/1/0", "/logs/app_cycle0.txt")] * 2


def test_processes_and_the_restored_step_follow_and_spares_are_standby(desk: Watched):
    started(desk, "n2")
    desk.with_processes("n0", "n1")
    told = desk.told_of(0)
    assert [at["pid"] for at in told["ranks"]] == [1000, 1001]
    assert told["restored_iteration"] == 7 and told["standby_nodes"] == "n2"


def test_an_incident_ends_a_cycle_and_the_next_one_names_it(desk: Watched):
    started(desk)
    desk.with_processes("n0", "n1")
    desk.now += 10
    desk.crash("n1")
    assert desk.told_of(0)["verdict"] is None, "it is not there yet"
    desk.verdict()
    desk.down("n0", "n1")
    desk.proven("n0", "n1")
    first, second = desk.told_of(0), desk.told_of(1)
    assert first["incident"] == second["recovery_of"] != ""
    assert (first["reason"], first["culprit"], first["verdict"]) == ("WORKER_SIGNAL", "n1/1", "RESTART")
    assert first["decided_by"] == "policy" and first["exit_code"] is None
    assert first["cycle_end_time"] > first["cycle_start_time"]
    assert [at["pid"] for at in first["ranks"]] == [1000, 1001], "known though its workers are gone"
    assert second["incident"] is None and second["restored_iteration"] == 7
    assert current(desk) == "cycle_1.json"


def test_a_verdict_that_comes_with_the_next_round_in_one_step_is_not_lost(desk: Watched):
    started(desk)
    desk.crash("n1")
    desk.down("n0", "n1")
    desk.verdict()  # both are down: this step closes the round as well
    assert desk.job.generation == 2
    assert desk.told_of(0)["verdict"] == "RESTART"


def test_each_round_of_one_incident_ends_its_own_cycle(desk: Watched):
    started(desk)
    desk.crash("n1")
    desk.verdict()
    desk.down("n0", "n1")
    desk.crash("n0", rank=0)
    desk.verdict(replace(RESTART, source="default"))
    desk.down("n0", "n1")
    assert desk.told_of(0)["culprit"] == "n1/1" and desk.told_of(1)["culprit"] == "n0/0"
    assert desk.told_of(0)["incident"] == desk.told_of(1)["incident"]
    assert (desk.told_of(0)["decided_by"], desk.told_of(1)["decided_by"]) == ("policy", "default")


def test_the_end_of_the_job_stands_in_its_last_cycle(desk: Watched):
    started(desk)
    desk.crash("n1")
    desk.verdict(Verdict(VerdictKind.STOP, Because(Reason.BUDGET_EXHAUSTED, "none left"), 1, source="policy"))
    told = desk.told_of(0)
    assert (told["verdict"], told["exit_code"], told["culprit"]) == ("STOP", 1, "n1/1")


def test_a_job_that_succeeds_ends_its_cycle_without_incident(desk: Watched):
    started(desk)
    desk.finish("n0", "n1")
    told = desk.told_of(0)
    assert (told["incident"], told["reason"], told["exit_code"]) == (None, "SUCCEEDED", 0)


@pytest.mark.parametrize("crash_at", ["running", "fenced", "decided", "formed"])
def test_a_service_that_crashes_at_any_stage_leaves_no_cycle_without_its_end(desk: Watched, crash_at: str):
    started(desk)
    desk.with_processes("n0", "n1")
    steps: dict[str, tuple[NodePhase, int, Callable[[], object]]] = {
        "running": (NodePhase.RUNNING, 1, lambda: desk.crash("n1")),
        "fenced": (NodePhase.TEARING_DOWN, 1, lambda: desk.verdict()),
        "decided": (NodePhase.TEARING_DOWN, 1, lambda: desk.down("n0", "n1")),
        "formed": (NodePhase.RUNNING, 2, lambda: desk.proven("n0", "n1")),
    }
    for stage, (phase, generation, step) in steps.items():
        if stage == crash_at:
            desk.settle()
            desk.restart_service()
            for node in ("n0", "n1"):
                desk.hello(node)
                desk.tell(node, phase, generation)
        step()
    desk.settle()
    told = desk.told_of(0)
    assert told["cycle_end_time"] != "" and told["verdict"] == "RESTART" and told["culprit"] == "n1/1"
    assert [at["pid"] for at in told["ranks"]] == [1000, 1001]
    assert desk.told_of(1)["generation"] == 2 and current(desk) == "cycle_1.json"
    assert len(list(cycle_files.attempt_dir(desk.root, "job", 1).glob("cycle_*"))) == 2, "nothing was put aside"


def test_another_attempt_has_a_place_of_its_own_and_closes_what_the_last_left_open(desk: Watched):
    started(desk)
    desk.now += 5
    desk.hello("m0", spec=spec(attempt=2))
    assert desk.job.attempt == 2
    left = desk.told_of(0, attempt=1)
    assert left["cycle_end_time"] != "" and left["reason"] == "NEW_ATTEMPT"
    desk.ready("m0")
    desk.hello("m1", spec=spec(attempt=2))
    desk.ready("m1")
    desk.wait(30, ("m0", "m1"))  # for the members of the attempt before
    assert desk.told_of(0, attempt=2)["generation"] == 2
    assert desk.told_of(0, attempt=1)["generation"] == 1, "untouched"


def test_a_journal_that_was_lost_overwrites_no_record_of_the_same_numbers(tmp_path: Path, said: io.StringIO):
    for hour in (0, 1):
        d = Watched(tmp_path)
        d.now += 3_600 * hour
        d.join("n0", "n1")
        d.settle()
        d.export.close()
    kept = {item.path.name: item.record.start for item in cycle_files.read_all(tmp_path, "job") if item.record}
    assert sorted(kept) == ["cycle_0.earlier-1.json", "cycle_0.json"]
    assert kept["cycle_0.json"] - kept["cycle_0.earlier-1.json"] == pytest.approx(3_600, abs=1)
    assert "cycle_record_put_aside" in said.getvalue()


def test_a_directory_that_cannot_be_written_is_said_once_and_nothing_else_happens(tmp_path: Path, said: io.StringIO):
    (tmp_path / "taken").write_text("a file")
    d = Watched(tmp_path / "taken")
    started(d)
    for _ in range(3):
        d.crash("n1")
        d.verdict()
        d.down("n0", "n1")
        d.proven("n0", "n1")
    d.settle()
    d.export.close()
    assert d.stage == "Running"
    assert said.getvalue().count("record_not_written") == 1 and str(tmp_path / "taken") in said.getvalue()


def test_records_in_the_state_directory_keep_within_their_bytes_and_the_newest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("resurge_rendezvous.cycles.OWN_BYTES_MAX", 2_000)
    d = Watched(tmp_path)
    d.export.close()
    d.export = CycleExport(CyclePlace(tmp_path, is_given=False))
    started(d)
    for _ in range(3):
        d.settle()
        d.crash("n1")
        d.verdict()
        d.down("n0", "n1")
        d.proven("n0", "n1")
    d.settle()
    kept = sorted(path.name for path in cycle_files.attempt_dir(tmp_path, "job", 1).glob("cycle_*"))
    assert kept == ["cycle_2.json", "cycle_3.json"]
    d.export.close()


def test_the_state_directory_leads_to_a_directory_that_was_named(tmp_path: Path):
    link = tmp_path / "state" / "cycles"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "of-an-earlier-start")
    export = CycleExport(CyclePlace(tmp_path / "named", is_given=True, link=link))
    export.catch_up(Desk().state)
    export.close()
    assert link.readlink() == tmp_path / "named"
