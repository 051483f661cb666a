"""`resurge status`: the job as it stands, with its nodes."""

from __future__ import annotations

import click
from google.protobuf import json_format

from resurge_launcher.commands.control import find_place, job_at, place_options


@click.command("status")
@place_options
@click.option("--json", "is_json", is_flag=True, help="Print the job as JSON.")
def command(endpoint: str | None, state_dir: str | None, is_json: bool) -> None:
    """Show the job: phase and why, generation, cycle, restarts, nodes, and its end if it has one."""
    job = job_at(find_place(endpoint, state_dir))
    if is_json:
        click.echo(json_format.MessageToJson(job, indent=1, preserving_proto_field_name=True))
        return
    from rich.console import Console

    from resurge_launcher.views.job import job_lines, nodes_table

    console = Console(soft_wrap=True)
    for line in job_lines(job):
        console.print(line)
    if job.nodes:
        console.print(nodes_table(job.nodes))
