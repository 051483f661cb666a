"""Recoveries and jobs as tables for the terminal. Builds rich values; prints nothing."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from resurge_launcher.views.model import RecoveryView, duration, phase_title

WIDE_COLUMNS = 170  # all in one row
NARROW_COLUMNS = 100  # abbreviate
ALWAYS_SHOWN = ("detect", "decide", "teardown", "rendezvous", "spawn", "init", "checkpoint_restore", "first_step")
_STYLE_OF_OUTCOME = {"recovered": "green", "started only": "yellow", "open": "yellow", "job ended": "red"}


def recoveries_table(views: Sequence[RecoveryView], width: int) -> Group | Table:
    """One row per recovery: what happened, what was decided, how long each phase took. Two tables if narrow."""
    phases = _phases_of(views)
    if width >= WIDE_COLUMNS:
        table = _story(views, is_narrow=False)
        _add_phase_columns(table, phases)
        for place, view in enumerate(views, 1):
            table.add_row(*_story_cells(place, view, False), *_phase_cells(view, phases))
        return table
    is_narrow = width < NARROW_COLUMNS
    story, times = _story(views, is_narrow), _plain_table("Phases")
    times.add_column("#", justify="right")
    _add_phase_columns(times, phases)
    for place, view in enumerate(views, 1):
        story.add_row(*_story_cells(place, view, is_narrow))
        times.add_row(str(place), *_phase_cells(view, phases))
    return Group(story, times)


def _phases_of(views: Sequence[RecoveryView]) -> list[str]:
    seen: dict[str, None] = dict.fromkeys(ALWAYS_SHOWN)
    for view in views:
        seen.update(dict.fromkeys(view.phases))
    return list(seen)


def _plain_table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")


def _story(views: Sequence[RecoveryView], is_narrow: bool) -> Table:
    table = _plain_table(f"{len(views)} {'recovery' if len(views) == 1 else 'recoveries'}")
    names = ("#", "UTC" if is_narrow else "when (UTC)", "reason", "culprit", "verdict")
    for name in (*names, "gen." if is_narrow else "generation", "outcome"):
        table.add_column(name, justify="right" if name == "#" else "left", overflow="fold")
    for name in ("total", "cover" if is_narrow else "covered"):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _story_cells(place: int, view: RecoveryView, is_narrow: bool) -> list[str | Text]:
    return [
        str(place),
        view.started.strftime("%H:%M:%S.%f")[: 8 if is_narrow else 12],
        view.reason,
        view.culprit,
        view.verdict,
        view.generations.replace(" ", "") if is_narrow else view.generations,
        Text(view.outcome, style=_STYLE_OF_OUTCOME.get(view.outcome, "")),
        Text(duration(view.total_s), style="bold"),
        f"{view.coverage:.0%}",
    ]


def _add_phase_columns(table: Table, phases: Sequence[str]) -> None:
    for name in phases:
        table.add_column(phase_title(name), justify="right", no_wrap=True)


def _phase_cells(view: RecoveryView, phases: Sequence[str]) -> list[str]:
    took = view.phases
    return [duration(took[name]) if name in took else "-" for name in phases]
