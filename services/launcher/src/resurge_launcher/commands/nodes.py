"""`resurge nodes`: the job's nodes; an operator's orders to exclude or readmit one."""

from __future__ import annotations

import uuid

import click
from google.protobuf import json_format

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.commands import values
from resurge_launcher.commands.control import ask, find_place, job_at, place_options
from resurge_launcher.usage import UsageProblem


@click.command("nodes")
@place_options
@click.option("--exclude", metavar="NODE", help="Keep this node out of later rounds.")
@click.option("--for", "lasts", metavar="S", help="With --exclude: how long; without it, until readmitted.")
@click.option("--reason", default="", metavar="TEXT", help="With --exclude: why, for the record.")
@click.option("--readmit", metavar="NODE", help="End the exclusion of this node.")
@click.option("--json", "is_json", is_flag=True, help="Print the nodes as JSON.")
def command(
    endpoint: str | None, state_dir: str | None, exclude: str | None, readmit: str | None, is_json: bool, **order: str
) -> None:
    """Show the job's nodes: what each is to the job and why. Exclude or readmit one."""
    if exclude and readmit:
        raise UsageProblem("--readmit", "cannot go with --exclude", "Give one of them.")
    place = find_place(endpoint, state_dir)
    if exclude:
        request = exclusion(exclude, order.get("reason") or "", order.get("lasts"))
        nodes = [ask(place, "ExcludeNode", request).node]
    elif readmit:
        request_id = str(uuid.uuid4())
        nodes = [
            ask(place, "ReadmitNode", rendezvous_pb2.ReadmitNodeRequest(request_id=request_id, node_id=readmit)).node
        ]
    else:
        nodes = list(job_at(place).nodes)
    if is_json:
        rows = (json_format.MessageToJson(node, indent=None, preserving_proto_field_name=True) for node in nodes)
        click.echo("[" + ",\n ".join(rows) + "]")
        return
    if not nodes:
        click.echo("No node has come yet.")
        return
    from rich.console import Console

    from resurge_launcher.views.job import nodes_table

    Console(soft_wrap=True).print(nodes_table(nodes))


def exclusion(node_id: str, reason: str, lasts: str | None) -> rendezvous_pb2.ExcludeNodeRequest:
    """The order to exclude one node."""
    request = rendezvous_pb2.ExcludeNodeRequest(
        request_id=str(uuid.uuid4()), node_id=node_id, reason=reason or "by an operator"
    )
    if lasts is not None:
        try:
            request.lasts.FromNanoseconds(round(values.seconds(lasts) * 1e9))
        except values.Wrong as wrong:
            raise UsageProblem("--for", wrong.problem, wrong.right) from None
    return request
