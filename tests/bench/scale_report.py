"""Turns what was measured at each size into a table, the targets one by one, and one JSON object as the last line."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.bench.scale_cpu import Spent, median_of

FORMED_LIMIT_S = {1_000: 1.0, 10_000: 5.0}
FANOUT_LIMIT_MS = {1_000: 150.0, 10_000: 1_500.0}
IDLE_LIMIT_PCT = {1_000: 20.0}
LINE_LIMIT = 1.3
"""From one size to the next, cost per launcher may grow by so much and still be called a line."""


@dataclass
class Measured:
    """One size."""

    nodes: int
    relays: int
    load: float
    lease_s: float = 5.0
    """The job's own; with more than 2,000 direct launchers it grows."""
    connections: int = 0
    connect_s: float | None = None
    formed_s: float | None = None
    formed_cpu: Spent | None = None
    """From the first hello to the last Run."""
    started_cpu: Spent | None = None
    """From the first hello until every start was told."""
    lost_joins: int = 0
    fanouts_s: list[float] = field(default_factory=list)
    reformed_s: list[float] = field(default_factory=list)
    order_cpu: list[Spent] = field(default_factory=list)
    """Of each fault, until the last launcher had the order."""
    fault_cpu: list[Spent] = field(default_factory=list)
    """Of each whole recovery."""
    idle_cpu: Spent | None = None
    """Per second."""
    beats_per_s: float | None = None
    rss_before_mib: float = 0.0
    rss_mib: float | None = None
    rss_end_mib: float | None = None
    service_back_s: float | None = None
    """From SIGKILL to ready again."""
    restart_back_s: float | None = None
    """From SIGKILL until every launcher was told something on a new stream."""
    lost_nodes: int | None = None
    errors: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """For the report."""
        return f"{self.nodes} by {self.relays} relays" if self.relays else str(self.nodes)

    @property
    def service_cpu_s(self) -> float | None:
        """Of the service alone, from the first hello to the last Run."""
        return self.formed_cpu.service_s if self.formed_cpu else None

    @property
    def fault_cpu_s(self) -> float | None:
        """Of the service alone, for a whole recovery; the median."""
        spent = median_of(self.fault_cpu)
        return spent.service_s if spent else None

    @property
    def idle_cpu_pct(self) -> float | None:
        """Of the service alone."""
        return self.idle_cpu.service_s * 100 if self.idle_cpu else None

    @property
    def fanout_ms_p99(self) -> float | None:
        """Of the last launcher's wait over all faults; with few faults that is the worst."""
        ordered = sorted(self.fanouts_s)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3 if ordered else None

    def line(self) -> str:
        """For people, as soon as the size is measured."""
        fanouts = statistics.median(self.fanouts_s) * 1e3 if self.fanouts_s else None
        behind = f" behind {self.relays} relays" if self.relays else ""
        return (
            f"{self.nodes:6d} launchers{behind}, {self.connections} connections (load {self.load:.1f}): connected in "
            f"{_said(self.connect_s)} s; formed in {_said(self.formed_s)} s with {self.formed_cpu or '-'} of CPU; "
            f"{self.lost_joins} lost joins\n"
            f"       fault to last order: median {_said(fanouts, 0)} ms, p99 {_said(self.fanout_ms_p99, 0)} ms of "
            f"{len(self.fanouts_s)}; next generation at the last after {_said(_median(self.reformed_s))} s; "
            f"CPU until then {median_of(self.order_cpu) or '-'}, in all {median_of(self.fault_cpu) or '-'}\n"
            f"       idle {_said(self.idle_cpu_pct, 1)} % of a core at {_said(self.beats_per_s, 0)} beats/s; "
            f"{_said(self.rss_mib, 0)} MiB ({self.rss_before_mib:.0f} before, {_said(self.rss_end_mib, 0)} at the end)"
            + self._after_restart()
            + "".join(f"\n       {error}" for error in self.errors)
        )

    def _after_restart(self) -> str:
        if self.lost_nodes is None:
            return ""
        return (
            f"\n       killed and started anew: it serves after {_said(self.service_back_s)} s, the last launcher is "
            f"back after {_said(self.restart_back_s)} s, {self.lost_nodes} nodes lost"
        )


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _said(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _rounded_cpu(spent: Spent | None) -> dict[str, float] | None:
    return spent.rounded() if spent else None


def _by_phase(size: Measured) -> dict[str, dict[str, float] | None]:
    """Processor seconds of each side: until the last Run, until every start was told, and so on; idle per second."""
    return {
        "formed": _rounded_cpu(size.formed_cpu),
        "started": _rounded_cpu(size.started_cpu),
        "order": _rounded_cpu(median_of(size.order_cpu)),
        "fault": _rounded_cpu(median_of(size.fault_cpu)),
        "idle": _rounded_cpu(size.idle_cpu),
    }


def _targets(sizes: Sequence[Measured]) -> list[tuple[bool | None, str]]:
    rows: list[tuple[bool | None, str]] = []

    def judge(value: float | None, limit: float, what: str) -> None:
        rows.append((None if value is None else value <= limit, f"{what} <= {limit:g} ({_said(value)})"))

    # so many launchers are meant to stand behind relays: what they take without is told, and no target
    behind = {size.nodes for size in sizes if size.relays}
    for size in sizes:
        rows.append((size.lost_joins == 0 and size.formed_s is not None, f"{size.name}: no lost join"))
        if size.nodes in FORMED_LIMIT_S and (size.relays or size.nodes not in behind):
            name = f"{size.name} (directly it is printed)" if size.relays else size.name
            judge(size.formed_s, FORMED_LIMIT_S[size.nodes], f"{name}: round formed, s")
            judge(size.fanout_ms_p99, FANOUT_LIMIT_MS[size.nodes], f"{name}: fault to last order, p99, ms")
        if size.lost_nodes is not None:
            rows.append((size.lost_nodes == 0 and not size.errors, f"{size.name}: no node lost by a restart"))
        if size.nodes in IDLE_LIMIT_PCT:
            judge(size.idle_cpu_pct, IDLE_LIMIT_PCT[size.nodes], f"{size.name}: idle, % of a core")
    sizes = [size for size in sizes if not size.relays]
    if len(sizes) > 1 and all(size.service_cpu_s for size in sizes) and all(size.rss_mib for size in sizes):
        small, large = sizes[0], sizes[-1]
        times = large.nodes / small.nodes
        cpu = (large.service_cpu_s or 0.0) / (small.service_cpu_s or 1.0)
        judge(cpu / times, LINE_LIMIT, f"CPU of a round from {small.nodes} to {large.nodes}, over a line")
        grown = [((size.rss_mib or 0.0) - size.rss_before_mib) / size.nodes for size in (small, large)]
        judge(grown[1] / grown[0], LINE_LIMIT, f"memory per launcher from {small.nodes} to {large.nodes}, over a line")
    return rows


def _figures(sizes: Sequence[Measured], load: float) -> dict[str, object]:
    def by_size(name: str, digits: int = 3) -> dict[str, float | None]:
        return {size.name: _rounded(getattr(size, name), digits) for size in sizes}

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "formed_s": by_size("formed_s"),
        "fanout_ms_p99": by_size("fanout_ms_p99", 1),
        "service_cpu_s": by_size("service_cpu_s"),
        "fault_cpu_s": {
            size.name: spent["service"] if (spent := _rounded_cpu(median_of(size.fault_cpu))) else None
            for size in sizes
        },
        "cpu_s": {size.name: _by_phase(size) for size in sizes},
        "reformed_s": {size.name: _rounded(_median(size.reformed_s)) for size in sizes},
        "lost_joins": sum(size.lost_joins for size in sizes),
        "idle_cpu_pct": by_size("idle_cpu_pct", 1),
        "rss_mib": by_size("rss_mib", 1),
        "lease_s": by_size("lease_s", 1),
        "restart_back_s": {size.name: _rounded(size.restart_back_s) for size in sizes if size.lost_nodes is not None},
        "connections": {size.name: size.connections for size in sizes},
        "load": round(load, 2),
        "cores": len(os.sched_getaffinity(0)),
        "commit": commit or None,
        "notes": [error for size in sizes for error in size.errors],
    }


def report(sizes: Sequence[Measured], load: float) -> bool:
    """Print everything; true when no target failed."""
    print()
    targets = _targets(sizes)
    words = {True: "pass", False: "FAIL", None: "not measured"}
    for judged, what in targets:
        print(f"{words[judged]:13s} {what}")
    print(json.dumps(_figures(sizes, load)))
    return not any(judged is False for judged, _ in targets)
