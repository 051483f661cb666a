"""`resurge diagnose`: all that is known of one cycle, in one place; what is not known is said to be unknown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.commands.control import Place, recoveries_at
from resurge_launcher.commands.cycle_place import cycle_options, cycles_of, place_if_any
from resurge_launcher.usage import CommandFailed, UsageProblem
from resurge_launcher.views.cycles import CycleView
from resurge_launcher.views.diagnosis import Evidence, Excerpt, diagnosis_json, diagnosis_lines
from resurge_libs.hosting.own_log import LOG_NAME

LINES = 20
LINES_MAX = 1_000


@click.command("diagnose")
@click.argument("cycle", required=False)
@cycle_options
@click.option(
    "--launcher-log",
    "launcher_logs",
    metavar="FILE",
    multiple=True,
    help="Where a launcher's stderr went, such as the batch step's output; may be given several times.",
)
@click.option("--lines", metavar="N", type=click.IntRange(1, LINES_MAX), default=LINES, help="Lines of each log. [20]")
@click.option("--json", "is_json", is_flag=True, help="Print the findings as JSON.")
def command(cycle: str | None, launcher_logs: tuple[str, ...], lines: int, is_json: bool, **where: str | None) -> None:
    """Show what is known of CYCLE: its first fault and the cascade, verdict, steps, ranks, and the ends of its logs.

    CYCLE is its number, in the newest attempt that has it, or ATTEMPT/NUMBER; without it, the last one that a fault
    ended is meant, else the last.
    """
    place = place_if_any(where["endpoint"], where["state_dir"], where["cycle_dir"])
    views = cycles_of(place, where["cycle_dir"], where["job_id"])
    found = gathered(place, views, chosen(views, cycle), launcher_logs, lines)
    if is_json:
        click.echo(json.dumps(diagnosis_json(found), indent=1))
    else:
        click.echo("\n".join(diagnosis_lines(found)))


def chosen(views: Sequence[CycleView], name: str | None) -> CycleView:
    """The cycle that is meant. Raises UsageProblem when none is."""
    if name is None:
        return next((view for view in reversed(views) if view.record.ended_by.incident), views[-1])
    attempt, slash, number = name.rpartition("/")
    fits = [
        view
        for view in views
        if str(view.record.cycle) == number and (not slash or str(view.record.attempt) == attempt)
    ]
    if not fits:
        known = ", ".join(view.name for view in views[-8:])
        raise UsageProblem(
            "CYCLE", f"there is no cycle {name!r}", f"Give its number or ATTEMPT/NUMBER; known are {known}."
        )
    return fits[-1]


def gathered(
    place: Place | None, views: Sequence[CycleView], cycle: CycleView, launcher_logs: Sequence[str], lines: int
) -> Evidence:
    """Everything there is about the cycle, or why it is not there."""
    from resurge_launcher.commands.log_ends import application_ends, own_end

    later = list(views)[list(views).index(cycle) + 1 :]
    recovery, why_not = _recovery(place, cycle.record.ended_by.incident)
    own = [own_end("launcher log", Path(name), cycle.record, cycle.down_s, lines) for name in launcher_logs]
    if not own:
        why = "a launcher writes to its own stderr; name the file where that went with --launcher-log"
        own.append(Excerpt("launcher log", why_not=why))
    if place is not None and place.state_dir is not None:
        own.append(own_end("control plane log", place.state_dir / LOG_NAME, cycle.record, cycle.down_s, lines))
    else:
        own.append(Excerpt("control plane log", why_not="no --state-dir was named"))
    return Evidence(
        cycle=cycle,
        following=later[0] if later else None,
        recovery=recovery,
        why_no_recovery=why_not,
        application=application_ends(cycle.record, lines),
        launcher=tuple(own),
    )


def _recovery(place: Place | None, incident: str) -> tuple[rendezvous_pb2.Recovery | None, str]:
    if not incident:
        return None, ""
    if place is None:
        return None, "neither --state-dir nor --endpoint was named"
    try:
        records = recoveries_at(place)
    except CommandFailed as failed:
        return None, str(failed)
    except OSError as error:
        return None, f"the records of {place.state_dir} cannot be read: {error.strerror}"
    found = next((record for record in records if record.incident_id == incident), None)
    return found, "" if found is not None else f"{place} has no record of {incident}"
