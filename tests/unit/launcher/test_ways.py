"""Which way to rendezvous a launcher tries next."""

from __future__ import annotations

from resurge_launcher.core.ways import Ways
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import Unready, Unsure


def test_a_way_that_does_not_answer_is_left_and_the_root_comes_last_and_then_the_first_again():
    ways = Ways.through(("r2", "r1"), "root")
    seen = []
    for problem in (Unsure("connection refused"), None, Unsure("reset"), None):
        seen.append(ways.now)
        ways = ways.failed(problem)
    assert seen == ["r2", "r1", "root", "r2"]


def test_a_relay_without_a_root_is_asked_again():
    ways = Ways.through(("r1",), "root")
    assert ways.failed(Unready(Because(Reason.STREAM_LOST, "the relay cannot reach rendezvous"))).now == "r1"


def test_without_relays_there_is_one_way():
    assert Ways.through((), "root").failed(None).now == "root"
