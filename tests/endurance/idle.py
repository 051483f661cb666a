"""What a node uses while its training just runs: share of a core and wake-ups per second, workers left out.

    python -m tests.endurance.idle [--seconds 20] [--warm auto|on|off]

Wake-ups are the times that a thread left the processor by itself, counted by the kernel over all threads of a process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.endurance.job import Shape, SmallJob
from tests.endurance.soak import circumstances, interrupted

MOST_CPU_PCT = 1.0
"""Launcher and fork server of one node together."""
START_LIMIT_S = 60.0
SETTLE_S = 3.0


@dataclass(frozen=True)
class Use:
    """Of one group of processes over some time."""

    cpu_s: float
    wake_ups: int

    def __sub__(self, earlier: Use) -> Use:
        return Use(self.cpu_s - earlier.cpu_s, self.wake_ups - earlier.wake_ups)


def use_of(pids: list[int]) -> Use:
    """What these processes have used since they began."""
    cpu_s, wake_ups = 0.0, 0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            cpu_s += sum(psutil.Process(pid).cpu_times()[:2])
            wake_ups += sum(_voluntary(task) for task in Path(f"/proc/{pid}/task").iterdir())
    return Use(cpu_s, wake_ups)


def _own_wake_ups(pids: list[int]) -> int:
    """Of the first threads, which run the event loops; gRPC's own threads look for work by themselves all the time."""
    return sum(_voluntary(Path(f"/proc/{pid}/task/{pid}")) for pid in pids)


def _voluntary(task: Path) -> int:
    with contextlib.suppress(OSError):
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                return int(line.split()[1])
    return 0


def groups(job: SmallJob) -> dict[str, list[int]]:
    """Pids of each launcher with its fork server, and of each service; workers and their children are not counted."""
    workers = set(job.crew().pids)
    found = {}
    for name, process in job.processes.items():
        below = psutil.Process(process.pid).children(recursive=True)
        found[name] = [process.pid, *(child.pid for child in below if child.pid not in workers)]
    return found


def measure(job: SmallJob, seconds: float) -> dict[str, dict[str, float]]:
    """Per cent of a core, wake-ups per second and number of processes, by name."""
    job.start_all()
    job.training(limit_s=START_LIMIT_S)
    threading.Event().wait(SETTLE_S)
    pids = groups(job)
    before, began = {name: use_of(group) for name, group in pids.items()}, time.monotonic()
    own = {name: _own_wake_ups(group) for name, group in pids.items()}
    threading.Event().wait(seconds)
    took_s = time.monotonic() - began
    found = {}
    for name, group in pids.items():
        used = use_of(group) - before[name]
        found[name] = {
            "cpu_pct": round(100 * used.cpu_s / took_s, 2),
            "wake_ups_per_s": round(used.wake_ups / took_s, 1),
            "own_wake_ups_per_s": round((_own_wake_ups(group) - own[name]) / took_s, 1),
            "processes": len(group),
        }
        print(
            f"{name:10s} {found[name]['cpu_pct']:6.2f} % of a core  {found[name]['wake_ups_per_s']:6.1f} wake-ups/s"
            f" ({found[name]['own_wake_ups_per_s']} of event loops)  {len(group)} process(es)",
            flush=True,
        )
    return found


def main() -> int:
    """One job in a temporary folder; 1 when a node uses more than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm", default="off", help="as `resurge run --warm`")
    told = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupted)
    about = circumstances()
    folder = Path(tempfile.mkdtemp(prefix="resurge-idle-"))
    job = SmallJob(folder, f"idle-{os.getpid()}", Shape(spares=1, pace_s=0.1, flags=("--warm", told.warm)))
    try:
        found = measure(job, told.seconds)
    finally:
        job.end()
        shutil.rmtree(folder, ignore_errors=True)
    nodes = [found[name] for name in job.shape.launchers]
    worst = max(node["cpu_pct"] for node in nodes)
    figures = {
        "idle_cpu_pct": worst,
        "wake_ups_per_s": max(node["wake_ups_per_s"] for node in nodes),
        "control_cpu_pct": found["control"]["cpu_pct"],
        "control_wake_ups_per_s": found["control"]["wake_ups_per_s"],
        "own_wake_ups_per_s": max(node["own_wake_ups_per_s"] for node in nodes),
        "warm": told.warm,
        **about,
        "notes": [
            "n2 is a spare; idle_cpu_pct is the worst of the three nodes: launcher and fork server, without workers"
        ],
    }
    print(f"{'pass' if worst <= MOST_CPU_PCT else 'FAIL'}: {worst} % <= {MOST_CPU_PCT} % of a core per node")
    print(json.dumps(figures))
    return 0 if worst <= MOST_CPU_PCT else 1


if __name__ == "__main__":
    sys.exit(main())
