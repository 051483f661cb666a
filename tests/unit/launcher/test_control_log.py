"""What a control plane says does not fill the disk over its restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from resurge_launcher import control_plane


def test_a_long_log_becomes_the_older_one_and_there_is_one_of_those(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control_plane, "LOG_BYTES_MAX", 10)
    log = tmp_path / control_plane.LOG_NAME
    control_plane.make_room(log)
    for said in (b"first and long", b"second and long", b"short"):
        log.write_bytes(said)
        control_plane.make_room(log)
    assert [(path.name, path.read_bytes()) for path in sorted(tmp_path.iterdir())] == [
        ("control-plane.log", b"short"),
        ("control-plane.log.1", b"second and long"),
    ]
