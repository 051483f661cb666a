"""What a relay decides, without its streams: whom it serves, and what of its launchers goes up."""

from __future__ import annotations

import pytest

from resurge_libs.core.refusals import Overloaded, Unready
from resurge_rendezvous.relay.batch import Upward, Words
from resurge_rendezvous.relay.links import Links


def up(most=2):
    links = Links(most, 5.0)
    links.found()
    return links


def test_nobody_is_served_before_the_root_is_found_nor_after_it_is_lost():
    links = Links(2, 5.0)
    with pytest.raises(Unready, match="cannot reach rendezvous"):
        links.open("a")
    links.found()
    assert links.open("a") == 1
    links.say(1, Words("ready", "n1"))
    assert links.let_go() == ("a",)
    with pytest.raises(Unready):
        links.open("a")
    links.found()
    assert links.batch.is_empty, "what was said before the root was lost might be old"
    assert links.open("a") == 2, "a number is never used twice"


def test_more_than_its_share_are_told_to_wait_and_come_in_when_one_goes():
    links = up(most=1)
    first = links.open("a")
    with pytest.raises(Overloaded) as told:
        links.open("b")
    assert told.value.retry_after_s == 5.0
    links.go(first, by_peer=True)
    assert links.open("b") == 2


def test_a_link_that_is_over_passes_nothing_on():
    links = up()
    link = links.open("a")
    assert links.say(link, Words("ready", "n1"))
    links.batch.take(100)
    assert links.go(link, by_peer=False)
    assert not links.say(link, Words("running"))
    assert not links.go(link, by_peer=True)
    assert links.batch.take(100) == Upward(gone=((link, False),))


def test_a_link_that_the_root_ended_is_not_reported_to_it():
    links = up()
    link = links.open("a")
    links.say(link, Words("ready", "n1"))
    links.batch.take(100)
    assert links.down(link) == "a"
    assert links.ended(link) == "a"
    assert links.down(link) is None and links.ended(link) is None
    assert not links.go(link, by_peer=True)
    assert links.batch.is_empty
