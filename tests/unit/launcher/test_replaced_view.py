"""Ranks in whose places fresh processes were granted, in the sentences of `resurge explain`."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from resurge_api.common.v1 import ids_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.views.replaced import SHOWN_MAX, replaced_lines


def one(rank: int = 3, *, came: bool = True, sentence: str = "", settled_s: int = 101) -> rendezvous_pb2.ReplacedRank:
    found = rendezvous_pb2.ReplacedRank(
        node_id="n1",
        rank=rank,
        generation=2,
        iteration=4,
        because=ids_pb2.Because(code="WORKER_SIGNAL", sentence="rank 3 was ended by SIGKILL"),
        lost_at=Timestamp(seconds=100),
        pid=77,
        came=came,
        sentence=sentence,
    )
    if settled_s:
        found.settled_at.seconds = settled_s
    return found


def test_without_any_nothing_is_said():
    assert replaced_lines([]) == []


def test_each_says_why_and_what_became_of_it():
    lines = replaced_lines([one(), one(came=False, sentence="it has not come in time"), one(came=False, settled_s=0)])
    assert lines[0].endswith("no other rank started anew: 3")
    assert "generation 2, n1/3: rank 3 was ended by SIGKILL; pid 77 took part in iteration 4 1.00 s later" in lines[1]
    assert "the others went on without it: it has not come in time" in lines[2]
    assert "is not known" in lines[3]


def test_of_many_the_newest_are_shown():
    lines = replaced_lines([one(rank) for rank in range(SHOWN_MAX + 5)])
    assert len(lines) == SHOWN_MAX + 2 and "5 before these" in lines[1] and f"n1/{SHOWN_MAX + 4}:" in lines[-1]
