"""The parts of the watchdogs' benchmark that need a launcher: fan-out, a rank that holds the GIL, the cost in training.

Each plays one job of real processes, many rounds in it, and reads what its ranks wrote. Decides nothing.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from resurge_libs.testing import wait_until
from tests.endurance.job import Shape, SmallJob

PROGRAMS = Path(__file__).parent / "programs"
ROUND_LIMIT_S = 60.0
MEMBERS_RELEASED = range(6)
"""Of the fan-out's group, without the frozen one."""
WALL, CPU, OUTSIDE = range(3)
PLAIN, FIRST, AGAIN, ARMED = ("plain", "again"), ("plain",), ("again",), ("armed", "armed again")
OVERHEAD_PM_PCT = 0.25
OVERHEAD_JOBS_MOST = 12
Kinds = tuple[str, ...]
Rounds = list[list[dict[str, tuple[float, float, float]]]]
"""Of one job: for each rank, for each round, for each kind of step what it took: WALL, CPU, OUTSIDE."""


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


def overhead(rounds: int) -> dict[str, object]:
    """By how much a step is longer with all watchdogs armed, in per cent, and how sure that is.

    In each round of four steps, in an order of chance, the two armed steps are compared with the two plain ones, by
    their geometric means over both ranks; what counts is the median over all rounds. Job after job, since each process
    has its places in memory, until half of its 95 % interval is at most OVERHEAD_PM_PCT, at most OVERHEAD_JOBS_MOST;
    no round is left out. `null` compares the two plain steps in the same way: what the machine does by itself. `cpu`:
    in processor time, which other load disturbs less. `direct_us`: what an armed step takes outside of the step itself,
    beyond a plain one; it does not hold what the guards do to the step.
    """
    jobs: list[Rounds] = []
    while len(jobs) < OVERHEAD_JOBS_MOST:
        with _job("guarded.py", 1, 2, rounds_wanted=50 * rounds, seed=len(jobs)) as job:
            _ended(job, 1)
            jobs.append([json.loads((job.folder / f"rounds-{rank}").read_text()) for rank in (0, 1)])
        if longer(jobs, ARMED, PLAIN, WALL)[1] <= OVERHEAD_PM_PCT:
            break
    found: dict[str, object] = {}
    for name, what in (("", WALL), ("cpu_", CPU)):
        found[f"overhead_{name}pct"], found[f"overhead_{name}pm_pct"] = longer(jobs, ARMED, PLAIN, what)
        found[f"overhead_{name}null_pct"], found[f"overhead_{name}null_pm_pct"] = longer(jobs, AGAIN, FIRST, what)
    outside = {kinds: _median(jobs, kinds, OUTSIDE) for kinds in (ARMED, PLAIN)}
    return found | {
        "overhead_jobs_pct": [longer([job], ARMED, PLAIN, WALL)[0] for job in jobs],
        "overhead_direct_us": round(1e6 * (outside[ARMED] - outside[PLAIN]), 1),
        "step_ms": round(1000 * _median(jobs, PLAIN, WALL), 2),
        "overhead_load": round(os.getloadavg()[0], 1),
    }


def longer(jobs: Iterable[Rounds], some: Kinds, others: Kinds, what: int) -> tuple[float, float]:
    """By how many per cent the steps of some kinds take longer than those of others, and the half of its interval."""
    ratios = sorted(
        statistics.fmean(math.log(one[kind][what]) for one in both for kind in some)
        - statistics.fmean(math.log(one[kind][what]) for one in both for kind in others)
        for ranks in jobs
        for both in zip(*ranks, strict=True)
    )
    # the interval of a median, from the order alone: whatever the shape of what disturbs
    reach = 0.98 * math.sqrt(len(ratios))
    low, high = max(int(len(ratios) / 2 - reach), 0), min(math.ceil(len(ratios) / 2 + reach), len(ratios) - 1)
    return round(100 * math.expm1(statistics.median(ratios)), 2), round(50 * (ratios[high] - ratios[low]), 2)


def _median(jobs: Iterable[Rounds], kinds: Kinds, what: int) -> float:
    return statistics.median(one[kind][what] for ranks in jobs for rounds in ranks for one in rounds for kind in kinds)


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
