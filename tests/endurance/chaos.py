"""Kills every control-plane process and launcher of small real jobs at random moments, and counts what that cost.

    python -m tests.endurance.chaos [--kills 200] [--seed 1] [--per-job 12] [--keep DIR]

A job has two nodes and a spare, rendezvous and policy as processes of their own (or, in every third job, as one process
that a launcher starts), and workers that commit steps behind the fence; two clerks write to its store all the time and
an observer reads it. Kill points lie in the start, in calm training, in a recovery (a rank was killed just before), in
the start of the process that was just killed, and in the end of the job. The seed gives victims and moments; what the
machine makes of them is never twice the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import grpc

from resurge_api.rendezvous.v1 import rendezvous_pb2 as pb
from resurge_api.rendezvous.v1 import rendezvous_pb2_grpc
from resurge_libs.core.refusals import RpcProblem
from resurge_libs.core.time_limits import TimeLimits
from resurge_libs.engine.ports import JournalUnusable
from resurge_libs.rpc.options import channel_options
from resurge_libs.rpc.retry import call_sync
from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive
from tests.demo.ranks import Crew
from tests.endurance.answers import CALL_LIMIT_S, Answered, Asker, Clerk, Observer, audit
from tests.endurance.job import Shape, SmallJob
from tests.endurance.soak import circumstances, interrupted

SPLIT = Shape(spares=1, workers=1, is_split=True)
HOSTED = Shape(spares=1, workers=1, is_hosted=True)
HOSTED_EVERY = 3
"""In every third job n0's launcher starts the control plane, and starts it again when it was killed."""
RECOVERY_LIMIT_S = 60.0
MOST_UNFINISHED = 5
"""After so many the rest is not tried."""
PRESENT = (pb.NODE_STANDING_ACTIVE, pb.NODE_STANDING_SPARE)
STEPS_AFTER = 5
"""So many more steps show that workers went on."""


@dataclass
class Tally:
    """What was counted over all jobs; the words of each finding."""

    kill_points: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    incidents: int = 0
    answers: int = 0

    @property
    def is_good(self) -> bool:
        """Nothing was found."""
        return not (self.lost or self.doubled or self.stopped or self.unfinished)


