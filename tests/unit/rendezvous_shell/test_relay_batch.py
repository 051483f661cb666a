"""What a relay sends up: each link's newest words once, beats alone where nothing is new, ends last."""

from __future__ import annotations

from resurge_api.rendezvous.v1 import attach_pb2
from resurge_rendezvous.relay.batch import UpBatch
from resurge_rendezvous.relay.words import message_of, words_of

READY, RUNNING = attach_pb2.NODE_PHASE_READY, attach_pb2.NODE_PHASE_RUNNING


def said(phase=READY, generation=0, beat=0, node=""):
    observed = attach_pb2.Observed(phase=phase, generation=generation)
    if beat:
        observed.beat.sequence = beat
    if node:
        observed.hello.node_id = node
    return words_of(observed)


def taken(batch):
    return message_of(batch.take(100))


def test_a_beat_that_says_nothing_new_goes_up_as_a_beat_alone():
    batch = UpBatch()
    batch.say(1, said(beat=1, node="n1"))
    first = taken(batch)
    assert [(one.link, one.observed.hello.node_id) for one in first.observed] == [(1, "n1")]
    assert not first.observed[0].observed.HasField("beat") and first.beats[0].beat.sequence == 1
    batch.say(1, said(beat=2))
    assert not batch.is_urgent
    second = taken(batch)
    assert list(second.observed) == [] and [one.beat.sequence for one in second.beats] == [2]


def test_of_several_states_the_newest_goes_up_with_the_hello_of_the_first():
    batch = UpBatch()
    batch.say(1, said(node="n1", beat=1))
    batch.say(1, said(RUNNING, 3, beat=2))
    message = taken(batch)
    assert len(message.observed) == 1
    assert message.observed[0].observed.hello.node_id == "n1"
    assert message.observed[0].observed.generation == 3
    assert [one.beat.sequence for one in message.beats] == [2]
    assert batch.take(100) is None


def test_a_state_that_comes_back_to_what_it_was_is_news_again():
    batch = UpBatch()
    batch.say(1, said(READY, 1, node="n1"))
    batch.take(100)
    batch.say(1, said(RUNNING, 2))
    batch.take(100)
    batch.say(1, said(READY, 1, beat=1))
    assert len(taken(batch).observed) == 1


def test_the_last_words_of_a_link_go_up_before_its_end_and_a_link_that_never_got_up_leaves_no_hello():
    batch = UpBatch()
    batch.say(1, said(node="n1"))
    batch.take(100)
    batch.say(1, said(RUNNING, 2, beat=5))
    batch.go(1, by_peer=True)
    batch.say(2, said(node="n2"))
    batch.go(2, by_peer=False)
    message = taken(batch)
    assert [(one.link, one.observed.generation) for one in message.observed] == [(1, 2)]
    assert [(one.link, one.by_peer) for one in message.gone] == [(1, True), (2, False)]
    assert list(message.beats) == []


def test_nothing_goes_up_for_a_link_that_the_root_ended():
    batch = UpBatch()
    batch.say(1, said(node="n1"))
    batch.take(100)
    batch.say(1, said(beat=2))
    batch.forget(1)
    assert batch.take(100) is None


def test_a_message_speaks_of_so_many_links_at_most_and_no_beat_or_end_goes_up_before_its_links_words():
    batch = UpBatch()
    for link in (1, 2, 3):
        batch.say(link, said(node=f"n{link}", beat=1))
    first = message_of(batch.take(2))
    batch.say(1, said(RUNNING, 4))
    batch.go(1, by_peer=True)
    second, third = message_of(batch.take(1)), message_of(batch.take(2))
    assert [one.link for one in first.observed] == [one.link for one in first.beats] == [1, 2]
    assert [one.link for one in second.observed] == [one.link for one in second.beats] == [3]
    assert list(second.gone) == [], "its last words are still here"
    assert [one.observed.generation for one in third.observed] == [4]
    assert [one.link for one in third.gone] == [1]
    assert batch.take(2) is None
