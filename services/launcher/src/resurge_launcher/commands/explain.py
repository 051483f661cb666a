"""`resurge explain`: why an incident got its verdict, rule by rule, replayed from its durable record.

The restart policy replays it where it answers; else the shared default rules do, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import click
from google.protobuf import json_format

from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.commands.control import Place, ask, find_place, job_at, place_options, recoveries_at
from resurge_launcher.usage import CommandFailed, UsageProblem, unknown
from resurge_launcher.views.explanation import explanation_lines
from resurge_launcher.views.replaced import replaced_lines
from resurge_launcher.views.replay import replayed_by_default
from resurge_libs.core.repeat_offenders import POLICY_ORDER
from resurge_libs.core.verdict import SOURCE_DEFAULT


@click.command("explain")
@click.argument("incident", required=False)
@place_options
@click.option("--json", "is_json", is_flag=True, help="Print the explanation as JSON.")
def command(incident: str | None, endpoint: str | None, state_dir: str | None, is_json: bool) -> None:
    """Say why INCIDENT got its verdict; the beginning of its name is enough, and without it the last one is meant."""
    place = find_place(endpoint, state_dir)
    records, replaced = recoveries_at(place), _replaced_at(place)
    if not records and replaced and incident is None and not is_json:
        click.echo("No incident so far.")
        for line in replaced_lines(replaced):
            click.echo(line)
        return
    record = chosen(records, incident)
    by, answer = explained(place, record)
    if is_json:
        click.echo(json_format.MessageToJson(answer, indent=1, preserving_proto_field_name=True))
        return
    between = range(record.generation_from, max(record.generation_from, record.generation_to) + 1)
    told = replaced_lines([one for one in replaced if incident is None or one.generation in between])
    for line in (*explanation_lines(record, answer, by), *(["", *told] if told else [])):
        click.echo(line)


def _replaced_at(place: Place) -> Sequence[rendezvous_pb2.ReplacedRank]:
    """Ranks that got fresh processes in place; none where no job is told of."""
    try:
        return job_at(place).replaced
    except CommandFailed:
        return ()


def chosen(records: Sequence[rendezvous_pb2.Recovery], name: str | None) -> rendezvous_pb2.Recovery:
    """The record that is meant. Raises UsageProblem when none or several are."""
    if not records:
        raise CommandFailed("there is no incident so far: nothing had to be restarted")
    if name is None:
        return records[-1]
    exact = [record for record in records if record.incident_id == name]
    found = exact or [record for record in records if record.incident_id.startswith(name)]
    if not found:
        raise unknown("INCIDENT", f"incident {name!r}", name, [record.incident_id for record in records])
    if len(found) > 1:
        names = ", ".join(record.incident_id for record in found)
        raise UsageProblem("INCIDENT", f"{name!r} begins several names", f"Give one of {names}.")
    return found[0]


def explained(place: Place, record: rendezvous_pb2.Recovery) -> tuple[str, policy_pb2.ExplainResponse]:
    """Who replayed the incident, and the answer."""
    if record.verdict.source == SOURCE_DEFAULT:  # by the rules that decided
        return "the default rules, which had decided", replayed_by_default(record.incident)
    if place.endpoint is not None:
        try:
            return "the restart policy", ask(
                place, "Explain", policy_pb2.ExplainRequest(incident=record.incident), service="policy"
            )
        except CommandFailed:  # no policy there, or of another release: its rules are known here as well
            pass
    rules = "the policy's rules with their default settings (no restart policy answered)"
    return rules, replayed_by_default(record.incident, POLICY_ORDER)