class Run:
    """One job and its kill points."""

    def __init__(self, job: SmallJob, seed: int, tally: Tally) -> None:
        job.environ["RESURGE_POLICY__OFFENDER_FAULTS"] = "0"  # no machine is to blame for what is done to it here
        self.job, self.tally = job, tally
        self.chance = random.Random(seed)
        self.answered = Answered()
        self.victims = (*job.shape.services, *job.shape.launchers)
        self.done = 0
        self.where = "the start"
        self.channel = grpc.insecure_channel(job.endpoint, channel_options(TimeLimits()))
        self.stub = rendezvous_pb2_grpc.RendezvousServiceStub(self.channel)

    def play(self, points: int) -> None:
        """Start, kill points, end. Raises AssertionError when a recovery or the job does not end."""
        askers = [Asker(self.job.endpoint, Clerk(name, self.answered).turn) for name in ("clerk0", "clerk1")]
        askers.append(Asker(self.job.endpoint, Observer(self.answered).turn))
        self.job.start_all()
        for asker in askers:
            asker.start()
        try:
            self._points(points)
        finally:
            for asker in askers:
                asker.finish()
            self.channel.close()

    def _points(self, points: int) -> None:
        self.kill("in its start", self.chance.uniform(0.0, 2.5))
        self.job.training(limit_s=RECOVERY_LIMIT_S)
        while self.done < points - 1:
            self.chance.choice((self.calm, self.in_recovery, self.twice))()
        self.in_the_end()

    def kill(self, where: str, after_s: float, victim: str = "") -> str:
        """SIGKILL of a process at a moment; it is started again at another."""
        victim = victim or self.chance.choice(self.victims)
        again_s = self.chance.choice((0.0, self.chance.uniform(0.0, 1.0)))
        self._pause(after_s)
        self.where = f"{victim} {where}, after {after_s:.3f} s"
        self.job.kill(victim)
        self._pause(again_s)
        self.job.start(victim)
        self.done += 1
        self.tally.kill_points += 1
        return victim

    @staticmethod
    def _pause(seconds: float) -> None:
        threading.Event().wait(seconds)

    def calm(self) -> None:
        """While training just goes on: the death of a service, or of the spare, is nothing to the workers."""
        before = self.quiet()
        victim = self.kill("in calm training", self.chance.uniform(0.0, 0.3))
        if victim in before.nodes:
            self.job.training(after=before.generation, limit_s=RECOVERY_LIMIT_S)
        else:
            self.unharmed(before)

    def unharmed(self, before: Crew) -> None:
        """The same processes commit more steps, and the service knows the same generation."""
        want = self.job.crew().step + STEPS_AFTER

        def went_on() -> bool:
            now = self.job.crew()
            return now.pids != before.pids or now.step >= want

        self.job.wait(went_on, RECOVERY_LIMIT_S, "more steps after a kill")
        gone = [pid for pid in before.pids if not is_alive(pid)]
        now = self.job.crew()
        if gone or now.pids != before.pids:
            became = f"{sorted(before.pids)} became {sorted(now.pids)} of generation {now.generation}"
            self.tally.stopped.append(f"{self.where}: workers {became}")

    def in_recovery(self) -> None:
        """A rank is killed, and a little later a process of the control plane or a launcher."""
        before = self.quiet()
        rank = self.chance.choice(before.ranks)
        os.kill(rank.pid, signal.SIGKILL)
        self.kill("in a recovery", self.chance.choice((0.0, 0.05, 0.3, 0.8)) * self.chance.random())
        self.job.training(after=before.generation, limit_s=RECOVERY_LIMIT_S)

    def twice(self) -> None:
        """A process is killed in calm training, and again while it starts."""
        before = self.quiet()
        victim = self.kill("in calm training", self.chance.uniform(0.0, 0.3))
        self.kill("in its own start", self.chance.uniform(0.0, 1.5), victim)
        if victim in before.nodes:
            self.job.training(after=before.generation, limit_s=RECOVERY_LIMIT_S)
        else:
            self.unharmed(before)

    def quiet(self) -> Crew:
        """Training of the newest generation, with no recovery open and every launcher attached."""

        def calm() -> Crew | None:
            now = self.job.crew()
            return now if now.trains(self.job.shape.world) and self.stands_calm(now) else None

        found: Crew = self.job.wait(calm, RECOVERY_LIMIT_S, f"calm after {self.where}")
        return found

    def stands_calm(self, crew: Crew) -> bool:
        """Rendezvous says: this generation runs, no incident is open, all nodes are there."""
        try:
            job = call_sync(self.stub.GetJob, pb.GetJobRequest(), CALL_LIMIT_S).job
        except RpcProblem:
            return False
        there = {node.node_id for node in job.nodes if node.standing in PRESENT}
        is_running = job.phase == pb.JOB_PHASE_RUNNING and job.token.generation == crew.generation
        return is_running and not job.incident_id and there == set(self.job.shape.launchers)

    def in_the_end(self) -> None:
        """The workers are asked to end, and something dies meanwhile."""
        self.quiet()
        self.job.finish()
        # a control plane whose launcher has ended with 0 is started again by nobody
        victims = self.job.shape.launchers if self.job.shape.is_hosted else self.victims
        after_s = self.chance.choice((0.1, 1.0)) * self.chance.random()
        victim = self.kill("in its end", after_s, self.chance.choice(victims))
        others = [self.job.processes[name] for name in self.job.shape.launchers if name != victim]
        is_over = lambda: all(process.poll() is not None for process in others)  # noqa: E731
        wait_until(is_over, RECOVERY_LIMIT_S, f"the end after {self.where}")
        codes = [process.returncode for process in others]
        assert set(codes) == {0}, f"launchers ended with {codes} after {self.where}"


