"""Whether a job's workers are ever forked, and from which fork server. Starts nothing; imports next to nothing."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from resurge_launcher.node_environment import LAUNCHER, server_environment
from resurge_launcher.processes import kernel
from resurge_launcher.settings import Entry, EntryKind, RunSettings, Warm
from resurge_launcher.warm.fork_server import Plan

USUAL = ("numpy?", "torch?", "torch.distributed.elastic.multiprocessing.errors?")
"""Imported where the interpreter has it."""
KINDS = {EntryKind.SCRIPT: "script", EntryKind.MODULE: "module"}


def why_never_warm(entry: Entry, own_python: str, python: str) -> str:
    """Why the program's workers can only be exec'd; empty when they may be forked."""
    match entry.kind:
        case EntryKind.PROGRAM:
            return "a program that is not Python's cannot be forked"
        case EntryKind.SCRIPT | EntryKind.MODULE if python != own_python:
            return f"workers run in another interpreter ({python})"
        case EntryKind.SCRIPT if _is_no_source(Path(entry.program)):
            return f"{entry.program} is not a source file"
        case _:
            return ""


def _is_no_source(path: Path) -> bool:
    return path.suffix == ".pyc" or (path.is_file() and zipfile.is_zipfile(path))


def plan_of(settings: RunSettings) -> Plan | None:
    """The fork server of this run; None where workers are exec'd."""
    if settings.warm is Warm.OFF:
        return None
    world = settings.nproc_per_node
    shared = server_environment(settings.job_id, settings.node_id, world, settings.environ)
    return Plan(
        python=settings.python,
        kind=KINDS[settings.entry.kind],
        program=settings.entry.program,
        args=settings.entry.args,
        preload=(*USUAL, *settings.preload),
        # the kernel shows forked workers with the environment of their server
        environ={**shared, LAUNCHER: kernel.process_name(os.getpid())},
    )
