"""Which records of cycles a command reads: the directory that was named, else the one that the job's own leads to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from resurge_launcher.commands.control import Place, find_place, place_options
from resurge_launcher.usage import CommandFailed, UsageProblem
from resurge_launcher.views.cycles import CycleView, joined
from resurge_libs.obs import cycle_files
from resurge_libs.rpc.records import CYCLES_NAME, read_job

DIRECTORY_FLAG = "--cycle-info-dir"


def cycle_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which a command is told the job and its records."""
    function = click.option("--job-id", metavar="ID", help="The job, where the directory holds several.")(function)
    said = "Its records of cycles, as given to resurge run. Default: as its state directory says."
    function = click.option(DIRECTORY_FLAG, "--ft-cycle-info-dir", "cycle_dir", metavar="DIR", help=said)(function)
    return place_options(function)


def place_if_any(endpoint: str | None, state_dir: str | None, cycle_dir: str | None) -> Place | None:
    """Where the job itself can be asked; None where only its records of cycles were named."""
    if cycle_dir and endpoint is None and state_dir is None:
        return None
    return find_place(endpoint, state_dir)


def cycles_of(place: Place | None, cycle_dir: str | None, job_id: str | None) -> list[CycleView]:
    """The cycles of one job. Raises UsageProblem or CommandFailed where that is not one, or there are none."""
    root = Path(cycle_dir) if cycle_dir else _own_directory(place)
    if not root.is_dir():
        if cycle_dir:
            raise UsageProblem(DIRECTORY_FLAG, f"{root} is not a directory", "Name the one given to resurge run.")
        raise CommandFailed(f"{root} does not exist: no cycle was begun, or its record could not be written")
    job = job_id or _job_of(place, root) or _only_job(root)
    if not (root / job).is_dir():
        raise UsageProblem("--job-id", f"{root} holds no job {job!r}", f"It holds {', '.join(_jobs(root)) or 'none'}.")
    found, unreadable = [], 0
    for item in cycle_files.read_all(root, job):
        if item.record is None:
            unreadable += 1
            click.echo(f"resurge: {item.path} {item.problem}; it is left out", err=True)
        else:
            found.append((str(item.path), item.record))
    if not found:
        raise CommandFailed(f"{root / job} holds no record of a cycle that can be read")
    return joined(found)


def _own_directory(place: Place | None) -> Path:
    if place is None or place.state_dir is None:
        right = "Name the directory given to resurge run, or the --state-dir of the job."
        raise UsageProblem(
            DIRECTORY_FLAG, "is missing: records of cycles are files, which no control plane sends", right
        )
    return place.state_dir / CYCLES_NAME


def _job_of(place: Place | None, root: Path) -> str:
    """The job whose state directory was named: other jobs may have their records beside its own."""
    found = read_job(place.state_dir) if place is not None and place.state_dir is not None else None
    name = found.spec.job_id if found is not None else ""
    return name if name and (root / name).is_dir() else ""


def _jobs(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def _only_job(root: Path) -> str:
    jobs = _jobs(root)
    if len(jobs) == 1:
        return jobs[0]
    if not jobs:
        raise CommandFailed(f"{root} holds no record of a cycle")
    shown = ", ".join(jobs[:8]) + (" ..." if len(jobs) > 8 else "")
    raise UsageProblem("--job-id", f"is missing, and {root} holds {len(jobs)} jobs", f"Give one of {shown}.")
