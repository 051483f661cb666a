"""`resurge cycles`: every cycle of a job, over its attempts, as a table or as JSON."""

from __future__ import annotations

import json
import shutil
import sys

import click

from resurge_launcher.commands.cycle_place import cycle_options, cycles_of, place_if_any

PIPE_COLUMNS = 200  # no terminal to fit: one row per cycle


@click.command("cycles")
@cycle_options
@click.option("--json", "is_json", is_flag=True, help="Print the records as JSON, oldest first.")
def command(
    endpoint: str | None, state_dir: str | None, cycle_dir: str | None, job_id: str | None, is_json: bool
) -> None:
    """Show each cycle of a job over all its attempts: where it ran, how long, what ended it, and the pause after it.

    Reads the records in --cycle-info-dir, else those that the job's state directory leads to.
    """
    views = cycles_of(place_if_any(endpoint, state_dir, cycle_dir), cycle_dir, job_id)
    from resurge_launcher.views.cycles import cycles_json, cycles_table

    if is_json:
        click.echo(json.dumps(cycles_json(views), indent=1))
        return
    from rich.console import Console

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_COLUMNS
    Console(width=width).print(cycles_table(views))
