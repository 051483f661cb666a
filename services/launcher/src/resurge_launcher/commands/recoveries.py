"""`resurge recoveries`: what each recovery did and how long each phase took, as table, page, trace file or JSON."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import click

from resurge_launcher.commands.control import find_place, place_options, recoveries_at
from resurge_launcher.usage import CommandFailed
from resurge_launcher.views.model import RecoveryView, as_json, view_of

PIPE_COLUMNS = 200  # no terminal to fit: one row per recovery


@click.command("recoveries")
@place_options
@click.option("--html", "html_file", metavar="FILE", help="Write one self-contained timeline page.")
@click.option("--perfetto", "perfetto_file", metavar="FILE", help="Write a trace for Perfetto or chrome://tracing.")
@click.option("--json", "is_json", is_flag=True, help="Print the records as JSON.")
def command(
    endpoint: str | None, state_dir: str | None, html_file: str | None, perfetto_file: str | None, is_json: bool
) -> None:
    """Show each recovery: what happened, what was decided, and how long each phase took.

    Asks the control plane at --endpoint, or reads what it left in --state-dir; without either, the newest job here.
    """
    place = find_place(endpoint, state_dir)
    records = recoveries_at(place)
    views = [view_of(record) for record in records]
    if html_file:
        from resurge_launcher.views.html import page

        job_id = next((record.incident.token.job_id for record in records), "")
        made_at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        _write(html_file, page(views, job_id, made_at))
    if perfetto_file:
        from resurge_launcher.views.perfetto import chrome_trace

        _write(perfetto_file, json.dumps(chrome_trace(views)))
    if is_json:
        click.echo(json.dumps([as_json(view) for view in views], indent=1))
    elif not html_file and not perfetto_file:
        _print_table(views)


def _print_table(views: list[RecoveryView]) -> None:
    if not views:
        click.echo("No recovery so far: nothing had to be restarted.")
        return
    from rich.console import Console

    from resurge_launcher.views.table import recoveries_table

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_COLUMNS
    Console(width=width).print(recoveries_table(views, width))


def _write(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{name} cannot be written: {error.strerror}") from None
    click.echo(f"resurge: wrote {name}", err=True)
