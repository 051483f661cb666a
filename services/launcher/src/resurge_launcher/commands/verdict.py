"""`resurge verdict`: how the job ended, from the durable record; for batch scripts and people."""

from __future__ import annotations

import click
from google.protobuf import json_format

from resurge_launcher.commands.control import find_place, job_at, place_options
from resurge_launcher.usage import CommandFailed


@click.command("verdict")
@place_options
@click.option(
    "--exit-code", "is_code", is_flag=True, help="Print the job's exit code alone: exit $(resurge verdict ...)."
)
@click.option("--json", "is_json", is_flag=True, help="Print the decision as JSON.")
def command(endpoint: str | None, state_dir: str | None, is_code: bool, is_json: bool) -> None:
    """Show the terminal decision: exit code, when, and why. Ends with 1 while the job goes on."""
    job = job_at(find_place(endpoint, state_dir))
    if not job.HasField("decision"):
        raise CommandFailed(
            "the job has no terminal decision: it goes on, or its control plane was lost before its end"
        )
    if is_code:
        click.echo(str(job.decision.exit_code))
    elif is_json:
        click.echo(json_format.MessageToJson(job.decision, indent=1, preserving_proto_field_name=True))
    else:
        from resurge_launcher.views.job import decision_sentence

        click.echo(decision_sentence(job.decision))
