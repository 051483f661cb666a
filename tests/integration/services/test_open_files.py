"""A service holds a connection for each launcher: it takes all the descriptors that it may have."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.fakes.host import HostProcess


@pytest.mark.users_row(58)
def test_a_low_limit_of_open_files_is_raised_at_the_start(tmp_path, monkeypatch):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = HostProcess.command

    def limited(host: HostProcess) -> list[str]:
        return ["/bin/sh", "-c", 'ulimit -S -n 256 && exec "$@"', "sh", *command(host)]

    monkeypatch.setattr(HostProcess, "command", limited)
    with HostProcess(tmp_path / "state") as host:
        rows = Path(f"/proc/{host.pid}/limits").read_text().splitlines()
    row = next(line.split() for line in rows if line.startswith("Max open files"))
    assert int(row[3]) == hard > 256, "the soft limit is the hard one"
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
