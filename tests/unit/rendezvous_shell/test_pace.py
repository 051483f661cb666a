"""How soon words travel on a relay's stream: alone at once, together after a moment that grows with the launchers."""

from __future__ import annotations

from resurge_rendezvous.pace import MOST_S, Pace


def test_words_that_nothing_went_before_never_wait():
    assert Pace().wait_s(now=0.0, links=100_000) == 0.0


def test_words_right_behind_others_wait_longer_the_more_launchers_may_speak():
    pace = Pace()
    pace.left(10.0)
    assert [round(pace.wait_s(10.0, links), 6) for links in (1, 100, 1_000, 4_000)] == [0.00005, 0.005, 0.05, MOST_S]
    assert round(pace.wait_s(10.03, 1_000), 6) == 0.02, "what has passed since is no wait any more"
    assert pace.wait_s(10.5, 4_000) == 0.0
