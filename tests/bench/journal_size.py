"""What a job's state directory weighs after very many incidents, and how soon the next control plane takes it up.

The core is driven by hand in virtual time, as the unit tests drive it; its facts go into the real journal, its records
and spans through the real export, all on a disk. Each incident is a whole recovery of two nodes with two workers each:
a worker dies, teardown, verdict, round, start, first step of every rank, with the spans that launchers report. Decides
nothing about rendezvous; holds the targets.

    python -m tests.bench.journal_size [--incidents 10000] [--keep DIR]
"""

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from resurge_libs.core import codec
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import Verdict, VerdictKind
from resurge_libs.engine.ports import Entry, Snapshot
from resurge_libs.engine.replay import fact_record, restore
from resurge_libs.engine.sqlite_journal import SqliteJournal
from resurge_libs.hosting.own_log import LOG_BYTES_MAX, LOG_NAME
from resurge_libs.hosting.run import SPANS_NAME
from resurge_libs.obs import log
from resurge_libs.obs.generations import Generations
from resurge_libs.obs.sinks import JsonLinesSink
from resurge_libs.rpc.records import read_recoveries
from resurge_rendezvous import tell
from resurge_rendezvous.core.model import Fact, Job, NodePhase, ObservedSpan
from resurge_rendezvous.core.step import RULES_VERSION, RendezvousMachine
from resurge_rendezvous.export import RecoveryExport
from resurge_rendezvous.settings import RendezvousSettings
from tests.unit.rendezvous.desk import Desk, spec

MIB = 2**20
SIZE_LIMIT_MIB = 64.0
"""What "small" means: of the whole directory, however many incidents there were."""
GROWTH_LIMIT = 1.1
"""The second half of the incidents may add so much: flat, but for where each file stands between two clearings."""
REPLAY_LIMIT_S = 2.0
NODES, WORKERS = ("n0", "n1"), 2
RECOVERY_S = 0.4
SNAPSHOT_EVERY = RendezvousSettings().snapshot_every
KNOWN = ("journal.sqlite", "recoveries.jsonl", SPANS_NAME, LOG_NAME)


@dataclass
class Weighed:
    """What was measured."""

    incidents: int
    half_mib: dict[str, float] = field(default_factory=dict)
    mib: dict[str, float] = field(default_factory=dict)
    replay_s: float = 0.0
    catch_up_s: float = 0.0
    records_remembered: int = 0
    records_readable: int = 0
    records_closed: int = 0
    incidents_per_s: float = 0.0

    @property
    def total_mib(self) -> float:
        return sum(self.mib.values())

    @property
    def growth(self) -> float:
        """The whole over what half the incidents had left."""
        return self.total_mib / max(sum(self.half_mib.values()), 1e-9)


class Log(io.TextIOBase):
    """The control plane's log, bounded as a host bounds it."""

    def __init__(self, path: Path) -> None:
        self._files = Generations(path, LOG_BYTES_MAX, 1)

    def write(self, text: str) -> int:
        self._files.append(text.encode(), 0o600)
        return len(text)


class DurableDesk(Desk):
    """A desk whose facts go into a journal, and whose records are exported, as the engine and its effects do it."""

    def __init__(self, directory: Path, incidents: int) -> None:
        super().__init__(spec(max_nodes=len(NODES), max_restarts=incidents + 1), check=False)
        self.journal = SqliteJournal(directory, self.spec.job_id)
        self.export = RecoveryExport(directory, JsonLinesSink(directory / SPANS_NAME))
        self.digester = codec.Digester()
        self.seq = 0
        self.durable = None
        """When the last entry is on the disk."""

    def ask(self, event):
        step = super().ask(event)
        if step.facts:
            self._remember(event, step)
        self.facts.clear()
        self.asked = self.asked[-1:]
        for record in self.exported:
            self.export.export(record)
        self.exported.clear()
        self.closed.clear()
        self.replies.clear()
        return step

    def _remember(self, event, step) -> None:
        self.seq += 1
        durable = step.state.durable
        facts = tuple(fact_record(fact) for fact in step.facts)
        digest = self.digester.digest(durable)
        entry = Entry(self.seq, self.wall, type(event).__name__, step.reason, facts, digest, RULES_VERSION)
        self.durable = self.journal.append((entry,))
        if self.seq % SNAPSHOT_EVERY == 0:
            self.journal.snapshot(Snapshot(self.seq, codec.encode(durable), digest, RULES_VERSION))
        for fact in step.facts:
            tell.fact(fact, step.reason)

    def recover(self, number: int) -> None:
        """One whole incident, with the spans that launchers report."""
        victim = NODES[number % len(NODES)]
        self.now = type(self.now)(self.now + 60.0)
        self.crash(victim, signal=9)
        open_incident = self.job.open_incident
        assert open_incident is not None
        self.verdict(RESTART_WITHIN)
        self.now = type(self.now)(self.now + RECOVERY_S)
        self.down(*NODES)
        for node in NODES:
            goal = self.run_of(node)
            spans = tuple(self._span(name, goal.base_rank) for name in ("teardown", "spawn", "detect"))
            more = {"spans": spans, "incident": open_incident.incident}
            self.tell(node, NodePhase.RUNNING, goal.generation, **more)
        self.proven(*NODES)
        assert self.durable is not None
        self.durable.result(30.0)  # as the engine waits: no more than one batch is under way

    def _span(self, name: str, rank: int) -> ObservedSpan:
        told = (("resurge.reason", "WORKER_SIGNAL"), ("resurge.generation", str(self.job.generation)))
        end = Wall(self.wall)
        return ObservedSpan(name, Wall(end - RECOVERY_S), end, Rank(rank) if name == "detect" else None, told)

    def close_all(self) -> None:
        """Everything is on the disk."""
        self.journal.close()
        self.export.close()


