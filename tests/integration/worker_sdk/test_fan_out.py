"""An abort reaches the ranks of another launcher: by rendezvous and its own launcher, while they are blocked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from resurge_libs.testing import wait_until
from tests.integration.launcher.launching import SAY_PID
from tests.integration.launcher.test_two_nodes import Pair

BLOCKED = (
    SAY_PID
    + """
import json, math
import resurge
from resurge.guards.deadlines import EAR
from resurge.testing import FakeGroup, kill
signal.signal(signal.SIGTERM, lambda *_: None)
own, group = resurge.session(), FakeGroup()
fires = own.rank == 1 and HOW == "fires"
try:
    with resurge.deadline(math.inf, group, "before" if fires else "step") as guard:
        EAR.connected.wait(20)
        said("listens-%d" % own.rank, "")
        while not all(os.path.exists(os.path.join(folder, "listens-%d" % rank)) for rank in (0, 1)):
            time.sleep(0.005)
        if own.rank == 1 and HOW == "dies":
            kill(os.getpid())
        if fires:  # not sooner: the other one may still have been on its way into its guard
            with resurge.deadline(0.3, group, "step") as guard:
                group.block()
        group.block()
except resurge.CollectiveAborted as error:
    said("released-%d" % own.rank, json.dumps({"text": str(error), "outcome": guard.outcome.value}))
"""
)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    try:
        yield pair
    finally:
        pair.end()


def ends(pair: Pair, how: str) -> list[int]:
    for node in ("n0", "n1"):
        pair.start(node, f"HOW = {how!r}\n{BLOCKED}", "--max-restarts", "0", "--warm", "off")
    for process in pair.nodes.values():
        wait_until(lambda process=process: process.poll() is not None, 40, "the end")
    return [process.returncode for process in pair.nodes.values()]


def released(pair: Pair, rank: int) -> dict[str, str]:
    return json.loads((pair.folder / f"released-{rank}").read_text())


def test_the_death_of_a_rank_releases_a_blocked_one_of_the_other_node_before_it_is_killed(pair: Pair):
    assert ends(pair, "dies") == [1, 1]
    told = released(pair, 0)
    assert told["outcome"] == "ordered"
    assert "by order" in told["text"]
    assert "was ended by signal 9" in told["text"], "the cause is the peer's death, as rendezvous has it"


def test_a_guard_that_fires_releases_a_blocked_one_of_the_other_node_and_nobody_is_ended(pair: Pair):
    assert ends(pair, "fires") == [0, 0]
    assert released(pair, 1)["outcome"] == "aborted"
    assert released(pair, 0)["outcome"] == "ordered"
    assert "the guard of rank 1 fired in 'step'" in released(pair, 0)["text"]
