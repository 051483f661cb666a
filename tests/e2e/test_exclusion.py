"""Excluding nodes with real launchers: by an operator, by the policy, over every restart, for a scheduler to read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resurge_libs.testing import wait_until
from tests.demo.ranks import Crew
from tests.endurance.job import RESURGE, Shape, SmallJob

END_LIMIT_S = 30.0


class Operated(SmallJob):
    """A job with somebody at its commands."""

    def tell(self, *words: str) -> tuple[str, str]:
        """What a command printed, and what it said beside."""
        command = [*RESURGE, *words, "--endpoint", self.endpoint]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout, done.stderr

    def nodes(self) -> dict[str, Any]:
        """Every node as `resurge nodes --json` shows it, by name."""
        return {node["node_id"]: node for node in json.loads(self.tell("nodes", "--json")[0])}

    def is_excluded(self, node: str) -> bool:
        """Whether a control plane answers and says so."""
        with contextlib.suppress(subprocess.CalledProcessError):
            return bool(self.nodes()[node]["standing"] == "NODE_STANDING_EXCLUDED")
        return False

    def begun(self) -> Crew:
        """The ranks on n0 and n1, once they train and n2 waits as a spare."""
        for name in ("control", "n0", "n1"):
            self.start(name)
        crew = self.training()
        self.start("n2")
        wait_until(lambda: "n2" in self.nodes(), 30, "the spare")
        return crew

    def crash(self, node: str) -> None:
        """Kill a worker of this node."""
        os.kill(next(rank.pid for rank in self.crew().ranks if rank.node == node), signal.SIGKILL)

    def exit_code(self, node: str) -> int:
        return self.processes[node].wait(END_LIMIT_S)


def job_of(tmp_path: Path, *flags: str, **environ: str) -> Operated:
    shape = Shape(nodes=2, spares=1, workers=1, flags=("--warm", "off", *flags))
    return Operated(tmp_path / "job", f"exclusion-{os.getpid()}", shape, environ=environ)


@pytest.fixture
def jobs() -> Iterator[list[SmallJob]]:
    made: list[SmallJob] = []
    yield made
    for job in made:
        orphans = job.end()
        print(job.logs(40))
        assert orphans == [], "workers outlived their launchers"


@pytest.mark.users_row(45)
def test_an_excluded_node_stays_out_over_every_restart_until_it_is_readmitted(tmp_path: Path, jobs: list[SmallJob]):
    listed = tmp_path / "excluded"
    job = job_of(tmp_path, RESURGE_RENDEZVOUS__EXCLUSION_FILE=str(listed))
    jobs.append(job)
    first = job.begun()
    wait_until(lambda: listed.exists() and listed.read_text() == "", 10, "an empty list")
    out, err = job.tell("exclude", "n1", "--reason", "fans are loud", "--for", "2h")
    assert "fans are loud" in out and err == "", "there is a spare: no risk to be told of"
    host = os.uname().nodename.partition(".")[0]
    wait_until(lambda: listed.read_text() == f"{host}\n", 10, "the host in the list")
    assert json.loads(listed.with_name("excluded.json").read_text())["excluded"][0]["sentence"] == "fans are loud"
    job.crash("n1")
    second = job.training(after=first.generation)
    assert second.nodes == {"n0", "n2"}

    job.kill("control")
    job.start("control")
    job.kill("n1")
    job.start("n1")
    wait_until(lambda: job.is_excluded("n1"), 30, "the launcher, still out")
    told = job.nodes()["n1"]["exclusion"]
    assert told["because"]["sentence"] == "fans are loud" and "@" in told["by"] and told["until"] > told["at"]
    job.crash("n2")
    third = job.training(after=second.generation)
    assert third.nodes == {"n0", "n2"}

    job.tell("readmit", "n1")
    wait_until(lambda: listed.read_text() == "", 10, "the list without it")
    job.kill("n2")
    fourth = job.training(after=third.generation, may_end=("n2",))
    assert fourth.nodes == {"n0", "n1"}
    job.finish()
    assert [job.exit_code(node) for node in ("n0", "n1")] == [0, 0]


def test_an_excluded_launcher_leaves_at_once_where_that_is_wanted(tmp_path: Path, jobs: list[SmallJob]):
    job = job_of(tmp_path, "--on-excluded", "exit")
    jobs.append(job)
    first = job.begun()
    job.tell("exclude", "n0")
    assert job.processes["n0"].poll() is None, "what runs goes on"
    job.crash("n1")
    assert job.exit_code("n0") == 1
    second = job.training(after=first.generation, may_end=("n0",))
    assert second.nodes == {"n1", "n2"}
    job.finish()
    assert [job.exit_code(node) for node in ("n1", "n2")] == [0, 0]
    assert "exit_code=1 cause=excluded reason=EXCLUDED" in (job.folder / "n0.log").read_text()


def test_a_machine_that_keeps_failing_is_left_out_and_parked_to_the_end(tmp_path: Path, jobs: list[SmallJob]):
    job = job_of(tmp_path, RESURGE_POLICY__OFFENDER_FAULTS="2", RESURGE_POLICY__FREE_FAILURES="9")
    jobs.append(job)
    first = job.begun()
    job.crash("n1")
    second = job.training(after=first.generation)
    assert second.nodes == {"n0", "n1"}, "once is no habit"
    job.crash("n1")
    third = job.training(after=second.generation)
    assert third.nodes == {"n0", "n2"}
    bad = job.nodes()["n1"]
    assert bad["exclusion"]["is_automatic"] and bad["exclusion"]["by"] == "policy"
    assert bad["exclusion"]["because"]["sentence"].startswith("2 faults within 10 cycles began on n1")
    assert bad["offences"] == 2
    job.finish()
    assert [job.exit_code(node) for node in ("n0", "n1", "n2")] == [0, 0, 0]


def test_verdicts_exclude_nobody_where_the_job_says_so(tmp_path: Path, jobs: list[SmallJob]):
    job = job_of(tmp_path, "--max-excluded-share", "0", RESURGE_POLICY__OFFENDER_FAULTS="1")
    jobs.append(job)
    first = job.begun()
    job.crash("n1")
    second = job.training(after=first.generation)
    assert second.nodes == {"n0", "n1"}
    assert "a share of 0 of the nodes allows 0" in job.nodes()["n1"]["would_exclude"]["sentence"]
    job.finish()
    assert [job.exit_code(node) for node in ("n0", "n1", "n2")] == [0, 0, 0]
