"""`resurge report`: where the wall time of a job went, in accounts that sum up to it."""

from __future__ import annotations

import json
import time

import click

from resurge_launcher.commands.control import find_place, job_at, place_options
from resurge_launcher.usage import CommandFailed


@click.command("report")
@place_options
@click.option("--json", "is_json", is_flag=True, help="Print the accounts as JSON.")
def command(endpoint: str | None, state_dir: str | None, is_json: bool) -> None:
    """Show the goodput of a job and what the rest of its time went for.

    Productive steps, lost (replayed) steps, detection, teardown, rendezvous, start, restore, waiting: every second of
    the job id, over its attempts, is in exactly one of them.
    """
    from resurge_launcher.views.report import ledger_view, report_json, report_lines

    place = find_place(endpoint, state_dir)
    job = job_at(place)
    if not job.HasField("ledger"):
        raise CommandFailed(f"{place} keeps no ledger: no launcher has opened the job, or an older release wrote it")
    view = ledger_view(job, time.time() if place.endpoint is not None else None)
    if is_json:
        click.echo(json.dumps(report_json(view), indent=1))
    else:
        click.echo("\n".join(report_lines(view)))
