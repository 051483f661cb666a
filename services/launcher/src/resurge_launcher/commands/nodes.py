"""`resurge nodes`: the job's nodes, what each is to the job, and what is held against its machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from google.protobuf import json_format

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.commands.control import find_place, job_at, place_options

WIDE = 200
"""Columns where nobody says how many there are, as in a file."""


@click.command("nodes")
@place_options
@click.option("--json", "is_json", is_flag=True, help="Print the nodes as JSON.")
def command(endpoint: str | None, state_dir: str | None, is_json: bool) -> None:
    """Show the job's nodes: what each is to the job and why, until when it is excluded, and the faults held against
    its machine; then the excluded machines that no node is on now."""
    job = job_at(find_place(endpoint, state_dir))
    show(job.nodes, is_json, job.exclusions)


def show(
    nodes: Sequence[rendezvous_pb2.Node], is_json: bool, exclusions: Sequence[rendezvous_pb2.Exclusion] = ()
) -> None:
    """Print nodes for people, or as JSON."""
    if is_json:
        rows = (json_format.MessageToJson(node, indent=None, preserving_proto_field_name=True) for node in nodes)
        click.echo("[" + ",\n ".join(rows) + "]")
        return
    if not nodes:
        click.echo("No node has come yet.")
        return
    from rich.console import Console

    from resurge_launcher.views.job import absent_machines, nodes_table

    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
    console.print(nodes_table(nodes))
    for line in absent_machines(nodes, exclusions):
        console.print(line)
