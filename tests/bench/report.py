"""Turns the measured rows into a table for people, the targets one by one, and one JSON object as the last line."""

import json
import os
import statistics
import subprocess
from dataclasses import dataclass, field

OURS, COLD, PEERS = "resurge", "cold", ("torchrun", "nvrx")
CELLS = ("1x4", "1x4_sigterm", "2x2")
"""Of the second one the script has a handler for SIGTERM."""
PHASES = ("known_s", "known_after_death_s", "workers_started_s", "process_group_ready_s", "first_step_s")
JUDGED = tuple(phase for phase in PHASES if phase != "known_after_death_s")
TITLES = {
    "known_s": "launcher knows",
    "known_after_death_s": "  the same, from the death",
    "workers_started_s": "all new workers started",
    "process_group_ready_s": "process group ready",
    "first_step_s": "first committed step",
}
KNOWN_LIMIT_MS = 10.0
STARTED_LIMIT_S = {"1x4": 0.15, "2x2": 0.3}
WARM_TIMES_SOONER = 5.0
MIN_KILLS = 7
MIN_KNOWN_KILLS = 300
UNCOVERED_LIMIT_PCT = 5.0
NODE_LOSS_LIMIT_S = {"rst": 3.0, "silent": 5.0 + 2.0}
"""The second one is the default lease and two seconds."""


@dataclass
class Results:
    """Everything that was measured; filled by the driver."""

    wanted_kills: int
    load: float
    kills: dict[tuple[str, str], list[dict]] = field(default_factory=dict)
    known: list[dict] = field(default_factory=list)
    """Of kills of workers without torch."""
    launches: dict[str, list[float]] = field(default_factory=dict)
    first_steps: dict[str, list[float]] = field(default_factory=dict)
    """Of launches: from the command on."""
    node_losses: dict[str, list[float]] = field(default_factory=dict)
    footprint: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    where: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    """Milliseconds of a recovery by phase, from the durable records of our own systems."""
    exit_codes: dict[tuple[str, str], list] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def drop(self, system: str, cell: str, why: str) -> None:
        """This system takes no further part in this cell."""
        self.failures[system, cell] = why
        self.notes.append(why)
        print(f"  {system} {cell} dropped: {why}", flush=True)

    def dropped(self, system: str, cell: str) -> bool:
        return (system, cell) in self.failures

    def median(self, system: str, cell: str, phase: str) -> float | None:
        """The median over all kills that have the figure, None without any."""
        values = [row[phase] for row in self.kills.get((system, cell), []) if row.get(phase) is not None]
        return statistics.median(values) if values else None

    def p99_ms(self, phase: str) -> float | None:
        """Our 99th percentile over the kills of workers without torch."""
        values = sorted(row[phase] * 1e3 for row in self.known if row[phase] is not None)
        return values[min(len(values) - 1, int(len(values) * 0.99))] if values else None


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _table(results: Results) -> None:
    systems = [*PEERS, COLD, OURS]
    print("\nmedians in seconds from the kill; the ratio is the faster peer over resurge")
    print(f"{'cell':12s} {'phase':26s}" + "".join(f"{name:>11s}" for name in systems) + f"{'ratio':>9s}  kills")
    for cell in CELLS:
        for phase in PHASES:
            values = {name: results.median(name, cell, phase) for name in systems}
            rivals = [values[name] for name in PEERS if values[name] is not None]
            ratio = f"{min(rivals) / values[OURS]:.1f}x" if rivals and values[OURS] else "-"
            cells = "".join(f"{values[name]:11.3f}" if values[name] is not None else f"{'-':>11s}" for name in systems)
            counts = "/".join(str(len(results.kills.get((name, cell), []))) for name in systems)
            print(f"{cell:12s} {TITLES[phase]:26s}{cells}{ratio:>9s}  {counts}")
    for (system, cell), (rss, cpu) in results.footprint.items():
        print(f"{cell:12s} {system:10s} beside the workers, per node: {rss:.0f} MiB resident, {cpu:.1f} % of a core")
    for (system, cell), phases in results.where.items():
        if phases:
            told = ", ".join(f"{name} {ms:g}" for name, ms in phases.items() if name != "uncovered_pct")
            print(
                f"{cell:12s} {system:10s} milliseconds by its trace: {told}; {phases['uncovered_pct']:g} % in no span"
            )
    for how, seconds in results.node_losses.items():
        print(f"2x2 and a spare, node lost ({how}): all new workers started {statistics.median(seconds):.2f} s")
    for system, seconds in results.launches.items():
        steps = results.first_steps.get(system)
        step_s, started_s = statistics.median(steps) if steps else float("nan"), statistics.median(seconds)
        print(
            f"launch {system:10s} command to all of 1x4 started: {started_s:.2f} s, to the first step: {step_s:.2f} s"
        )


