"""The excluded hosts in a file that a scheduler reads, and beside it the whole story in JSON. Never delays anybody.

FILE holds the short host names in one line with commas, as `sbatch --exclude=$(cat FILE)` and `--exclude=/path/FILE`
take them, and nothing at all while no machine is out. FILE.json tells of each machine why, since when, until when and
on whose word. Each is replaced in one step; a reader sees the old one or the new one. Decides nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from resurge_libs.obs.background import BackgroundWriter, Outage
from resurge_rendezvous.core.model import MachineExclusion
from resurge_rendezvous.core.rules import natural

REMEDY = "Name a file in a directory that the control plane may write, with --exclusion-file."


class ExclusionFile:
    """Writes in a thread of its own; what cannot be written is said once."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._outage = Outage("the list of excluded hosts", path or Path(), REMEDY)
        self._writer = BackgroundWriter("exclusion-file", self._outage)

    def show(self, job_id: str, exclusions: Iterable[MachineExclusion]) -> None:
        """Replace both files; of several changes in a row only the newest is written. Returns at once."""
        if self._path is not None:
            self._writer.put("exclusions", partial(self._write, self._path, job_id, tuple(exclusions)))

    def close(self) -> None:
        """Finish what was begun, for a short time."""
        self._writer.close()

    def _write(self, path: Path, job_id: str, exclusions: tuple[MachineExclusion, ...]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path.with_name(f"{path.name}.json"), as_json(job_id, exclusions))
        _replace(path, as_line(exclusions))
        self._outage.written()


def as_line(exclusions: Iterable[MachineExclusion]) -> str:
    """The short names of the hosts with commas and a line's end; empty for none."""
    hosts = {host for one in exclusions if (host := host_of(one))}
    return ",".join(sorted(hosts, key=natural)) + "\n" if hosts else ""


def as_json(job_id: str, exclusions: Iterable[MachineExclusion]) -> str:
    """Everything that is known of each exclusion."""
    told = [
        {
            "host": host_of(one),
            "node": one.identity.node,
            "machine_id": one.identity.machine_id or None,
            "reason": one.exclusion.because.code,
            "sentence": one.exclusion.because.sentence,
            "by": one.exclusion.by or None,
            "automatic": one.exclusion.is_automatic,
            "at": _iso(one.exclusion.at) if one.exclusion.at else None,
            "until": _iso(one.exclusion.until) if one.exclusion.until is not None else None,
        }
        for one in exclusions
    ]
    return json.dumps({"job": job_id, "excluded": told}, indent=2) + "\n"


def host_of(one: MachineExclusion) -> str:
    """The name under which schedulers know the machine: the host's, up to its first dot."""
    return one.identity.host.partition(".")[0]


def _iso(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
