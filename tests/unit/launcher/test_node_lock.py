from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from resurge_launcher.node_lock import FILE_NAME, NodeLock, NodeTaken


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