def commit_faults(job: SmallJob) -> list[str]:
    """Steps that a rank committed twice, or never, or under an older generation than the step before."""
    found = []
    for rank in range(job.shape.world):
        lines = (job.folder / f"commits-{rank}").read_text().splitlines()
        rows = [tuple(map(int, line.split())) for line in lines]
        for (generation, step, _), (later, following, pid) in pairwise(rows):
            if following != step + 1 or later < generation:
                row = f"step {following} of generation {later} (pid {pid})"
                found.append(f"rank {rank} committed {row} after step {step} of generation {generation}")
    return found


def play_one(folder: Path, seed: int, points: int, tally: Tally) -> None:
    """One job with so many kill points; what went wrong is added to the tally."""
    job = SmallJob(folder, f"chaos-{os.getpid()}-{seed}", HOSTED if seed % HOSTED_EVERY == 0 else SPLIT)
    run, seen_before = Run(job, seed, tally), len(_findings(tally))
    try:
        run.play(points)
    except (AssertionError, OSError) as error:
        tally.unfinished.append(f"{run.where}: {error}")
    finally:  # also when somebody interrupts: nothing may stay behind
        orphans = job.end()
    if orphans:
        tally.unfinished.append(f"workers outlived their launchers: {orphans}")
    try:
        found = audit(job.state_dir, run.answered)
        tally.lost += found.lost
        tally.doubled += [*found.doubled, *commit_faults(job)]
        tally.incidents += found.incidents
        if found.open_incident:
            tally.unfinished.append(f"recovery never ended: {found.open_incident}")
    except (JournalUnusable, OSError) as error:
        tally.lost.append(f"the journal cannot be read: {error}")
    tally.answers += len(run.answered.added) + len(run.answered.put)
    findings = _findings(tally)[seen_before:]
    for finding in findings:
        print(f"  FOUND {finding}", flush=True)
    if findings:
        print(f"{job.logs()}\n  everything is in {folder}", flush=True)
    else:
        shutil.rmtree(folder)


def _findings(tally: Tally) -> list[str]:
    return [*tally.lost, *tally.doubled, *tally.stopped, *tally.unfinished]


def main() -> int:
    """Jobs until all kill points are done; at most one job more than needed is started after a failed one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first job; the next one has the next")
    parser.add_argument("--per-job", type=int, default=12, help="kill points of one job")
    parser.add_argument("--keep", help="folder for jobs in which something was found")
    told = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupted)
    about, began = circumstances(), time.monotonic()
    root = Path(told.keep or tempfile.mkdtemp(prefix="resurge-chaos-")).resolve()
    tally, seed = Tally(), told.seed
    print(f"chaos: {told.kills} kill points from seed {told.seed}", flush=True)
    while tally.kill_points < told.kills and len(tally.unfinished) < MOST_UNFINISHED:
        play_one(root / f"seed-{seed}", seed, min(told.per_job, told.kills - tally.kill_points), tally)
        print(
            f"chaos: seed {seed}: {tally.kill_points} kill points, {tally.incidents} incidents, "
            f"{tally.answers} answers, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        seed += 1
    if not any(root.iterdir()) and not told.keep:
        root.rmdir()
    figures = {
        "kill_points": tally.kill_points,
        "answers_lost": len(tally.lost),
        "answers_doubled": len(tally.doubled),
        "stopped_without_fault": len(tally.stopped),
        "unfinished": len(tally.unfinished),
        "answers": tally.answers,
        "incidents": tally.incidents,
        "seeds": [told.seed, seed - 1],
        **about,
        "notes": _findings(tally)[:20],
    }
    print(json.dumps(figures))
    return 0 if tally.is_good and tally.kill_points >= told.kills else 1


if __name__ == "__main__":
    sys.exit(main())
