"""Kills mutants of the watchdogs, and prints those that live.

    python -m tests.mutation [--modules crashing,guards/timer] [--from-line 200] [--to-line 300] [--anew] [--list]

A mutant that lives is explained in explained.toml, or the run fails. What was judged before, in a run that was broken
off too, is not judged again (remembered.py). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.plan import TESTS
from tests.mutation.remembered import BESIDE, Remembered
from tests.mutation.running import PACKAGE, SURVIVED, TIMED_OUT, Verdict, judged

EXPLAINED = Path(__file__).with_name("explained.toml")
COUNTED = ("killed", "timed_out", "explained", "unexplained")


def main() -> int:
    """1 when a mutant lives that nobody has explained, or an explanation is about none."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--modules", default=",".join(TESTS))
    parser.add_argument("--from-line", type=int, default=1, help="only mutants from this line of each module on")
    parser.add_argument("--to-line", type=int, default=sys.maxsize, help="and up to this one")
    parser.add_argument("--anew", action="store_true", help="judge also those that were judged before")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    told = parser.parse_args()
    reasons: dict[str, dict[str, str]] = tomllib.loads(EXPLAINED.read_text())
    remembered, total = Remembered(BESIDE), dict.fromkeys(("mutants", *COUNTED), 0)
    if told.anew and not told.list:
        remembered.forget()
    for module in told.modules.split(","):
        all_ = mutants_of((PACKAGE / f"{module}.py").read_text())
        mutants = [one for one in all_ if told.from_line <= one.line <= told.to_line]
        total["mutants"] += len(mutants)
        if told.list:
            print("\n".join(f"{module}:{one.line}: {one.what}" for one in mutants))
            continue
        counts = counted(module, _verdicts(module, mutants, remembered), reasons.get(module, {}))
        counts["unexplained"] += _of_none(module, all_, reasons.get(module, {}))
        for outcome, count in counts.items():
            total[outcome] += count
        print(f"mutation: {module:18s} {len(mutants):4d} mutants  " + "  ".join(f"{v} {k}" for k, v in counts.items()))
        sys.stdout.flush()
    print(json.dumps(total))
    return 1 if total["unexplained"] else 0


def counted(module: str, verdicts: Iterable[Verdict], reasons: dict[str, str]) -> dict[str, int]:
    """How many came to which end; says which live, and which only did not end in time, when it comes to them."""
    counts = dict.fromkeys(COUNTED, 0)
    for verdict in verdicts:
        mutant, end = verdict.mutant, verdict.outcome
        if end == SURVIVED:
            end = "explained" if mutant.key in reasons else "unexplained"
        if end in ("unexplained", TIMED_OUT):
            said = "lives" if end == "unexplained" else "not ended in time"
            print(f"{said}: {module}:{mutant.line}: {mutant.what}", flush=True)
        counts[end] += 1
    return counts


def _verdicts(module: str, mutants: Sequence[Mutant], remembered: Remembered) -> Iterable[Verdict]:
    """First those of earlier runs."""
    tests = "".join(Path(test).read_text() for test in TESTS[module])
    found = [(one, remembered.outcome(one, tests)) for one in mutants]
    yield from (Verdict(one, outcome) for one, outcome in found if outcome is not None)
    for verdict in judged(module, [one for one, outcome in found if outcome is None], TESTS[module]):
        remembered.note(verdict.mutant, tests, verdict.outcome)
        yield verdict


def _of_none(module: str, mutants: Iterable[Mutant], reasons: Iterable[str]) -> int:
    """The number of explanations that are about no mutant."""
    gone = set(reasons) - {one.key for one in mutants}
    for key in sorted(gone):
        print(f"explained, but there is none: {module}: {key}", flush=True)
    return len(gone)


if __name__ == "__main__":
    sys.exit(main())
