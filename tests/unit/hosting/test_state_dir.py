"""A state directory is used by one process; wrong ones are refused with the field, the trouble and the remedy."""

import json
import os
import subprocess
import sys

import pytest

from resurge_libs.hosting.state_dir import claim
from resurge_libs.hosting.usage import UsageError
from resurge_libs.rpc.records import CONTROL_NAME


def test_a_claimed_directory_says_who_serves_where(tmp_path):
    claimed = claim(tmp_path / "new" / "state")
    claimed.announce("unix:/run/x.sock", ("rendezvous",))
    told = json.loads((claimed.path / CONTROL_NAME).read_text())
    assert told == {"pid": os.getpid(), "endpoint": "unix:/run/x.sock", "targets": ["rendezvous"]}
    assert [item.name for item in claimed.path.iterdir() if item.name.startswith(".")] == []
    claimed.release()
    assert not (claimed.path / CONTROL_NAME).exists()


def test_a_directory_in_use_names_the_process_that_uses_it(tmp_path):
    held = claim(tmp_path)
    with pytest.raises(UsageError, match=f"in use by process {os.getpid()}") as refused:
        claim(tmp_path)
    assert (refused.value.field, refused.value.remedy) == (
        "--state-dir",
        "end that process, or give another state directory",
    )
    held.release()
    claim(tmp_path).release()


def test_the_claim_ends_with_its_process_however_it_ends(tmp_path):
    script = (
        "import sys; from pathlib import Path; from resurge_libs.hosting.state_dir import claim\n"
        "claim(Path(sys.argv[1])); print('held', flush=True); input()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(UsageError, match=f"process {holder.pid}"):
        claim(tmp_path)
    holder.kill()
    holder.communicate()
    claim(tmp_path).release()


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written") as refused:
        claim(tmp_path / "file" / "state")
    assert refused.value.field == "--state-dir"
