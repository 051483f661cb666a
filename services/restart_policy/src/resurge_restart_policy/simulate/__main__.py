"""Compares restart policies over a failure trace: people's text first, one JSON object last.

python -m resurge_restart_policy.simulate TRACE.json [--policies a,b] [--nodes N --active N] [--seed N] ...
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from resurge_libs.core.ledger import Doing
from resurge_restart_policy.simulate.policies import POLICIES
from resurge_restart_policy.simulate.trace import DAY_S, TraceProblem, read_trace
from resurge_restart_policy.simulate.world import Outcome, Setup, simulate

EXIT_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0, or 2 for an unusable trace or setting."""
    options = _parser().parse_args(argv)
    began = time.monotonic()
    try:
        setup = Setup(**{item.name: getattr(options, item.name) for item in fields(Setup)})
        names = options.policies.split(",")
        if unknown := [name for name in names if name not in POLICIES]:
            raise ValueError(f"--policies: {', '.join(unknown)} is not one of {', '.join(POLICIES)}")
        faults = read_trace(options.trace)
        outcomes = [simulate(name, POLICIES[name], faults, setup, options.seed) for name in names]
    except (TraceProblem, ValueError) as problem:
        print(f"simulate: {problem}", file=sys.stderr)
        return EXIT_USAGE
    days = outcomes[0].ledger.wall_s / DAY_S
    print(f"{len(faults)} faults, {days:.1f} days, {setup.active} of {setup.nodes} nodes train, seed {options.seed}\n")
    print(_table(outcomes))
    took_s = time.monotonic() - began
    print(json.dumps({
        "faults": len(faults), "days": round(days, 4), "seed": options.seed, "took_s": round(took_s, 2),
        "policies": {outcome.policy: _figures(outcome) for outcome in outcomes},
    }))  # fmt: skip
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulate", description="Compares restart policies over a failure trace.")
    parser.add_argument("trace", type=Path, help="the trace, JSON")
    parser.add_argument("--policies", default=",".join(POLICIES), help="which, by comma (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="same seed, same figures (default: %(default)s)")
    for item in fields(Setup):
        kind = type(item.default)
        parser.add_argument(f"--{item.name.replace('_', '-')}", type=kind, default=item.default, help=str(item.default))
    return parser


def _figures(outcome: Outcome) -> dict[str, float | int]:
    ledger = outcome.ledger
    hours = {doing.lower(): ledger.of(doing) / 3_600.0 for doing in Doing if doing is not Doing.TRAINING}
    return {
        "goodput": round(outcome.goodput, 6),
        "restarts": outcome.restarts,
        "exclusions": outcome.exclusions,
        "refused_exclusions": outcome.refused_exclusions,
        "excluded_node_days": round(outcome.excluded_node_days, 3),
        "lost_h": round(ledger.lost_s / 3_600.0, 3),
        **{f"{name}_h": round(took, 3) for name, took in hours.items()},
    }


def _table(outcomes: Sequence[Outcome]) -> str:
    names = ("policy", "goodput", "restarts", "excluded", "node days out", "lost h", "waiting h")
    head = "{:<22} {:>8} {:>9} {:>9} {:>14} {:>8} {:>10}".format(*names)
    rows = [
        f"{o.policy:<22} {o.goodput:>8.2%} {o.restarts:>9} {o.exclusions:>9} {o.excluded_node_days:>14.1f} "
        f"{o.ledger.lost_s / 3600:>8.1f} {o.ledger.of(Doing.WAITING) / 3600:>10.1f}"
        for o in outcomes
    ]
    return "\n".join([head, *rows])


if __name__ == "__main__":
    sys.exit(main())
