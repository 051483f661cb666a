"""Ends small real jobs in every way, and counts the launchers that did not end as they should.

    python -m tests.endurance.endings [--runs 100] [--cells success,budget] [--seed 1] [--lanes 2] [--keep DIR]

Two launchers on loopback, workers without torch. So many runs of each cell; in every third the control plane is killed
at the moment of the verdict and started again. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.endurance.endings.cells import CELLS, Cell
from tests.endurance.endings.play import KILL_EVERY, Played, play
from tests.endurance.soak import circumstances, interrupted

MOST_FAILED = 5
"""After so many of one cell the rest of it is not tried."""


def play_cell(cell: Cell, told: argparse.Namespace, root: Path) -> list[Played]:
    """So many runs of one cell, some side by side."""
    failed = 0

    def one(number: int) -> Played | None:
        nonlocal failed
        if failed >= MOST_FAILED:
            return None
        folder = root / f"{cell.name}-{number}"
        played = play(cell, number, told.seed, folder, told.kill_every)
        if played.problem:
            failed += 1
            killed = f", control plane killed {played.kill}" if played.kill else ""
            print(f"  FOUND {cell.name} {number}{killed}: {played.problem}\n  see {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        return played

    with ThreadPoolExecutor(told.lanes) as pool:
        return [played for played in pool.map(one, range(told.runs)) if played is not None]


def figures(played: Iterable[Played], runs: int) -> dict[str, Any]:
    """What one cell came to."""
    rows = list(played)
    took = sorted(row.took_s for row in rows if not row.problem)
    return {
        "runs": len(rows),
        "failed": sum(bool(row.problem) for row in rows) + runs - len(rows),
        "killed": sum(row.kill is not None for row in rows),
        "end_s": round(took[len(took) // 2], 3) if took else None,
        "worst_s": round(took[-1], 3) if took else None,
    }


def main() -> int:
    """All cells, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="of each cell")
    parser.add_argument("--cells", default="", help="names, by commas; all without")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-every", type=int, default=KILL_EVERY, help="in each so manyth run there is a kill")
    parser.add_argument("--lanes", type=int, default=2, help="runs side by side")
    parser.add_argument("--keep", help="folder for runs that failed")
    told = parser.parse_args()
    wanted = [name for name in told.cells.split(",") if name]
    unknown = set(wanted) - {cell.name for cell in CELLS}
    if unknown:
        parser.error(f"there is no cell {', '.join(sorted(unknown))}; known: {', '.join(cell.name for cell in CELLS)}")
    signal.signal(signal.SIGTERM, interrupted)
    about, began = circumstances(), time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="resurge-endings-", dir=told.keep)).resolve()
    table: dict[str, dict[str, Any]] = {}
    for cell in (cell for cell in CELLS if not wanted or cell.name in wanted):
        table[cell.name] = figures(play_cell(cell, told, root), told.runs)
        print(f"endings: {cell.name}: {table[cell.name]}, {time.monotonic() - began:.0f} s", flush=True)
    failed = sum(row["failed"] for row in table.values())
    if not failed:
        shutil.rmtree(root, ignore_errors=True)
    worst = max(table, key=lambda name: (table[name]["failed"], table[name]["worst_s"] or 0.0))
    result = {
        "runs": sum(row["runs"] for row in table.values()),
        "failed": failed,
        "worst": {"name": worst, "failed": table[worst]["failed"], "end_s": table[worst]["worst_s"]},
        "cells": table,
        "seed": told.seed,
        **about,
        "notes": [] if not failed else [f"runs that failed are in {root}"],
    }
    print(json.dumps(result))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
