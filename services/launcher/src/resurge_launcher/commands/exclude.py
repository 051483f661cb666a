"""`resurge exclude`: an operator keeps a node's machine out of later rounds."""

from __future__ import annotations

import uuid

import click

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.commands import machine, values
from resurge_launcher.commands.control import ask, find_place, place_options
from resurge_launcher.commands.nodes import show
from resurge_launcher.usage import UsageProblem


@click.command("exclude")
@place_options
@click.argument("node")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@click.option("--for", "lasts", metavar="S", help="How long; without it, until readmitted.")
@click.option("--json", "is_json", is_flag=True, help="Print the node as JSON.")
def command(
    endpoint: str | None, state_dir: str | None, node: str, reason: str, lasts: str | None, is_json: bool
) -> None:
    """Keep the machine that a node is on out of later rounds, whatever its nodes are called. What runs now goes on; a
    spare takes the place in the next round. The order always holds: what it risks is said."""
    request = exclusion(node, reason, lasts)
    answer = ask(find_place(endpoint, state_dir), "ExcludeNode", request)
    if answer.warning:
        click.echo(f"resurge: warning: {answer.warning}", err=True)
    show([answer.node], is_json)


def exclusion(node_id: str, reason: str, lasts: str | None) -> rendezvous_pb2.ExcludeNodeRequest:
    """The order to exclude one node. Raises UsageProblem for a time that is none."""
    request = rendezvous_pb2.ExcludeNodeRequest(
        request_id=str(uuid.uuid4()), node_id=node_id, reason=reason or "by an operator", by=machine.who_asks()
    )
    if lasts is not None:
        try:
            request.lasts.FromNanoseconds(round(values.seconds(lasts) * 1e9))
        except values.Wrong as wrong:
            raise UsageProblem("--for", wrong.problem, wrong.right) from None
    return request
