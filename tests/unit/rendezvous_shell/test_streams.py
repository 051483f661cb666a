"""Streams of launchers and observers hold the newest only, however slow their reader is."""

import asyncio

import pytest

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_libs.core.ids import Incarnation, NodeId
from resurge_libs.core.refusals import Overloaded, Superseded
from resurge_rendezvous.streams import KeyWaits, LauncherStream, Watchers


def goal(revision):
    return attach_pb2.Desired(revision=revision, park=attach_pb2.Park())


async def test_a_newer_goal_takes_the_place_of_an_unsent_one_and_an_older_one_does_not():
    stream = LauncherStream()
    for revision in (1, 3, 2):
        stream.put_goal(goal(revision))
    assert (await stream.next()).revision == 3


async def test_a_beat_reply_rides_with_a_goal_and_leaves_the_goal_as_it_was():
    stream, shared = LauncherStream(), goal(4)
    stream.put_goal(shared)
    stream.put_beat_reply(attach_pb2.BeatReply(sequence=9))
    sent = await stream.next()
    assert (sent.revision, sent.beat_reply.sequence) == (4, 9)
    assert not shared.HasField("beat_reply")


async def test_a_beat_reply_alone_carries_no_revision():
    stream = LauncherStream()
    stream.put_beat_reply(attach_pb2.BeatReply(sequence=1))
    stream.put_beat_reply(attach_pb2.BeatReply(sequence=2))
    sent = await stream.next()
    assert (sent.revision, sent.WhichOneof("goal"), sent.beat_reply.sequence) == (0, None, 2)


async def test_an_ended_stream_sends_what_is_left_and_a_refused_one_nothing():
    ended, refused = LauncherStream(), LauncherStream()
    for stream in (ended, refused):
        stream.put_goal(goal(1))
    ended.end()
    refused.end(Superseded(NodeId("n1"), Incarnation(1), Incarnation(2)))
    assert (await ended.next()).revision == 1
    assert await ended.next() is None
    with pytest.raises(Superseded):
        await refused.next()


async def test_a_waiting_reader_is_woken():
    stream = LauncherStream()
    reading = asyncio.create_task(stream.next())
    await asyncio.sleep(0)
    stream.put_goal(goal(1))
    assert (await reading).revision == 1


async def test_an_observer_gets_the_first_value_and_then_only_the_newest():
    watchers = Watchers()
    watch = watchers.watch(1)
    assert await anext(watch) == 1
    watchers.publish(2)
    watchers.publish(3)
    assert await anext(watch) == 3
    watchers.close()
    assert [value async for value in watch] == []
    assert len(watchers) == 0


@pytest.mark.users_row(70)
async def test_more_observers_than_the_bound_are_refused():
    watchers = Watchers(most=1)
    first = watchers.watch(1)
    await anext(first)
    with pytest.raises(Overloaded):
        await anext(watchers.watch(1))
    await first.aclose()
    assert await anext(watchers.watch(1)) == 1


async def test_a_wait_is_woken_by_its_key_alone_and_forgotten_when_it_ends():
    waits = KeyWaits(most=2)
    with waits.waiting("a") as first, waits.waiting("b") as second:
        waits.wake("a")
        assert (first.is_set(), second.is_set(), len(waits)) == (True, False, 2)
        with pytest.raises(Overloaded), waits.waiting("c"):
            pass
        waits.wake_all()
        assert second.is_set()
    assert len(waits) == 0
    waits.wake("a")
