"""The parts of the watchdogs' benchmark that need a launcher: fan-out, a rank that holds the GIL, the cost in training.

Each plays one job of real processes, many rounds in it, and reads what its ranks wrote. Decides nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from resurge_libs.testing import wait_until
from tests.endurance.job import Shape, SmallJob

PROGRAMS = Path(__file__).parent / "programs"
ROUND_LIMIT_S = 60.0
MEMBERS_RELEASED = range(6)
"""Of the fan-out's group, without the frozen one."""


@contextlib.contextmanager
def _job(program: str, nodes: int, workers: int, **told: int) -> Iterator[SmallJob]:
    with tempfile.TemporaryDirectory(prefix="resurge-") as name:
        folder = Path(name)
        for what, value in told.items():
            (folder / what).write_text(str(value))
        environ = {"GLOO_SOCKET_IFNAME": "lo"}
        shape = Shape(nodes=nodes, workers=workers, flags=("--warm", "auto"))
        job = SmallJob(folder, f"bench-{os.getpid()}", shape, PROGRAMS / program, environ=environ)
        job.start_all()
        try:
            yield job
        except BaseException:
            for log in sorted(folder.glob("*.log")):
                print(log.name, log.read_text(errors="replace")[-4000:])
            raise
        finally:
            job.end()


def _ended(job: SmallJob, rounds: int) -> None:
    for name in job.shape.launchers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.processes[name].wait(ROUND_LIMIT_S * (1 + rounds))


def fan_out(rounds: int) -> dict[str, object]:
    """Milliseconds from the moment at which one rank knows to the release of each other; 8 ranks of 2 launchers."""
    late: dict[str, list[float]] = {"fired": [], "died": []}
    with _job("ordered.py", 2, 4, cycles=2 * rounds) as job:
        _ended(job, 2 * rounds)
        for cycle in range(2 * rounds):
            kind, knows = ("fired", 0) if cycle % 2 == 0 else ("died", 7)
            known = float((job.folder / f"known-{cycle}-{knows}").read_text())
            told = [(job.folder / f"released-{cycle}-{rank}").read_text() for rank in MEMBERS_RELEASED if rank != knows]
            assert any("by order" in text for text in told), told
            late[kind] += [1000 * (float(text.split()[0]) - known) for text in told]
    return {
        "fan_out_ms_p99": {kind: round(_p99(of), 1) for kind, of in late.items()},
        "fan_out_ms_median": {kind: round(statistics.median(of), 1) for kind, of in late.items()},
    }


def gil(rounds: int) -> dict[str, float]:
    """Milliseconds from the limit of a rank that holds the interpreter's lock to its end."""
    late = []
    with _job("holding.py", 1, 1, cycles=rounds) as job:
        for cycle in range(rounds):
            path = job.folder / f"holds-{cycle}"
            wait_until(path.exists, ROUND_LIMIT_S, f"round {cycle}")
            pid, due = path.read_text().split()
            late.append(1000 * (_end_of(int(pid)) - float(due)))
    return {"gil_kill_ms_p99": round(_p99(late), 1), "gil_kill_ms_median": round(statistics.median(late), 1)}


def overhead(rounds: int) -> dict[str, float]:
    """By how much a step is longer with all watchdogs armed, in per cent: the median over rounds of three steps.

    `overhead_null_pct` compares the two plain steps: what the machine does by itself. `overhead_cpu_pct`: the same as
    two in processor time, which other load disturbs less.
    """
    with _job("guarded.py", 1, 2, rounds_wanted=100 * rounds) as job:
        _ended(job, 1)
        found = json.loads((job.folder / "rounds").read_text())

    def longer(kind: str, what: int) -> float:
        return round(100 * (statistics.median(one[kind][what] / one["plain"][what] for one in found) - 1), 2)

    return {
        "overhead_pct": longer("armed", 0),
        "overhead_null_pct": longer("again", 0),
        "overhead_cpu_pct": longer("armed", 1),
        "overhead_cpu_null_pct": longer("again", 1),
        "step_ms": round(1000 * statistics.median(one["plain"][0] for one in found), 2),
    }


def _end_of(pid: int) -> float:
    descriptor = os.pidfd_open(pid)
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        assert waiting.poll(1000 * ROUND_LIMIT_S), f"{pid} lives on"
        return time.monotonic()
    finally:
        os.close(descriptor)


def _p99(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
