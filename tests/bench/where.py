"""Where each millisecond of a recovery went, from the durable records: the phases on the way, and what no span covers.

Rendezvous' own spans and those of the rank that was last follow one another from the first signal to the last first
step; a launcher's own spans lie beside them and are left out of the sum.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.rpc.records import read_recoveries

PHASES = ("detect", "decide", "teardown", "rendezvous", "spawn", "init", "checkpoint_restore", "first_step")
BESIDE = "resurge.raw_start"
"""An attribute of spans that launchers measured themselves."""


def where_the_time_goes(state_dir: Path) -> dict[str, float]:
    """Milliseconds by phase, medians over the recoveries, with `whole` and the `uncovered_pct` of the worst one."""
    rows = [_phases(record) for record in read_recoveries(state_dir).recoveries if len(record.spans) > len(PHASES)]
    if not rows:
        return {}
    found = {name: round(statistics.median(row[name] for row in rows), 1) for name in (*PHASES, "whole")}
    return {**found, "uncovered_pct": round(max(row["uncovered_pct"] for row in rows), 2)}


def _phases(record: rendezvous_pb2.Recovery) -> dict[str, float]:
    begin, end = _ms(record.start), _ms(record.end)
    spans = [(part.span.name, _ms(part.span.start), _ms(part.span.end), part) for part in record.spans]
    ranks = [(stop, part.span.rank) for name, _, stop, part in spans if name == "first_step"]
    last = max(ranks, default=(0.0, 0))[1]
    row = dict.fromkeys(PHASES, 0.0)
    for name, start, stop, part in spans:
        is_own = not part.node_id or (part.span.HasField("rank") and part.span.rank == last)
        if name in row and is_own and BESIDE not in part.span.attributes:
            row[name] += stop - start
    uncovered, reached = 0.0, begin
    for start, stop in sorted((max(start, begin), min(stop, end)) for _, start, stop, _ in spans):
        uncovered += max(0.0, start - reached)
        reached = max(reached, stop)
    uncovered += max(0.0, end - reached)
    return {**row, "whole": end - begin, "uncovered_pct": 100 * uncovered / max(end - begin, 1e-9)}


def _ms(at) -> float:
    return at.ToNanoseconds() / 1e6
