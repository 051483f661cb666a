"""Plays cells, one for each cycle of one job, and reads from its records how each ended."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.rpc.records import read_recoveries
from tests.endurance.job import Shape, SmallJob
from tests.endurance.matrix.cells import WORLD, Cell, Outcome

PROGRAM = Path(__file__).parents[1] / "programs" / "struck.py"
START_S = 60.0
EACH_S = 40.0
ROOT = Path(__file__).parents[3]


def play(cells: Sequence[Cell], folder: Path) -> list[Outcome]:
    """The outcomes, in the order of the cells; a job that gets stuck leaves the rest without one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cells").write_text("".join(f"{cell.name}\n" for cell in cells))
    environ = {"GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    shape = Shape(nodes=1, workers=WORLD, flags=("--warm", "auto"))
    job = SmallJob(folder, f"matrix-{os.getpid()}-{folder.name}", shape, PROGRAM, environ=environ)
    job.start_all()
    try:
        job.processes["n0"].wait(START_S + EACH_S * len(cells))
    except subprocess.TimeoutExpired:
        pass  # what has no record has no outcome
    finally:
        job.end()
    by_cycle = {found.incident.cycle: found for found in read_recoveries(job.state_dir).recoveries}
    return [_outcome(cell, folder / f"strike-{cycle}", by_cycle.get(cycle)) for cycle, cell in enumerate(cells)]


def _outcome(cell: Cell, strike: Path, found: rendezvous_pb2.Recovery | None) -> Outcome:
    if found is None or not strike.exists():
        return Outcome(cell, None, None, "nobody was struck" if found is not None else "no incident came of it")
    faults = found.faults or found.incident.faults
    first = next((fault for fault in faults if fault.culprit), faults[0])
    ends = [span.span.end.ToNanoseconds() / 1e9 for span in found.spans if span.span.name == "teardown"]
    took_s = max(ends) - float(strike.read_text()) if ends else None
    rank = first.rank if first.HasField("rank") else None
    return Outcome(cell, took_s, rank, f"{first.because.code}: {first.because.sentence}")
