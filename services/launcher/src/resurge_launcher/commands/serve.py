"""`resurge serve`: becomes the host program. Never imports it: a launcher's process stays free of services."""

from __future__ import annotations

import importlib.util
import os
import sys

import click

from resurge_launcher import settings as launcher_settings
from resurge_launcher.usage import CommandFailed

HOST = "resurge_host"


def _serve(words: tuple[str, ...]) -> None:
    if importlib.util.find_spec(HOST) is None:
        raise CommandFailed("the control plane is not installed here; install resurge-host beside resurge-launcher.")
    sys.stdout.flush()
    launcher_settings.calm_grpc()
    os.execv(sys.executable, [sys.executable, "-m", HOST, *words])


command = click.Command(
    "serve",
    callback=_serve,
    params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
    add_help_option=False,  # the host program has its own
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
