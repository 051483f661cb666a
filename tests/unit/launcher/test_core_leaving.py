"""A launcher that leaves is heard before it is gone, or waited for long enough."""

from __future__ import annotations

from signal import SIGINT, SIGTERM

import pytest

from resurge_launcher.core import happenings as h
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant
from tests.unit.launcher.core_world import LIMITS, Node, of


def test_a_signalled_spare_leaves_as_soon_as_that_is_heard():
    node = Node().attached()
    told = of(node.feed(h.SignalReceived(SIGTERM)), h.SendObserved)[-1]
    assert (told.observed.phase, told.observed.leaving_signal, told.beats) == (h.NodePhase.LEAVING, SIGTERM, True)
    early = h.BeatAcked(Instant(node.now - 0.01), LIMITS.lease_ttl_s)
    assert not of(node.feed(early), h.ExitWith), "that beat was sent before the words"
    assert [a.code for a in of(node.heard(), h.ExitWith)] == [143]


def test_a_launcher_that_leaves_waits_for_a_control_plane_that_comes_back():
    node = Node().attached()
    node.feed(h.StreamLost("killed"), h.SignalReceived(SIGTERM))
    assert not of(node.move(LIMITS.terminal_ack_limit_s - 0.1), h.ExitWith)
    assert [a.code for a in of(node.feed(h.StreamUp()) + node.heard(), h.ExitWith)] == [143]


@pytest.mark.parametrize("ends", ["limit", "grace", "impatience"])
def test_the_wait_for_an_answer_to_the_last_words_is_bounded(ends: str):
    node = Node(term_timeout_s=1.0 if ends == "grace" else 30.0).attached()
    node.feed(h.StreamLost("killed"), h.SignalReceived(SIGINT))
    limit_s = {"limit": LIMITS.terminal_ack_limit_s, "grace": 1.0, "impatience": 0.0}[ends]
    if ends == "impatience":
        node.feed(h.SignalReceived(SIGINT))
    else:
        assert not of(node.move(limit_s - 0.1), h.ExitWith)
        node.move(0.1)
    assert [a.code for a in of(node.actions, h.ExitWith)] == [130]


def test_a_launcher_that_never_met_its_control_plane_leaves_at_once():
    node = Node()
    node.feed(h.StraysGone(Generation(0)), h.SignalReceived(SIGTERM))
    assert [a.code for a in of(node.actions, h.ExitWith)] == [143]
