"""Restarts one job of two nodes over and over, and looks whether any process or directory of it grows.

    python -m tests.endurance.soak [--restarts 850] [--base 650] [--seed N] [--keep DIR]

Each restart is a SIGKILL of a rank. What each process and directory holds after restart `base` is compared with what it
holds after the last one; how much each kind may differ stands in footprint.py. Peaks in between do not count. The
control plane remembers its newest recoveries, some hundreds, and its journal the newest entries: a base beyond all of
it shows the slow growth that they would hide. What it took until then is printed too, and is no failure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from resurge_libs.testing.wait import NeverHappened, wait_until
from tests.endurance.footprint import Tolerance, holdings, tolerance_of, tolerances
from tests.endurance.job import Shape, SmallJob

RECOVERY_LIMIT_S = 60.0
SETTLE_LIMIT_S = 10.0
SHOW_EVERY = 10
EARLY_AT = 30
"""The restart from which on growth until the base is told."""


def restart_once(job: SmallJob, chance: random.Random) -> float:
    """SIGKILL one rank; seconds until every rank of the next generation has committed a step."""
    before = job.crew()
    began = time.monotonic()
    os.kill(chance.choice(before.ranks).pid, signal.SIGKILL)
    job.training(after=before.generation, limit_s=RECOVERY_LIMIT_S)
    return time.monotonic() - began


def settled(job: SmallJob, is_quiet: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """Holdings once they are quiet, or at the limit: what is being closed just now is no growth."""
    newest: dict[str, float] = {}

    def look() -> bool:
        newest.update(holdings(job))
        return is_quiet(newest)

    with contextlib.suppress(NeverHappened):
        wait_until(look, SETTLE_LIMIT_S, "quiet holdings")
    return newest


def grown(
    base: dict[str, float], last: dict[str, float], restarts: int, allowances: dict[str, Tolerance]
) -> dict[str, tuple[float, float]]:
    """What grew beyond its tolerance: growth and what was allowed, by name."""
    found = {}
    for name, value in last.items():
        allowed = tolerance_of(name, allowances).allowed(restarts)
        growth = value - base.get(name, 0.0)
        if growth > allowed:
            found[name] = (growth, allowed)
    return found


def soak(job: SmallJob, restarts: int, base_at: int, seed: int) -> dict[str, object]:
    """All restarts; the last line's object."""
    chance = random.Random(seed)
    allowances = tolerances(base_at, job.shape.workers)
    job.start_all()
    job.training(limit_s=RECOVERY_LIMIT_S)
    took: list[float] = []
    early: dict[str, float] = {}
    base: dict[str, float] = {}
    for count in range(1, restarts + 1):
        took.append(restart_once(job, chance))
        if count == min(EARLY_AT, base_at):
            early = holdings(job)
        if count == base_at:
            base = holdings(job)
        if count % SHOW_EVERY == 0:
            now = holdings(job)
            shown = "  ".join(f"{name} {now[f'{name} private_mib']:.1f} MiB" for name in job.processes)
            print(f"soak: {count:4d} restarts, the last in {took[-1]:.2f} s;  {shown}", flush=True)
    between = restarts - base_at
    last = settled(job, lambda now: not grown(base, now, between, allowances))
    failed = grown(base, last, between, allowances)
    print(f"\n{'what':28s}{f'restart {base_at}':>12s}{f'restart {restarts}':>12s}{'growth':>9s}{'allowed':>9s}")
    shares = {}
    for name in sorted(last):
        growth, allowed = last[name] - base[name], tolerance_of(name, allowances).allowed(between)
        shares[name] = growth / allowed if allowed else growth
        verdict = "FAIL" if name in failed else ""
        print(f"{name:28s}{base[name]:12.1f}{last[name]:12.1f}{growth:9.1f}{allowed:9.1f}  {verdict}")
    unbudgeted = [name for name in shares if not tolerance_of(name, allowances).per_restart]
    worst = max(unbudgeted, key=lambda name: shares[name])
    job.finish()
    codes = [job.processes[name].wait(RECOVERY_LIMIT_S) for name in job.shape.launchers]
    assert set(codes) == {0}, f"the launchers ended with {codes}"
    return {
        "runs": restarts,
        "failed": len(failed),
        "worst": {
            "name": worst,
            "growth": round(last[worst] - base[worst], 2),
            "share_of_allowed": round(shares[worst], 2),
        },
        "grown": {name: [round(value, 2) for value in pair] for name, pair in failed.items()},
        "until_base": {name: round(base[name] - early[name], 2) for name in base if name.endswith(" private_mib")},
        "restart_s": round(sorted(took)[len(took) // 2], 3),
        "seed": seed,
    }


def circumstances() -> dict[str, object]:
    """The keys that every measuring target prints."""
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    load = round(os.getloadavg()[0], 2)
    return {"load": load, "cores": len(os.sched_getaffinity(0)), "commit": asked.stdout.strip() or None}


def interrupted(*_: object) -> None:
    """SIGTERM as Ctrl-C: what was started is ended on the way out."""
    raise KeyboardInterrupt


def main() -> int:
    """Run in a temporary folder; it is kept when something grew or failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--restarts", type=int, default=850)
    parser.add_argument("--base", type=int, default=650, help="the restart that the last one is compared with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warm", default="off", help="as `resurge run --warm`")
    parser.add_argument("--keep", help="folder for logs and journal")
    told = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupted)
    about = circumstances()
    folder = Path(told.keep or tempfile.mkdtemp(prefix="resurge-soak-")).resolve()
    job = SmallJob(folder, f"soak-{os.getpid()}", Shape(flags=("--warm", told.warm)))
    failure, result = "", {"runs": told.restarts, "failed": None, "worst": None}
    print(f"soak: two nodes of two workers, {told.restarts} restarts, seed {told.seed}", flush=True)
    try:
        result = soak(job, told.restarts, told.base, told.seed)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
        print(job.logs(), file=sys.stderr)
    finally:  # also when somebody interrupts: nothing may stay behind
        orphans = job.end()
    if orphans and not failure:
        failure = f"workers outlived their launchers: {orphans}"
    is_good = not failure and result["failed"] == 0
    if is_good and not told.keep:
        shutil.rmtree(folder)
    else:
        print(f"soak: everything is in {folder}", file=sys.stderr)
    print(json.dumps({**result, **about, "notes": [failure] if failure else []}))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
