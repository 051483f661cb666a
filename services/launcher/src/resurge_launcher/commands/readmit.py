"""`resurge readmit`: an operator ends an exclusion."""

from __future__ import annotations

import uuid

import click

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.commands import machine
from resurge_launcher.commands.control import ask, find_place, place_options
from resurge_launcher.commands.nodes import show


@click.command("readmit")
@place_options
@click.argument("node")
@click.option("--json", "is_json", is_flag=True, help="Print the node as JSON.")
def command(endpoint: str | None, state_dir: str | None, node: str, is_json: bool) -> None:
    """End the exclusion of the machine that a node is on, and of every machine that was excluded under its name. It
    takes part from the next round on."""
    request = rendezvous_pb2.ReadmitNodeRequest(request_id=str(uuid.uuid4()), node_id=node, by=machine.who_asks())
    show([ask(find_place(endpoint, state_dir), "ReadmitNode", request).node], is_json)
