from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from resurge_launcher.node_lock import FILE_NAME, NodeLock, NodeTaken
from resurge_launcher.processes import kernel


def test_a_held_node_is_refused_and_names_its_holder(tmp_path: Path):
    first = NodeLock.take(tmp_path, "n0", None)
    with pytest.raises(NodeTaken, match="--take-over"):
        NodeLock.take(tmp_path, "n0", None)
    first.release()
    NodeLock.take(tmp_path, "n0", None).release()


def test_incarnations_rise_and_the_highest_generation_is_kept(tmp_path: Path):
    first = NodeLock.take(tmp_path, "n0", None)
    first.remember(replace(first.memory, highest_generation=41))
    first.release()
    second = NodeLock.take(tmp_path, "n0", None)
    assert second.memory.incarnation > first.memory.incarnation
    assert second.memory.highest_generation == 41
    second.release()


@pytest.mark.parametrize("content", [b"\x00garbage", b'{"incarnation": "7"}', b'{"pid": null}', b"[1]", b"[" * 4096])
def test_a_spoilt_file_costs_memory_only(tmp_path: Path, content: bytes):
    (tmp_path / FILE_NAME).write_bytes(content)
    lock = NodeLock.take(tmp_path, "n0", None)
    assert lock.memory.highest_generation == 0 and lock.memory.incarnation > 0
    lock.release()


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("spoilt", [{"process": "{pid}:1"}, {"process": ""}, {"pid_namespace": 1}])
def test_a_process_that_only_has_the_holders_number_is_never_signalled(tmp_path: Path, other, spoilt):
    held = NodeLock.take(tmp_path, "n0", None)
    named = {"pid": other.pid, "process": kernel.process_name(other.pid)}
    spoilt = {key: value.format(pid=other.pid) if isinstance(value, str) else value for key, value in spoilt.items()}
    held.remember(replace(held.memory, **{**named, **spoilt}))
    with pytest.raises(NodeTaken):
        NodeLock.take(tmp_path, "n0", 0.05)
    assert other.poll() is None
    held.release()


def test_the_holder_is_ended_by_a_take_over_which_says_what_that_costs(tmp_path: Path, other, capsys):
    held = NodeLock.take(tmp_path, "n0", None)
    held.remember(replace(held.memory, pid=other.pid, process=kernel.process_name(other.pid)))
    with pytest.raises(NodeTaken, match="--take-over, which kills it and costs the job a restart"):
        NodeLock.take(tmp_path, "n0", None)
    with pytest.raises(NodeTaken):  # the lock itself is ours, so that its end does not free it
        NodeLock.take(tmp_path, "n0", 0.05)
    other.wait(10.0)
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "node_taken_over" in line]
    assert f"launcher pid {other.pid} of node" in said and "costs it a restart" in said
    held.release()
