"""Cycles of a job, over its attempts, in one story: how long each ran, what ended it, how long until the next. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from resurge_launcher.views.model import duration
from resurge_libs.core.host_list import compressed
from resurge_libs.obs.cycle_record import CycleRecord, as_json

UNKNOWN = "unknown"
_STYLE_OF_VERDICT = {"RESTART": "yellow", "RESTART_EXCLUDING": "yellow", "STOP": "red"}


@dataclass(frozen=True, slots=True)
class CycleView:
    """One cycle and what came after it."""

    record: CycleRecord
    path: str
    down_s: float | None
    """From its end to the start of the next cycle of the job; None where it has none, or the end is not known."""

    @property
    def ran_s(self) -> float | None:
        """How long it ran; None while it does."""
        return None if self.record.end is None else max(0.0, self.record.end - self.record.start)

    @property
    def name(self) -> str:
        """`ATTEMPT/CYCLE`."""
        return f"{self.record.attempt}/{self.record.cycle}"


def joined(found: Iterable[tuple[str, CycleRecord]]) -> list[CycleView]:
    """The records of one job in the order of their starts, over all attempts; each with the pause that followed it."""
    ordered = sorted(found, key=lambda item: (item[1].start, item[1].attempt, item[1].generation))
    views = []
    for place, (path, record) in enumerate(ordered):
        following = ordered[place + 1][1] if place + 1 < len(ordered) else None
        known = following is not None and record.end is not None
        down_s = max(0.0, following.start - record.end) if known and following and record.end is not None else None
        views.append(CycleView(record, path, down_s))
    return views


def cycles_json(views: Sequence[CycleView]) -> list[dict[str, Any]]:
    """The records as their files hold them, each with its path, how long it ran, and the pause after it."""
    return [{**as_json(v.record), "path": v.path, "ran_s": v.ran_s, "down_s": v.down_s} for v in views]


def cycles_table(views: Sequence[CycleView]) -> Table:
    """One row per cycle."""
    title = f"{len(views)} {'cycle' if len(views) == 1 else 'cycles'}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for name in ("attempt/cycle", "generation", "began (UTC)", "ran", "nodes", "standby", "from step", "ended by"):
        table.add_column(name, overflow="fold")
    for name in ("culprit", "verdict", "down"):
        table.add_column(name, overflow="fold")
    for view in views:
        record, end = view.record, view.record.ended_by
        verdict = end.verdict or ("-" if end.exit_code is None else f"exit {end.exit_code}")
        table.add_row(
            view.name,
            str(record.generation),
            f"{datetime.fromtimestamp(record.start, UTC):%Y-%m-%d %H:%M:%S}",
            "runs" if view.ran_s is None else duration(view.ran_s),
            compressed(node.host for node in record.nodes),
            compressed(record.standby_hosts) or "-",
            UNKNOWN if record.restored_iteration is None else str(record.restored_iteration),
            end.reason or "-",
            end.culprit or "-",
            Text(verdict.lower().replace("_", " "), style=_STYLE_OF_VERDICT.get(end.verdict, "")),
            "-" if view.down_s is None else duration(view.down_s),
        )
    return table
