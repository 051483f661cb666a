"""Whether a job's workers are ever forked, and the fork server of one `resurge run`."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from resurge_launcher import environment
from resurge_launcher.processes import kernel
from resurge_launcher.settings import Entry, EntryKind, RunSettings, Warm
from resurge_launcher.warm.client import Plan, WarmStart

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


def warm_start(settings: RunSettings) -> WarmStart | None:
    """The started fork server's keeper; None where workers are exec'd. Call before the long imports of the launcher."""
    if settings.warm is Warm.OFF:
        return None
    world = settings.nproc_per_node
    shared = environment.server_environment(settings.job_id, settings.node_id, world, settings.environ)
    plan = Plan(
        python=settings.python,
        kind=KINDS[settings.entry.kind],
        program=settings.entry.program,
        args=settings.entry.args,
        preload=(*USUAL, *settings.preload),
        # the kernel shows forked workers with the environment of their server
        environ={**shared, environment.LAUNCHER: kernel.process_name(os.getpid())},
    )
    warm = WarmStart(plan)
    warm.begin()
    return warm