RESTART_WITHIN = Verdict(
    VerdictKind.RESTART,
    Because(Reason.WORKER_SIGNAL, "rank 3 on n1: rank 3 was ended by signal 9; 7 of 8 restarts left"),
    source="policy",
)


def sizes(directory: Path) -> dict[str, float]:
    """MiB by what the files are: older generations and SQLite's companions count with their file."""
    found: dict[str, float] = {}
    for path in directory.iterdir():
        name = next((known for known in KNOWN if path.name.startswith(known)), path.name)
        found[name] = found.get(name, 0.0) + path.stat().st_size / MIB
    return {name: round(size, 3) for name, size in sorted(found.items())}


def weigh(directory: Path, incidents: int, said=print) -> Weighed:
    """Fill the directory and take the job up again."""
    result = Weighed(incidents)
    log.configure(stream=Log(directory / LOG_NAME))
    desk = DurableDesk(directory, incidents)
    desk.join(*NODES, local_world_size=WORKERS)
    desk.proven(*NODES)
    began = time.monotonic()
    for number in range(incidents):
        desk.recover(number)
        if number + 1 == incidents // 2:
            result.half_mib = sizes(directory)
            said(f"  {number + 1} incidents: {sum(result.half_mib.values()):.1f} MiB {result.half_mib}", flush=True)
    result.incidents_per_s = incidents / (time.monotonic() - began)
    desk.close_all()
    log.configure()
    result.mib = sizes(directory)
    said(f"  {incidents} incidents: {result.total_mib:.1f} MiB {result.mib}", flush=True)
    _take_up(desk, directory, result)
    return result


def _take_up(desk: DurableDesk, directory: Path, result: Weighed) -> None:
    began = time.monotonic()
    journal = SqliteJournal(directory, desk.spec.job_id)
    found = restore(RendezvousMachine(desk.limits), Job(), journal.replay(), Fact, rules_version=RULES_VERSION)
    result.replay_s = time.monotonic() - began
    assert found.damage is None and found.durable == desk.job, "the journal does not say what the core decided"
    result.records_remembered, result.records_closed = len(found.durable.records), found.durable.recoveries_closed
    began = time.monotonic()
    again = RecoveryExport(directory, JsonLinesSink(directory / SPANS_NAME))
    before = sizes(directory)
    again.catch_up(found.durable.records)
    again.close()
    result.catch_up_s = time.monotonic() - began
    assert sizes(directory) == before, "the next start exported again what the files hold"
    journal.close()
    result.records_readable = len(read_recoveries(directory).recoveries)


def targets(result: Weighed) -> list[tuple[bool, str]]:
    """Each target with what was found."""
    mib, growth, replay_s = result.total_mib, result.growth, result.replay_s
    remembered, readable, closed = result.records_remembered, result.records_readable, result.records_closed
    return [
        (mib <= SIZE_LIMIT_MIB, f"the state directory stays small: {mib:.1f} MiB, at most {SIZE_LIMIT_MIB:g}"),
        (growth <= GROWTH_LIMIT, f"it is flat: {growth:.2f} of its size at half the incidents, at most {GROWTH_LIMIT}"),
        (replay_s <= REPLAY_LIMIT_S, f"opened and replayed in {replay_s:.2f} s, at most {REPLAY_LIMIT_S:g}"),
        (readable >= remembered, f"{readable} records readable, {remembered} of them remembered by the journal"),
        (closed == result.incidents, f"{closed} of {result.incidents} recoveries counted"),
    ]


def figures(result: Weighed, load: float) -> dict[str, object]:
    """The last line."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "incidents": result.incidents,
        "state_dir_mib": {**result.mib, "all": round(result.total_mib, 2)},
        "state_dir_mib_at_half": {**result.half_mib, "all": round(sum(result.half_mib.values()), 2)},
        "replay_s": round(result.replay_s, 3),
        "catch_up_s": round(result.catch_up_s, 3),
        "records_remembered": result.records_remembered,
        "records_readable": result.records_readable,
        "incidents_per_s": round(result.incidents_per_s, 1),
        "load": round(load, 2),
        "cores": len(os.sched_getaffinity(0)),
        "commit": commit or None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--incidents", type=int, default=10_000)
    parser.add_argument("--keep", help="folder for the state directory; without it, it is removed")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    directory = Path(options.keep or tempfile.mkdtemp(prefix="resurge-journal-")).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    print(f"bench-journal: {options.incidents} incidents of {len(NODES)} nodes with {WORKERS} workers each", flush=True)
    try:
        result = weigh(directory, options.incidents)
    finally:
        if not options.keep:
            shutil.rmtree(directory)
    judged = targets(result)
    for met, what in judged:
        print(f"{'pass' if met else 'FAIL':6s} {what}")
    print(json.dumps(figures(result, load)))
    return 0 if all(met for met, _ in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