def _targets(results: Results) -> list[tuple[bool | None, str]]:
    """Each target with pass, fail, or None where it could not be judged."""
    rows: list[tuple[bool | None, str]] = []
    for phase, since in (("known_s", "the kill"), ("known_after_death_s", "the death, as a watcher beside it sees it")):
        p99 = results.p99_ms(phase)
        enough = len(results.known) >= MIN_KNOWN_KILLS
        met = None if p99 is None or not enough else p99 <= KNOWN_LIMIT_MS
        rows.append((met, f"knows in <= 10 ms from {since} (p99 of {len(results.known)} kills: {_rounded(p99, 2)} ms)"))
    for cell, limit in STARTED_LIMIT_S.items():
        ours = results.median(OURS, cell, "workers_started_s")
        rows.append(
            (None if ours is None else ours <= limit, f"{cell}: all started in <= {limit} s ({_rounded(ours)} s)")
        )
    for cell in CELLS:
        for phase in JUDGED:
            ours = results.median(OURS, cell, phase)
            for peer in PEERS:
                theirs = results.median(peer, cell, phase)
                judged = None if ours is None or theirs is None else ours <= theirs
                what = f"{cell}: {TITLES[phase]} not slower than {peer} ({_rounded(ours)} s, {_rounded(theirs)} s)"
                rows.append((judged, what))
    for cell in CELLS:
        for ours, times in ((OURS, WARM_TIMES_SOONER), (COLD, 1.0)):
            mine = results.median(ours, cell, "first_step_s")
            theirs = [value for peer in PEERS if (value := results.median(peer, cell, "first_step_s")) is not None]
            ratio = min(theirs) / mine if theirs and mine else None
            what = f"{cell}: {ours}: first step {times:g} times sooner than the faster peer's ({_rounded(ratio, 1)})"
            rows.append((None if ratio is None else ratio >= times, what))
    rows += _trace_targets(results)
    rows += _launch_targets(results)
    rows += _node_loss_targets(results)
    for system, cell in results.kills:
        if system in (OURS, COLD):
            enough = len(results.kills[system, cell]) >= max(MIN_KILLS, results.wanted_kills)
            codes = results.exit_codes.get((system, cell))
            rows.append((enough, f"{cell}: recovered from every kill, at least {MIN_KILLS}"))
            rows.append((codes is not None and set(codes) == {0}, f"{cell}: the job ended with 0 afterwards ({codes})"))
    return rows


def _trace_targets(results: Results) -> list[tuple[bool | None, str]]:
    rows: list[tuple[bool | None, str]] = []
    for (system, cell), phases in results.where.items():
        if phases:
            worst = phases["uncovered_pct"]
            what = f"{cell}: {system}: the trace covers 95 % of every recovery ({worst:g} % in no span)"
            rows.append((worst <= UNCOVERED_LIMIT_PCT, what))
    return rows


def _node_loss_targets(results: Results) -> list[tuple[bool | None, str]]:
    rows: list[tuple[bool | None, str]] = []
    for how, limit in NODE_LOSS_LIMIT_S.items():
        seconds = results.node_losses.get(how)
        ours = statistics.median(seconds) if seconds else None
        lost = results.node_losses.get("nvrx")
        theirs = _rounded(statistics.median(lost), 2) if lost else None
        what = f"node lost ({how}): all started in <= {limit:g} s ({_rounded(ours, 2)} s; nvrx {theirs} s)"
        rows.append((None if ours is None else ours <= limit, what))
    return rows


def _launch_targets(results: Results) -> list[tuple[bool | None, str]]:
    """No launch is later than torchrun's: cold to the workers' start, and each to the first step of a training script.

    A warm worker starts with torch imported, torchrun's imports it afterwards: their starts are printed, not compared.
    """
    rows: list[tuple[bool | None, str]] = []
    for system, found, what in (
        (COLD, results.launches, "all workers started"),
        (COLD, results.first_steps, "first step"),
        (OURS, results.first_steps, "first step"),
    ):
        if system not in found or "torchrun" not in found:
            rows.append((None, f"launch of {system}: {what} no later than torchrun's"))
            continue
        ours, theirs = statistics.median(found[system]), statistics.median(found["torchrun"])
        told = f"launch of {system}: {what} no later than torchrun's ({_rounded(ours)} s, {_rounded(theirs)} s)"
        rows.append((ours <= theirs, told))
    return rows


def _figures(results: Results) -> dict:
    def per_cell(phase):
        return {
            cell: {
                "warm": _rounded(results.median(OURS, cell, phase)),
                "cold": _rounded(results.median(COLD, cell, phase)),
            }
            | {peer: _rounded(results.median(peer, cell, phase)) for peer in PEERS}
            for cell in CELLS
        }

    def median(values):
        return _rounded(statistics.median(values)) if values else None

    rss, cpu = results.footprint.get((OURS, "2x2"), results.footprint.get((OURS, "1x4"), (None, None)))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "known_ms_p99": _rounded(results.p99_ms("known_s"), 2),
        "known_after_death_ms_p99": _rounded(results.p99_ms("known_after_death_s"), 2),
        "workers_started_s": per_cell("workers_started_s"),
        "process_group_ready_s": per_cell("process_group_ready_s"),
        "first_step_s": per_cell("first_step_s"),
        "trace_ms": {f"{cell} {system}": phases for (system, cell), phases in results.where.items() if phases},
        "node_loss_started_s": {how: median(results.node_losses.get(how)) for how in ("rst", "silent", "nvrx")},
        "launch_s": {name: median(results.launches.get(name)) for name in (OURS, COLD, "torchrun")},
        "launch_first_step_s": {name: median(results.first_steps.get(name)) for name in (OURS, COLD, "torchrun")},
        "node_rss_mib": _rounded(rss, 1),
        "node_idle_cpu_pct": _rounded(cpu, 2),
        "load": round(results.load, 2),
        "cores": len(os.sched_getaffinity(0)),
        "commit": commit or None,
        "notes": [
            "resurge and warm: every setting at its default; cold: the same with --warm off",
            "known_ms_p99 counts from the kill; known_after_death_ms_p99 from when a pidfd beside the launcher told of "
            "the death, and is 0 where the lock on the worker's page told the launcher before that",
            *results.notes,
        ],
    }


def report(results: Results) -> bool:
    """Print everything; true when no target failed and none of ours went unjudged."""
    _table(results)
    print()
    targets = _targets(results)
    words = {True: "pass", False: "FAIL", None: "not measured"}
    for judged, what in targets:
        print(f"{words[judged]:13s} {what}")
    for note in results.notes:
        print(f"note          {note}")
    print(json.dumps(_figures(results)))
    return not any(judged is False for judged, _ in targets)
