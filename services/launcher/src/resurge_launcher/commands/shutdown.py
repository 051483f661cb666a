"""`resurge shutdown`: ask rendezvous to end the job; every launcher exits with the decision's code."""

from __future__ import annotations

import uuid

import click

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.commands.control import ask, find_place, has_ended, place_options
from resurge_launcher.views.job import decision_sentence


@click.command("shutdown")
@place_options
@click.option("--reason", default="by an operator", metavar="TEXT", help="Why, for the record.", show_default=True)
def command(endpoint: str | None, state_dir: str | None, reason: str) -> None:
    """End the job: workers are drained, and every launcher exits with the job's code."""
    request = rendezvous_pb2.RequestShutdownRequest(request_id=str(uuid.uuid4()), reason=reason)
    place = find_place(endpoint, state_dir)
    before = "The job had ended already, and nothing was done: " if has_ended(place) else ""
    decision = ask(place, "RequestShutdown", request).decision
    click.echo(before + decision_sentence(decision))
