"""Plays the matrix, holds each cell's bound, and the share of runs in which the struck rank is named.

    python -m tests.endurance.matrix [--runs 20] [--jobs 1] [--short] [--cells SIGSTOP/send/middle/256MB,…] [--keep DIR]

The last line is one JSON object. 1 when a cell does not end in time, or names another rank in more than one of 20 runs.
A run mostly waits for deadlines: two or three jobs side by side do not disturb each other much, and take less time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.endurance.matrix.cells import SHORT, Cell, Outcome, every_cell
from tests.endurance.matrix.play import play
from tests.endurance.soak import circumstances

NAMED_SHARE = 19 / 20


def main() -> int:
    """All runs, one job for each; prints every run of a cell that failed, and a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.matrix")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--short", action="store_true", help="a few cells, once")
    parser.add_argument("--cells", help="names, with commas between")
    parser.add_argument("--keep", help="folder for logs and records")
    told = parser.parse_args()
    names = SHORT if told.short else told.cells.split(",") if told.cells else [cell.name for cell in every_cell()]
    cells = [Cell.named(name) for name in names]
    folder = Path(told.keep or tempfile.mkdtemp(prefix="resurge-matrix-")).resolve()
    outcomes: list[Outcome] = []
    folders = [folder / str(number) for number in range(1 if told.short else told.runs)]
    with ThreadPoolExecutor(told.jobs) as beside:
        for number, found in enumerate(beside.map(lambda one: play(cells, one), folders), 1):
            outcomes += found
            late = sum(not one.ended_in_time for one in found)
            wrong = sum(not one.named_right for one in found)
            print(f"matrix: run {number}: {len(found)} cells, {late} not in time, {wrong} misnamed", flush=True)
    failed = judge(cells, outcomes)
    if not told.keep and not failed:
        shutil.rmtree(folder)
    elif failed:
        print(f"matrix: everything is in {folder}", file=sys.stderr)
    print(json.dumps({**summary(cells, outcomes), "failed": failed, **circumstances()}))
    return 1 if failed else 0


def judge(cells: list[Cell], outcomes: list[Outcome]) -> list[str]:
    """Names of the cells that missed; prints a row for each cell, and each run that was not as it should be."""
    failed = []
    for cell in cells:
        mine = [one for one in outcomes if one.cell == cell]
        took = sorted(one.took_s for one in mine if one.took_s is not None)
        in_time, right = (sum(one.ended_in_time for one in mine), sum(one.named_right for one in mine))
        longest = f"{took[-1]:6.2f}" if took else "     -"
        print(f"{cell.name:36s} {longest} s of {cell.bound_s:4.1f}   named {right}/{len(mine)}")
        for one in mine:
            if not (one.ended_in_time and one.named_right):
                print(f"    took {one.took_s} s, named {one.named}: {one.why}")
        if in_time < len(mine) or right < NAMED_SHARE * len(mine):
            failed.append(cell.name)
    return failed


def summary(cells: list[Cell], outcomes: list[Outcome]) -> dict[str, object]:
    """The keys of the last line."""
    took = [one for one in outcomes if one.took_s is not None]
    worst = min(took, key=Outcome.spare_s, default=None)
    return {
        "cells": len(cells),
        "runs": len(outcomes),
        "in_time": sum(one.ended_in_time for one in outcomes),
        "named_right": sum(one.named_right for one in outcomes),
        "worst": worst and {"name": worst.cell.name, "spare_s": round(worst.spare_s(), 2)},
    }


if __name__ == "__main__":
    sys.exit(main())
