"""Which control plane a launcher keeps alive, and how that is started. Imports next to nothing.

Nothing is read but the settings, this interpreter's path and this process's id, which the command line names.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from resurge_launcher.settings import RunSettings
from resurge_libs.hosting.own_log import LOG_NAME
from resurge_libs.rpc.endpoint import Endpoint

HOST = "resurge_host"
CONTROL_SOCKET_NAME = "control-{}.sock"
"""One for each state directory: a control plane that still lingers on another one is not the wanted one."""


@dataclass(frozen=True, slots=True)
class ControlPlan:
    """Which control plane is kept alive."""

    job_id: str
    listen: Endpoint
    state_dir: Path
    environ: Mapping[str, str]
    config_path: Path | None = None
    ends_with_launcher: bool = False
    """Nobody but this launcher knows the job's name: without it the control plane is of no use."""
    gives_way: bool = True
    """One that another launcher started for the same address does as well."""

    @property
    def log_path(self) -> Path:
        """Where it writes what it says."""
        return self.state_dir / LOG_NAME

    @property
    def has_own_log(self) -> bool:
        """Whether its log is in its state directory. Another one is its user's, and its disk may not answer."""
        return self.log_path.parent == self.state_dir

    @property
    def argv(self) -> list[str]:
        """The host program with its arguments."""
        return [sys.executable, "-P", "-m", HOST, *self.words]

    @property
    def words(self) -> list[str]:
        """What the host program is told."""
        words = ["--targets", "all", "--listen", self.listen.target]
        words += ["--state-dir", str(self.state_dir), "--job-id", self.job_id, "--exit-when-ended"]
        if self.ends_with_launcher:
            words += ["--exit-with", str(os.getpid())]
        return words + (["--ft-cfg-path", str(self.config_path)] if self.config_path is not None else [])


def control_socket(settings: RunSettings) -> Path:
    """Where a control plane listens that has no endpoint of its own."""
    of_state = hashlib.sha256(os.fsencode(settings.state_dir)).hexdigest()[:10]
    return settings.run_dir / CONTROL_SOCKET_NAME.format(of_state)


def control_endpoint(settings: RunSettings) -> Endpoint:
    """Where the job's control plane is, wherever it runs."""
    return settings.endpoint or Endpoint(path=str(control_socket(settings)))


def control_plan_of(settings: RunSettings) -> ControlPlan | None:
    """The control plane that this launcher starts; None where it is another's."""
    if settings.endpoint is not None and not settings.serve_here:
        return None
    return ControlPlan(
        settings.job_id,
        control_endpoint(settings),
        settings.state_dir.absolute(),
        settings.control_environ,
        settings.config_path,
        ends_with_launcher=settings.is_id_made_up and settings.endpoint is None,
    )
