"""How soon a launcher knows that a worker is dead, over hundreds of kills of workers that need no torch.

One job, one node of four workers, one rank killed after the other; all that is waited for is the next generation. What
the launcher knew when is read from the durable records at the end: the end of the recovery's `detect` span, by which it
had acted. Holds no target (report.py does).
"""

from __future__ import annotations

import os
import random
import select
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

from resurge_libs.obs.names import SpanName
from resurge_libs.rpc.records import read_recoveries
from resurge_libs.testing.wait import NeverHappened, wait_until
from tests.bench.jobs import RECOVERY_LIMIT_S, START_LIMIT_S, Job, Shape
from tests.bench.systems import Plan, System

PLAIN = Path(__file__).with_name("plain.py")
SHAPE = Shape(1, 4)
RECORDS_LIMIT_S = 20.0
JITTER_S = 0.05
"""So that kills do not keep step with anything that polls."""

Kill = tuple[float, float]
"""When the signal was sent, and when the kernel told a watcher beside the launcher of the death."""


def measure_known(system: System, kills: int, out: Path, port: int) -> list[dict[str, float | None]]:
    """One row per kill, with `known_s` and `known_after_death_s`. Raises BenchFailed."""
    job = Job(system.name, SHAPE, out)
    plan = Plan(SHAPE, out, port, kills + 2, {})
    job.start(system.launches(replace(plan, script=PLAIN)))
    try:
        times = [_kill(job, number) for number in range(kills)]
        job.wait("the last restart", lambda: job.complete("settled", times[-1][0]), RECOVERY_LIMIT_S)
        return [_row(kill, ends) for kill, ends in zip(times, _detected(job, times), strict=True)]
    finally:
        job.stop()


def _kill(job: Job, number: int) -> Kill:
    since = max((stamp["at"] for stamp in job.stamps if stamp["what"] == "killed"), default=0.0)
    limit_s = RECOVERY_LIMIT_S if number else START_LIMIT_S
    settled = job.wait("settled workers", lambda: job.complete("settled", since), limit_s)
    threading.Event().wait(random.Random(number).random() * JITTER_S)
    victim = settled[number % SHAPE.world]["pid"]
    death = os.pidfd_open(victim)
    killed_at = time.time()
    os.kill(victim, signal.SIGKILL)
    select.select([death], [], [])
    died_at = time.time()
    os.close(death)
    job.stamps[:] = [{"what": "killed", "at": killed_at, "rank": -1, "pid": 0}]  # what was before is looked at no more
    return killed_at, died_at


def _detected(job: Job, times: list[Kill]) -> list[float | None]:
    """For each kill the first `detect` that ended after it and before the next one."""

    def all_there() -> list[float] | None:
        records = read_recoveries(job.out / "state").recoveries
        spans = [part.span for record in records for part in record.spans if part.span.name == SpanName.DETECT]
        ends = sorted(span.end.ToNanoseconds() / 1e9 for span in spans)
        return ends if len(records) >= len(times) else None

    try:
        ends = wait_until(all_there, RECORDS_LIMIT_S, "the records of all recoveries")
    except NeverHappened as why:
        raise job.failed(str(why)) from None
    following = [killed_at for killed_at, _ in times[1:]] + [float("inf")]
    found: list[float | None] = []
    for (killed_at, _), until in zip(times, following, strict=True):
        found.append(min((end for end in ends if killed_at - 0.001 <= end < until), default=None))
    return found


def _row(kill: Kill, known_at: float | None) -> dict[str, float | None]:
    if known_at is None:
        return {"known_s": None, "known_after_death_s": None}
    killed_at, died_at = kill
    return {"known_s": max(0.0, known_at - killed_at), "known_after_death_s": max(0.0, known_at - died_at)}
