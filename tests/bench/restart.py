"""Kills workers under torchrun, the published peer and this project in one run, and compares how each comes back.

All jobs of one shape stand side by side; the one whose turn it is trains at full pace while the others almost rest, and
the turns go round, so that a loaded machine is loaded for all alike. Nothing is decided here about what is good: the
report (report.py) holds the targets.

    python -m tests.bench.restart [--kills 7] [--systems torchrun,nvrx,resurge,cold] [--cells 1x4,1x4_sigterm,2x2]
                                  [--known-kills 300] [--keep DIR]
"""

import argparse
import os
import random
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from tests.bench.jobs import RECOVERY_LIMIT_S, BenchFailed, Job, Shape
from tests.bench.known import measure_known
from tests.bench.peers import PeerMissing
from tests.bench.report import Results, report
from tests.bench.systems import ColdResurge, Nvrx, Plan, Resurge, ResurgeMissing, System, Torchrun
from tests.bench.where import where_the_time_goes

SYSTEMS = {"torchrun": Torchrun, "nvrx": Nvrx, "resurge": Resurge, "cold": ColdResurge}
PHASES = {"workers_started_s": "started", "process_group_ready_s": "process_group", "first_step_s": "step"}
CELLS: dict[str, tuple[Shape, dict[str, str]]] = {
    "1x4": (Shape(1, 4), {}),
    "1x4_sigterm": (Shape(1, 4), {"BENCH_SIGTERM": "1"}),
    "2x2": (Shape(2, 2), {}),
}
"""By name: the shape, and what the script is told beside; in one it has a handler for SIGTERM."""
LAUNCHES = 3
NODE_LOSSES = 3
KNOWN_KILLS = 300
IDLE_WINDOW_S = 5.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(system: System, shape: Shape, out: Path, kills: int, env: dict[str, str]) -> Job:
    job = Job(system.name, shape, out)
    job.start(system.launches(Plan(shape, out, free_port(), kills + 2, env)))
    return job


def kill_once(system: System, job: Job, victim: int, jitter_s: float) -> dict[str, float | None]:
    """SIGKILL one rank and wait for the world's first new step; seconds from the kill to each phase's last rank."""
    job.pace(slow=False)
    pids = job.settle(time.time())
    threading.Event().wait(jitter_s)  # so that kills do not keep step with a launcher that polls
    old = frozenset(pids.values())
    death = os.pidfd_open(pids[victim])
    killed_at = time.time()
    os.kill(pids[victim], signal.SIGKILL)
    select.select([death], [], [])  # the kernel's word to a watcher beside the launcher: freeing the memory is over
    died_at = time.time()
    os.close(death)
    job.wait("first step after a kill", lambda: job.complete("step", killed_at, old), RECOVERY_LIMIT_S)
    row: dict[str, float | None] = {"load": os.getloadavg()[0]}
    for key, what in PHASES.items():
        row[key] = max(stamp["at"] for stamp in job.first(what, killed_at, old).values()) - killed_at
    known_at = system.known_at(job, killed_at)
    row["known_s"] = None if known_at is None else max(0.0, known_at - killed_at)
    row["known_after_death_s"] = None if known_at is None else max(0.0, known_at - died_at)
    job.settle(killed_at + row["workers_started_s"], old)
    job.pace(slow=True)
    return row


def footprint(job: Job) -> tuple[float, float]:
    """MiB resident per node of everything but workers, and per cent of one core it uses while training just runs."""
    control = job.control_processes()
    rss = sum(process.memory_info().rss for process in control)
    before = sum(sum(process.cpu_times()[:2]) for process in control)
    began = time.monotonic()
    threading.Event().wait(IDLE_WINDOW_S)
    used = sum(sum(process.cpu_times()[:2]) for process in control) - before
    return rss / 2**20 / job.shape.nodes, 100 * used / (time.monotonic() - began) / job.shape.nodes


def measure_cell(systems: list[System], cell: str, kills: int, out: Path, results: Results) -> None:
    """All systems side by side, kill by kill."""
    shape, told = CELLS[cell]
    env = {"BENCH_SURVIVORS": os.environ.get("BENCH_SURVIVORS", "raise"), **told}
    jobs: dict[str, Job] = {}
    chance = random.Random(shape.world * 100 + shape.nodes)
    try:
        for system in systems:
            job = jobs[system.name] = start(system, shape, out / f"{system.name}-{cell}", kills, env)
            try:
                job.settle(job.launched_at)
                job.pace(slow=True)
                results.footprint[system.name, cell] = footprint(job)
            except BenchFailed as why:
                results.drop(system.name, cell, str(why))
        for kill in range(kills):
            victim, jitter_s = shape.world - 1 - kill % shape.world, chance.random() * 0.3
            for system in systems[kill % len(systems) :] + systems[: kill % len(systems)]:
                if results.dropped(system.name, cell):
                    continue
                try:
                    row = kill_once(system, jobs[system.name], victim, jitter_s)
                except BenchFailed as why:
                    results.drop(system.name, cell, str(why))
                    continue
                results.kills.setdefault((system.name, cell), []).append(row)
                shown = " ".join(f"{k} {v:.3f}" if v is not None else f"{k} -" for k, v in row.items())
                print(f"  {cell} kill {kill + 1} of rank {victim} {system.name:9s} {shown}", flush=True)
        for name, job in jobs.items():
            results.exit_codes[name, cell] = job.stop()
            results.where[name, cell] = where_the_time_goes(job.out / "state")
    finally:
        for job in jobs.values():
            job.kill()


