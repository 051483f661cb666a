"""What the launchers of one relay are told: goals that are alike once, the newest only, ends last."""

from __future__ import annotations

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_libs.core.ids import Attempt, Cycle, Generation
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import Overloaded
from resurge_rendezvous.attach_many import DownBatch
from resurge_rendezvous.core.model import Desired, Down, Park, Run

DOWN = Down(Generation(4), Because(Reason.WORKER_SIGNAL, "rank 0 was ended by signal 9"))
PARK = Park(Because(Reason.NODE_PARKED, "spare"))


def test_a_goal_that_many_are_given_is_put_together_once():
    batch = DownBatch()
    for link in range(200):
        batch.put_desired(link, Desired(7 + link, DOWN, Generation(4)))
    batch.put_desired(999, Desired(3, PARK, Generation(4)))
    message = batch.take(1_000)
    assert len(message.desired) == 2
    shared = message.desired[0]
    assert shared.desired.down.generation == 4 and shared.desired.revision == 0
    assert [(order.link, order.revision) for order in shared.to] == [(link, 7 + link) for link in range(200)]
    assert batch.take(1_000) is None


def test_only_the_newest_goal_and_beat_reply_of_a_link_are_told():
    batch = DownBatch()
    batch.put_desired(1, Desired(2, PARK, Generation(4)))
    batch.put_desired(1, Desired(3, DOWN, Generation(4)))
    batch.put_desired(1, Desired(1, PARK, Generation(4)))
    batch.put_beat_reply(1, attach_pb2.BeatReply(sequence=1))
    batch.put_beat_reply(1, attach_pb2.BeatReply(sequence=2))
    message = batch.take(10)
    assert [order.revision for order in message.desired[0].to] == [3]
    assert [one.reply.sequence for one in message.beat_replies] == [2]


def test_an_end_follows_what_is_still_to_be_said_unless_it_is_a_refusal():
    batch = DownBatch()
    batch.put_desired(1, Desired(2, PARK, Generation(4)))
    batch.put_desired(2, Desired(2, PARK, Generation(4)))
    batch.end(1, None)
    batch.end(2, Overloaded(2.0, "launchers"))
    message = batch.take(10)
    assert [order.link for shared in message.desired for order in shared.to] == [1]
    assert [(end.link, end.code) for end in message.ends] == [(1, 0), (2, 8)]
    assert message.ends[1].details[0].type_url.endswith("google.rpc.RetryInfo")


def test_a_message_is_bounded_and_an_end_waits_for_its_links_last_goal():
    batch = DownBatch()
    for link in range(5):
        batch.put_desired(link, Desired(1, DOWN, Generation(4)))
    batch.end(4, None)
    first, second, third = batch.take(2), batch.take(2), batch.take(2)
    assert [len(message.desired[0].to) for message in (first, second, third)] == [2, 2, 1]
    assert [len(message.ends) for message in (first, second, third)] == [0, 0, 1]


def run_of(rank: int, spent: int = 0) -> Run:
    return Run(
        generation=Generation(5),
        attempt=Attempt(1),
        cycle=Cycle(0),
        group_rank=rank,
        group_world_size=100,
        base_rank=rank * 8,
        world_size=800,
        master_addr="10.0.0.1",
        master_port=29500,
        max_restarts=3,
        restarts_spent=spent,
    )


def test_a_generation_is_told_once_with_a_table_of_places_to_a_relay_that_fills_them_in():
    batch = DownBatch()
    batch.shares_runs = True
    for link in range(100):
        batch.put_desired(link, Desired(2, run_of(99 - link), Generation(5)))
    message = batch.take(1_000)
    assert len(message.desired) == 1
    shared = message.desired[0]
    assert shared.desired.run.world_size == 800
    assert [(order.group_rank, order.base_rank) for order in shared.to] == [
        (99 - link, (99 - link) * 8) for link in range(100)
    ]
    assert message.ByteSize() < 100 * 16, "a launcher's share is its place alone"


def test_a_relay_of_an_earlier_release_gets_each_run_whole():
    batch = DownBatch()
    for link in range(3):
        batch.put_desired(link, Desired(2, run_of(link), Generation(5)))
    message = batch.take(1_000)
    assert [shared.desired.run.group_rank for shared in message.desired] == [0, 1, 2]
    assert not message.desired[1].to[0].HasField("base_rank")


def test_runs_that_differ_in_more_than_the_place_are_told_apart():
    batch = DownBatch()
    batch.shares_runs = True
    for link in range(4):
        batch.put_desired(link, Desired(2, run_of(link, spent=link % 2), Generation(5)))
    assert [len(shared.to) for shared in batch.take(1_000).desired] == [2, 2]
