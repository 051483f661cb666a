"""Kills mutants of the watchdogs, and prints those that live.

    python -m tests.mutation [--modules crashing,guards/timer] [--list]

A mutant that lives is explained in explained.toml, or the run fails. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.plan import TESTS
from tests.mutation.running import PACKAGE, SURVIVED, judged

EXPLAINED = Path(__file__).with_name("explained.toml")


def main() -> int:
    """1 when a mutant lives that nobody has explained, or an explanation is about none."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--modules", default=",".join(TESTS))
    parser.add_argument("--from-line", type=int, default=1, help="only mutants from this line of each module on")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    told = parser.parse_args()
    reasons: dict[str, dict[str, str]] = tomllib.loads(EXPLAINED.read_text())
    counts = {"mutants": 0, "killed": 0, "explained": 0, "unexplained": 0}
    for module in told.modules.split(","):
        mutants = mutants_of((PACKAGE / f"{module}.py").read_text())
        mutants = [one for one in mutants if one.line >= told.from_line]
        counts["mutants"] += len(mutants)
        if told.list:
            print("\n".join(f"{module}:{one.line}: {one.what}" for one in mutants))
            continue
        for outcome, count in _play(module, mutants, reasons.get(module, {})).items():
            counts[outcome] += count
    print(json.dumps(counts))
    return 1 if counts["unexplained"] else 0


def _play(module: str, mutants: list[Mutant], reasons: dict[str, str]) -> dict[str, int]:
    counts = {"killed": 0, "explained": 0, "unexplained": 0}
    for verdict in judged(module, mutants, TESTS[module]):
        if verdict.outcome != SURVIVED:
            counts["killed"] += 1
        elif verdict.mutant.key in reasons:
            counts["explained"] += 1
        else:
            counts["unexplained"] += 1
            print(f"lives: {module}:{verdict.mutant.line}: {verdict.mutant.what}", flush=True)
    told = {one.key for one in mutants_of((PACKAGE / f"{module}.py").read_text())}
    for key in reasons:
        if key not in told:
            counts["unexplained"] += 1
            print(f"explained, but there is none: {module}: {key}", flush=True)
    print(f"mutation: {module:18s} {len(mutants):4d} mutants  " + "  ".join(f"{v} {k}" for k, v in counts.items()))
    sys.stdout.flush()
    return counts


if __name__ == "__main__":
    sys.exit(main())
