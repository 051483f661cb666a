"""A rank's loop crashes on one of two nodes: both launchers end for that reason, whatever the rank can still do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until
from resurge_libs.testing.process_faults import is_alive
from tests.integration.launcher.launching import SAY_PID
from tests.integration.launcher.test_two_nodes import Pair

PROGRAM = (
    SAY_PID
    + """
import resurge
from resurge.testing import hold_gil
own = resurge.session()
said("ready-%d" % own.rank, "")
while not all(os.path.exists(os.path.join(folder, "ready-%d" % rank)) for rank in (0, 1)):
    time.sleep(0.005)
if own.rank == 0:
    threading.Event().wait()
cleanup = {"blocks": threading.Event().wait, "holds": lambda: hold_gil(60)}[HOW]
with resurge.crash_guard(own, cleanup=cleanup, grace_s=0.2):
    raise ValueError("what broke the loop")
"""
)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    try:
        yield pair
    finally:
        pair.end()


@pytest.mark.parametrize("how", ["blocks", "holds"])
def test_every_launcher_ends_its_ranks_and_names_the_exception(pair: Pair, how: str):
    for node in ("n0", "n1"):
        pair.start(node, f"HOW = {how!r}\n{PROGRAM}", "--max-restarts", "0", "--warm", "off")
    pids = pair.pids(1)
    for process in pair.nodes.values():
        wait_until(lambda process=process: process.poll() is not None, 40, "the end")
    assert [process.returncode for process in pair.nodes.values()] == [1, 1]
    assert not any(is_alive(pid) for pid in pids)
    for node in ("n0", "n1"):
        log = (pair.folder / f"{node}.log").read_text(errors="replace")
        torn = [line for line in log.splitlines() if "WORKER_CRASHED" in line]
        assert any("crashed: ValueError: what broke the loop" in line for line in torn), node
        first = next(line for line in log.splitlines() if "tearingdown" in line)
        assert "WORKER_CRASHED" in first, "the first reason is the exception, not the end of a process"
