"""`resurge drain`: have the ranks save and stop at one step, because a node, or the whole job, is to go."""

from __future__ import annotations

import uuid

import click

from resurge_api.rendezvous.v1 import drain_pb2
from resurge_launcher.commands import values
from resurge_launcher.commands.control import ask, find_place, has_ended, place_options
from resurge_launcher.usage import UsageProblem


@click.command("drain")
@click.argument("node", required=False)
@place_options
@click.option("--grace", metavar="S", help="How long ranks have to save and stop. Default: drain_grace_s.")
@click.option("--reason", default="by an operator", metavar="TEXT", help="Why, for the record.", show_default=True)
def command(node: str | None, endpoint: str | None, state_dir: str | None, grace: str | None, reason: str) -> None:
    """Have the ranks save and stop at one step. NODE is to go: the job moves on where a spare is there, else it ends.

    Without NODE the job ends. Its exit code is --preempted-exit-code, else 143.
    """
    request = drain_pb2.DrainRequest(request_id=str(uuid.uuid4()), node_id=node or "", reason=reason)
    if grace is not None:
        try:
            request.grace.FromNanoseconds(round(values.seconds(grace) * 1e9))
        except values.Wrong as wrong:
            raise UsageProblem("--grace", wrong.problem, wrong.right) from None
    place = find_place(endpoint, state_dir)
    before = "The job had ended already, and nothing was done: " if has_ended(place) else ""
    because = ask(place, "Drain", request).because
    click.echo(before + (f"{because.code}: {because.sentence}" if because.sentence else because.code))