def measure_node_loss(systems: list[System], out: Path, results: Results) -> None:
    """A whole node goes, closing its connections or falling silent, and a spare takes its place."""
    cases = [(system, "rst") for system in systems if system.name not in ("torchrun", "cold")]
    cases += [(system, "silent") for system in systems if system.name == "resurge"]
    for turn in range(NODE_LOSSES):
        for system, how in cases:
            job = start(system, Shape(2, 2, spares=1), out / f"{system.name}-node-{how}{turn}", 3, {})
            try:
                seconds = lose_node(job, signal.SIGKILL if how == "rst" else signal.SIGSTOP)
                results.node_losses.setdefault("nvrx" if system.name == "nvrx" else how, []).append(seconds)
                print(f"  2x2 and a spare: {system.name} node lost ({how}), all started {seconds:.3f} s", flush=True)
            except (BenchFailed, StopIteration, psutil.NoSuchProcess) as why:
                results.notes.append(f"node loss ({how}) of {system.name}: {why}")
                print(f"  node loss ({how}) of {system.name}: {why}", flush=True)
            finally:
                job.kill()


def lose_node(job: Job, how: signal.Signals) -> float:
    """Signal every process of an active node that holds no control plane; seconds until all new workers started."""
    old = frozenset(job.settle(job.launched_at).values())
    victim = next(node for node in job.active_nodes() if node != 0)
    lost_at = time.time()
    for process in job.node_processes(victim):
        process.send_signal(how)
    new = job.wait("start of all workers", lambda: job.complete("started", lost_at, old), 2 * RECOVERY_LIMIT_S)
    return max(stamp["at"] for stamp in new.values()) - lost_at


def measure_launch(systems: list[System], out: Path, results: Results) -> None:
    """From the command to the first own instruction of the last of four workers, and to its first committed step.

    Each by launches of its own: the workers of the first end at once, so that nothing but the start is measured.
    """
    for turn in range(LAUNCHES):
        for system in systems:
            for what, env, found in (
                ("started", {"BENCH_ONLY_START": "1"}, results.launches),
                ("step", {}, results.first_steps),
            ):
                job = start(system, Shape(1, 4), out / f"{system.name}-launch-{what}{turn}", 0, env)
                try:
                    stamps = job.wait(
                        f"{what} of all workers", lambda job=job, what=what: job.complete(what, 0.0), 60.0
                    )
                    seconds = max(stamp["at"] for stamp in stamps.values()) - job.launched_at
                    found.setdefault(system.name, []).append(seconds)
                except BenchFailed as why:
                    results.notes.append(f"launch of {system.name}: {why}")
                finally:
                    job.kill()


def measure_knowing(systems: list[System], kills: int, out: Path, results: Results) -> None:
    """How soon our launcher knows of a death, over many kills of workers that import nothing."""
    for system in systems:
        if system.name != "resurge" or kills == 0:
            continue
        print(f"bench-restart: {kills} kills of workers without torch", flush=True)
        try:
            results.known = measure_known(system, kills, out / "known", free_port())
        except BenchFailed as why:
            results.notes.append(f"kills of workers without torch: {why}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=int(os.environ.get("KILLS", "7")))
    parser.add_argument("--systems", default="torchrun,nvrx,resurge,cold")
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--known-kills", type=int, default=KNOWN_KILLS, help="kills of workers without torch")
    parser.add_argument("--no-node-loss", action="store_true", help="kill workers only")
    parser.add_argument("--keep", help="folder for the logs; without it they are removed unless something failed")
    options = parser.parse_args()
    out = Path(options.keep or tempfile.mkdtemp(prefix="resurge-bench-")).resolve()
    results, systems = Results(options.kills, os.getloadavg()[0]), []
    for name in options.systems.split(","):
        try:
            systems.append(SYSTEMS[name]())
        except (PeerMissing, ResurgeMissing) as why:
            results.notes.append(f"{name} left out: {why}")
            print(f"bench-restart: {name} left out: {why}", flush=True)
    for cell in filter(None, options.cells.split(",")):
        print(f"bench-restart: {cell}, {options.kills} kills each", flush=True)
        measure_cell(systems, cell, options.kills, out, results)
    measure_knowing(systems, options.known_kills, out, results)
    measure_launch(systems, out, results)
    if not options.no_node_loss:
        measure_node_loss(systems, out, results)
    met = report(results)
    if not options.keep and not results.failures:
        shutil.rmtree(out)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
