"""What a control plane says does not fill the disk, over its restarts and within one long life."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resurge_libs.hosting import own_log
from resurge_libs.hosting.own_log import LOG_NAME


def test_a_long_log_becomes_the_older_one_and_there_is_one_of_those(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(own_log, "LOG_BYTES_MAX", 10)
    log = tmp_path / LOG_NAME
    assert not own_log.make_room(log)
    for said in (b"first and long", b"second and long", b"short"):
        log.write_bytes(said)
        own_log.make_room(log)
    assert [(path.name, path.read_bytes()) for path in sorted(tmp_path.iterdir())] == [
        (LOG_NAME, b"short"),
        (LOG_NAME + ".1", b"second and long"),
    ]


SPEAKER = """
import os, pathlib, sys
from resurge_libs.hosting import own_log
own_log.LOG_BYTES_MAX = 10
os.write(1, b"said before, at length")
own_log.turn(pathlib.Path(sys.argv[1]))
os.write(1, b"said after")
os.write(2, b", on both")
"""


OWN = {LOG_NAME: b"said after, on both", LOG_NAME + ".1": b"said before, at length"}
OTHERS = {"elsewhere.log": b"said before, at lengthsaid after, on both", LOG_NAME: b"not of this process"}


@pytest.mark.parametrize(("opened", "files"), [(LOG_NAME, OWN), ("elsewhere.log", OTHERS)])
def test_a_process_goes_on_in_a_new_file_where_the_full_one_is_its_own(tmp_path: Path, opened: str, files: dict):
    (tmp_path / LOG_NAME).write_bytes(b"not of this process" if opened != LOG_NAME else b"")
    with (tmp_path / opened).open("ab") as output:
        argv = [sys.executable, "-c", SPEAKER, str(tmp_path / LOG_NAME)]
        subprocess.run(argv, stdout=output, stderr=output, check=True, timeout=60, env=dict(os.environ))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
