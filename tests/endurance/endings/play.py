"""Plays one end of one job and judges it: the code and the cause on every launcher, and in the durable record.

In some runs the control plane is killed at the moment of the verdict and started again: by its launcher, or, where
none has started it, by the test, as systemd would.
"""

from __future__ import annotations

import random
import re
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.hosting.own_log import LOG_NAME
from resurge_libs.rpc.records import read_job
from resurge_libs.testing import NeverHappened, wait_until
from tests.endurance.endings.cells import WORKER, Cell, Ending, Stage
from tests.endurance.job import SmallJob

START_LIMIT_S = 60.0
END_LIMIT_S = 45.0
RECORD_LIMIT_S = 30.0
LOOK_S = 0.001
KILL_EVERY = 3
SPREAD_S = 0.06
"""A kill that is not aimed at a line of the log comes within so long of the act."""
_LAST = re.compile(r"launcher_exits .*?exit_code=(\d+) cause=(\w+)")
_CONTROL = re.compile(r"control_(lost|back)\b")


@dataclass(frozen=True)
class Kill:
    """When the control plane is killed: at a line of its own log, or so long after the act."""

    line: str = ""
    after_s: float = 0.0

    def __str__(self) -> str:
        return f"at {self.line}" if self.line else f"{self.after_s * 1000:.0f} ms after the act"


def kill_of(number: int, seed: int, every: int = KILL_EVERY) -> Kill | None:
    """Every third run has one: at the decision, just after the act or at the incident, in turn."""
    if number % every:
        return None
    match number // every % 3:
        case 0:
            return Kill("job_ended")
        case 1:
            return Kill(after_s=random.Random(f"{seed}/{number}").uniform(0.0, SPREAD_S))
        case _:
            return Kill("incident_opened|recommendation|node_excluded|drain_ordered|job_ended")


@dataclass(frozen=True)
class Played:
    """One run."""

    cell: str
    number: int
    took_s: float
    kill: Kill | None
    problem: str = ""


class Killer(threading.Thread):
    """Kills the control plane once, when it is time, and sees to it that it is started again."""

    def __init__(self, job: SmallJob, kill: Kill) -> None:
        super().__init__(daemon=True)
        self.job, self.kill = job, kill
        self.log = job.state_dir / LOG_NAME if job.shape.is_hosted else job.folder / "control.log"
        self.begun_at = self.log.stat().st_size
        self.is_over = threading.Event()
        self.has_killed = False

    def run(self) -> None:
        if self.kill.line:
            pattern = re.compile(rf"\b({self.kill.line})\b".encode())
            while not pattern.search(self._news()):
                if self.is_over.wait(LOOK_S):
                    return
        else:
            self.is_over.wait(self.kill.after_s)
        self.job.kill("control")
        self.has_killed = True
        self.job.start("control")

    def _news(self) -> bytes:
        with self.log.open("rb") as file:
            file.seek(self.begun_at)
            return file.read()


def play(cell: Cell, number: int, seed: int, folder: Path, kill_every: int = KILL_EVERY) -> Played:
    """Start the job, let it train, bring the end about, and look at what everybody ended with."""
    kill = kill_of(number, seed, kill_every)
    shape = replace(cell.shape, is_hosted=number // 2 % 2 == 0)
    job = SmallJob(folder, f"endings-{folder.name}", shape, script=WORKER, environ=_environ(cell, folder))
    began, problem, ended_s = time.monotonic(), "", 0.0
    try:
        job.start_all()
        job.training(limit_s=START_LIMIT_S)
        wait_until(lambda: len(attached(job)) == len(shape.launchers), START_LIMIT_S, "every launcher")
        stage = Stage(job, number)
        if cell.ready is not None:
            cell.ready(stage)
        ended_s = time.monotonic()
        killer = Killer(job, kill) if kill is not None else None
        if killer is not None:
            killer.start()
        ending = cell.act(stage)
        _await_end(job)
        ended_s = time.monotonic() - ended_s
        if killer is not None:
            killer.is_over.set()
            killer.join(END_LIMIT_S)
            assert killer.has_killed, f"the control plane was never killed {kill}"
        _judge(job, ending)
    except (AssertionError, OSError, subprocess.TimeoutExpired, NeverHappened) as error:
        problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    finally:
        orphans = job.end()
    if orphans and not problem:
        problem = f"workers outlived their launchers: {orphans}"
    return Played(cell.name, number, ended_s or time.monotonic() - began, kill, problem)


def _environ(cell: Cell, folder: Path) -> dict[str, str]:
    """The cell's variables for a job in this folder, and the marker of a checkpoint that was completed long ago."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "marker").write_text("10")
    return {name: text.format(folder=folder) for name, text in cell.environ.items()}


def attached(job: SmallJob) -> list[str]:
    """The nodes that the job's record knows."""
    record = read_job(job.state_dir)
    return [node.node_id for node in record.nodes] if record is not None else []


def _await_end(job: SmallJob) -> None:
    left: Callable[[], bool] = lambda: all(job.processes[name].poll() is not None for name in job.shape.launchers)  # noqa: E731
    wait_until(left, END_LIMIT_S, "the end of every launcher")


def _judge(job: SmallJob, ending: Ending) -> None:
    want = (ending.code, ending.cause.value)
    right = {want, *((ending.code, cause.value) for cause in ending.own)}
    found = {name: (job.processes[name].returncode, last_cause(job.folder / f"{name}.log")) for name in job.run_dirs}
    assert set(found.values()) <= right, f"every launcher must end with {want}: {found}"
    if want not in found.values() and all(_left_unheard(job.folder / f"{name}.log") for name in job.run_dirs):
        return  # before the control plane was there again: nobody was left to tell it
    decision = _recorded(job)
    assert (decision.exit_code, decision.cause) == want, f"the record says {decision.exit_code} ({decision.cause})"


def _left_unheard(log: Path) -> bool:
    """Whether a launcher had lost the control plane when it left."""
    return _CONTROL.findall(log.read_text(errors="replace"))[-1:] == ["lost"]


def last_cause(log: Path) -> str:
    """The cause in a launcher's last line."""
    found = _LAST.findall(log.read_text(errors="replace"))
    return found[-1][1] if found else "none"


def _recorded(job: SmallJob) -> rendezvous_pb2.TerminalDecision:
    """The decision in the job's record; a control plane that nobody started again is started for it."""

    def decision() -> rendezvous_pb2.TerminalDecision | None:
        record = read_job(job.state_dir)
        return record.decision if record is not None and record.HasField("decision") else None

    try:
        return wait_until(decision, 1.0, "a decision in the record")
    except NeverHappened:
        if job.shape.is_hosted and not job.hosted_pid():
            job.shape = replace(job.shape, is_hosted=False)
            job.start("control")
        return wait_until(decision, RECORD_LIMIT_S, "a decision in the record, by a new control plane")
