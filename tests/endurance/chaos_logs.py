"""Kills log server, leaves, senders, launchers and workers at random moments while lines are printed, and counts.

    python -m tests.endurance.chaos_logs [--kills 200] [--seed 1] [--per-job 12] [--keep DIR] [--no-peer]

A job has two nodes of two workers that print without a pause. Each keeps the number of its lines on a page that
outlives it, so that after its death all that it wrote is looked for in the file of its cycle: once, and in order.
Beside them a sender of its own knows each acknowledgement that it got, and a spool with a small limit has to name what
it gives up.
The published peer's log server has its own root killed under the same kind of lines, and its loss is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from resurge_launcher.logs import spool
from resurge_launcher.logs.spool import SpoolNote
from resurge_libs.testing import wait_until
from tests.bench.peers import PeerMissing, find_or_make
from tests.endurance.log_job import LEAVES, LogJob, Shape, audit, start_sender
from tests.endurance.soak import circumstances, interrupted
from tests.fakes.host import HostProcess
from tests.fakes.log_sender import LogSender

RECOVERY_LIMIT_S = 60.0
END_LIMIT_S = 60.0
MOST_UNFINISHED = 5
WITNESS_CYCLE = 900
WITNESS_LINES = 20_000
GAP_LINE = re.compile(rb"\[resurge: (\d+) bytes in (\d+) lines are missing here: .+\]")
PEER_KILLS = 4
PEER_SCRIPT = Path(__file__).with_name("programs") / "peer_logs.py"


@dataclass
class Tally:
    """What was counted over all jobs; the words of each finding."""

    kills: dict[str, int] = field(default_factory=dict)
    acked_lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    written_lost: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    gaps_named: int = 0
    gaps_wrong: list[str] = field(default_factory=list)
    lines: int = 0
    acked_lines: int = 0

    @property
    def findings(self) -> list[str]:
        """All of them."""
        return [*self.acked_lost, *self.doubled, *self.written_lost, *self.gaps_wrong, *self.unfinished]

    @property
    def all_kills(self) -> int:
        """How many."""
        return sum(self.kills.values())


class Witness(threading.Thread):
    """Sends numbered lines and keeps each acknowledgement; one file after the other."""

    def __init__(self, endpoints: list[str], out: Path, job: str, tally: Tally) -> None:
        super().__init__(daemon=True)
        self.endpoints, self.out, self.job, self.tally = endpoints, out, job, tally
        self.now: LogSender | None = None
        self.cycle = WITNESS_CYCLE
        self.enough = threading.Event()

    def run(self) -> None:
        """Until told that it is enough, and then to the end of the file at hand."""
        while not self.enough.is_set():
            endpoint = self.endpoints[self.cycle % len(self.endpoints)]
            sender = LogSender(endpoint, 0, 1, WITNESS_LINES)
            sender.source.cycle, sender.job = self.cycle, self.job
            self.now = sender
            asyncio.run(sender.run())
            self.look(to_the_end=True)
            self.cycle += 1
            self.enough.wait(0.3)

    def look(self, to_the_end: bool = False) -> None:
        """What was acknowledged is in the file, from its first byte on, and nothing else."""
        sender = self.now
        if sender is None or not sender.durable:
            return
        acked, path = sender.durable, self.out / f"app_cycle{sender.source.cycle}.log"
        there = path.read_bytes() if path.exists() else b""
        if there[:acked] != sender.text[:acked]:
            self.tally.acked_lost.append(f"{path.name}: of {acked} acknowledged bytes not all are there")
        if to_the_end:
            self.tally.acked_lines += WITNESS_LINES
            if len(there) > len(sender.text):
                self.tally.doubled.append(f"{path.name}: {len(there)} bytes for {len(sender.text)}")


class Run:
    """One job and its kills."""

    def __init__(self, job: LogJob, seed: int, tally: Tally) -> None:
        self.job, self.tally, self.chance = job, tally, random.Random(seed)
        self.witness = Witness([job.log_endpoint, *job.leaf_endpoints], job.out, job.job_id, tally)
        self.done = 0
        self.where = "the start"

    def play(self, kills: int) -> None:
        """Start, kills, end. Raises AssertionError when a recovery or the job does not end."""
        self.job.start_all()
        self.job.training(limit_s=RECOVERY_LIMIT_S)
        self.witness.start()
        deck: list[Callable[[], None]] = []
        while self.done < kills:
            if not deck:  # every kind has its turns in every job
                deck = [self.log_server, self.sender, self.worker, self.launcher, self.log_server, self.leaf, self.leaf]
                self.chance.shuffle(deck)
            kind = deck.pop()
            self.where = f"kill {self.done} of {kind.__name__}"
            threading.Event().wait(self.chance.uniform(0.0, 0.6))
            kind()
        self.where = "the end"
        self._end()

    def _count(self, kind: str) -> None:
        self.done += 1
        self.tally.kills[kind] = self.tally.kills.get(kind, 0) + 1

    def log_server(self) -> None:
        """Killed, and at once or later started again; sometimes killed again while it starts."""
        for _ in range(self.chance.choice((1, 1, 2))):
            self.job.kill("logs")
            self._count("log_server")
            self.witness.look()
            threading.Event().wait(self.chance.choice((0.0, self.chance.uniform(0.0, 1.5))))
            self.job.start("logs")
            threading.Event().wait(self.chance.uniform(0.0, 1.5))

    def leaf(self) -> None:
        """Killed, and at once or later started again; its nodes wait for it, or go to the other one."""
        name = self.chance.choice(LEAVES)
        self.job.kill(name)
        self._count("leaf")
        self.witness.look()
        threading.Event().wait(self.chance.choice((0.0, self.chance.uniform(0.0, 5.0))))
        self.job.start(name)

    def sender(self) -> None:
        """Killed; its launcher starts another."""
        node = self.chance.choice(self.job.shape.launchers)
        if self.job.kill_sender(node):
            self._count("sender")

    def worker(self) -> None:
        """Killed in the middle of a line, or not."""
        before = self.job.crew()
        os.kill(self.chance.choice(before.ranks).pid, signal.SIGKILL)
        self._count("worker")
        self.job.training(after=before.generation, limit_s=RECOVERY_LIMIT_S)

    def launcher(self) -> None:
        """Killed, its workers die with it; sometimes the sender too, and the log server is away meanwhile."""
        before, name = self.job.crew(), self.chance.choice(self.job.shape.launchers)
        self.job.kill(name)
        self._count("launcher")
        if self.chance.random() < 0.5 and self.job.kill_sender(name):
            self._count("sender")
        threading.Event().wait(self.chance.choice((0.0, self.chance.uniform(0.0, 1.0))))
        self.job.start(name)
        self.job.training(after=before.generation, limit_s=RECOVERY_LIMIT_S)

    def _end(self) -> None:
        self.job.finish()
        launchers = [self.job.processes[name] for name in self.job.shape.launchers]
        wait_until(lambda: all(one.poll() is not None for one in launchers), END_LIMIT_S, "the launchers' end")
        wait_until(lambda: self.job.left() == 0, END_LIMIT_S, "the end of every source")
        self.witness.enough.set()
        self.witness.join(END_LIMIT_S)
        assert not self.witness.is_alive(), "the witness's lines are not durable"
        senders = lambda: [pid for name in self.job.shape.launchers for pid in self.job.senders(name)]  # noqa: E731
        wait_until(lambda: not senders(), END_LIMIT_S, "the senders' end")


def play_one(folder: Path, seed: int, kills: int, tally: Tally) -> None:
    """One job with so many kills; what went wrong is added to the tally."""
    job = LogJob(folder, f"chaos-logs-{os.getpid()}-{seed}", Shape())
    job.environ["RESURGE_POLICY__OFFENDER_FAULTS"] = "0"  # no machine is to blame for what is done to it here
    run, before = Run(job, seed, tally), len(tally.findings)
    try:
        run.play(kills)
    except (AssertionError, OSError) as error:
        tally.unfinished.append(f"seed {seed}, {run.where}: {error}")
    finally:  # also when somebody interrupts: nothing may stay behind
        run.witness.enough.set()
        job.end()
    found = audit(job.out, folder)
    tally.written_lost += found.written_lost
    tally.doubled += found.doubled
    tally.lines += found.lines
    for finding in tally.findings[before:]:
        print(f"  FOUND {finding}", flush=True)
    if len(tally.findings) > before:
        print(f"{job.logs()}\n  everything is in {folder}", flush=True)
    else:
        shutil.rmtree(folder)


def play_gap(folder: Path, seed: int, tally: Tally) -> None:
    """A log server that is away for long, and a spool that may hold little: what is given up is named."""
    chance, own, lines = random.Random(seed), folder / "spool", 60_000
    text = [b"line 1 %d %s\n" % (number, b"x" * 80) for number in range(lines)]
    more = ("--applog-prefix", str(folder / "app.log"), "--sync-interval-s", "0.1")
    descriptor = spool.open_for_worker(own, SpoolNote("job", "n0", 0, 1, 0, 0, 1, incarnation=7))
    with HostProcess(folder / "state", module="resurge_log_aggregator", more=more) as host:
        host.kill()
        sender = start_sender(own, host.endpoint, "--limit-bytes", str(1 << 20))
        try:
            upto = chance.randrange(lines // 2, lines - 1)
            os.write(descriptor, b"".join(text[:upto]))
            wait_until(lambda: list(own.glob(f"*{spool.GONE}")), 20, "something given up")
            sender.kill()
            sender.wait()
            tally.kills["sender"] = tally.kills.get("sender", 0) + 1
            sender = start_sender(own, host.endpoint)
            host.start()
            os.write(descriptor, b"".join(text[upto:]))
            spool.end_generation(own, 1)
            spool.close(own)
            assert sender.wait(END_LIMIT_S) == 0, "the sender did not end"
        finally:
            os.close(descriptor)
            sender.kill()
            sender.wait()
    _judge_gaps((folder / "app_cycle0.log").read_bytes().splitlines(), [b"0: " + line[:-1] for line in text], tally)


def _judge_gaps(got: list[bytes], wrote: list[bytes], tally: Tally) -> None:
    """Between two lines that follow on each other either nothing is missing, or a line says how many are."""
    at = 0
    for line in got:
        told = GAP_LINE.search(line)
        if told is not None:
            at += int(told[2])
            tally.gaps_named += 1
        elif at < len(wrote) and line == wrote[at]:
            at += 1
        else:
            tally.gaps_wrong.append(f"line {at} was expected, {line[:60]!r} is there")
            return
    if at != len(wrote):
        tally.gaps_wrong.append(f"{len(wrote) - at} lines at the end are missing and no line says so")


def peer_lost(notes: list[str]) -> int | None:
    """Lines that the published peer loses while its log server is killed; None where it is not there."""
    try:
        peer = find_or_make()
        words = [peer.python, str(PEER_SCRIPT), "--kills", str(PEER_KILLS)]
        done = subprocess.run(
            words, env={**os.environ, "PYTHONPATH": peer.source}, capture_output=True, text=True, timeout=300
        )
        told = json.loads(done.stdout.splitlines()[-1])
    except (PeerMissing, subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        notes.append(f"peer_lost: the peer could not be asked: {error}")
        return None
    notes.append(f"peer: {told['kills']} kills of its root, {told['lost']} of {told['written']} lines lost")
    return int(told["lost"])


def main() -> int:
    """Jobs until all kills are done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first job; the next one has the next")
    parser.add_argument("--per-job", type=int, default=12, help="kills of one job")
    parser.add_argument("--keep", help="folder for jobs in which something was found")
    parser.add_argument("--no-peer", action="store_true", help="leave the published peer out")
    told = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupted)
    about, began = circumstances(), time.monotonic()
    root = Path(told.keep or tempfile.mkdtemp(prefix="resurge-chaos-logs-")).resolve()
    tally, seed, notes = Tally(), told.seed, list[str]()
    print(f"chaos-logs: {told.kills} kills from seed {told.seed}", flush=True)
    play_gap(root / "gap", told.seed, tally)
    while tally.all_kills < told.kills and len(tally.unfinished) < MOST_UNFINISHED:
        play_one(root / f"seed-{seed}", seed, min(told.per_job, told.kills - tally.all_kills), tally)
        print(f"chaos-logs: seed {seed}: {tally.kills}, {time.monotonic() - began:.0f} s", flush=True)
        seed += 1
    lost = None if told.no_peer else peer_lost(notes)
    if told.no_peer:
        notes.append("peer_lost: left out")
    if not tally.findings and not told.keep:
        shutil.rmtree(root)
    figures = {
        "kills": tally.all_kills,
        "acked_lost": len(tally.acked_lost),
        "doubled": len(tally.doubled),
        "written_lost": len(tally.written_lost),
        "gaps_named": tally.gaps_named,
        "peer_lost": lost,
        "gaps_wrong": len(tally.gaps_wrong),
        "unfinished": len(tally.unfinished),
        "killed": tally.kills,
        "lines": tally.lines,
        "acked_lines": tally.acked_lines,
        "seeds": [told.seed, seed - 1],
        **about,
        "notes": [*notes, *tally.findings[:20]],
    }
    print(json.dumps(figures))
    return 0 if not tally.findings and tally.all_kills >= told.kills else 1


if __name__ == "__main__":
    sys.exit(main())
