"""All senders together are held to so many messages, and every stream is told a pace that has changed."""

from __future__ import annotations

import pytest

from resurge_log_aggregator.core.model import LogKind, SourceKey
from resurge_log_aggregator.core.pace import (
    GATHER_LEAST_S,
    GATHER_MOST_S,
    GATHER_STEP_S,
    MESSAGES_PER_S,
    TOLD_PER_S,
    gather_s,
    rest_s,
)
from resurge_log_aggregator.senders import Senders

STEP = round(MESSAGES_PER_S * GATHER_STEP_S)
"""Senders that make the pace one step slower."""


class Stream:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[float, bool]] = []

    def ack(self, key, state, go_on_from=None) -> None: ...

    def trouble(self, sentence: str) -> None: ...

    def refuse(self, problem) -> None: ...

    def paced(self, gather_s: float, at_once: bool) -> None:
        self.told.append((gather_s, at_once))


def key(rank: int) -> SourceKey:
    return SourceKey(LogKind.APPLICATION, 1, 0, 1, rank, "n0", 1)


@pytest.mark.parametrize("senders", [1, 16, 103, 500, 1_024])
def test_all_senders_together_make_no_more_than_so_many_messages(senders: int):
    assert senders / gather_s(senders) <= MESSAGES_PER_S + 1e-6


def test_few_senders_hardly_gather_and_nobody_longer_than_half_a_second():
    assert gather_s(1) == gather_s(16) == GATHER_LEAST_S
    assert gather_s(100_000) == GATHER_MOST_S == 0.5


def test_many_sources_are_told_less_often_but_never_later_than_the_interval():
    assert rest_s(16, 0.25, 1.0) == 0.25
    assert rest_s(TOLD_PER_S // 2, 0.25, 1.0) == 0.5
    assert rest_s(100_000, 0.25, 1.0) == 1.0
    assert rest_s(100_000, 0.25, 0.1) == 0.1


def test_a_slower_pace_is_told_to_all_at_once_and_a_faster_one_with_the_next_answer():
    senders, streams = Senders(), [Stream() for _ in range(STEP + 1)]
    for stream in streams[:-1]:
        senders.add(stream)
    assert streams[0].told == [(GATHER_LEAST_S, True)]
    senders.add(streams[-1])
    slower = gather_s(STEP + 1)
    assert slower > GATHER_LEAST_S
    assert streams[0].told[1:] == streams[-1].told == [(slower, True)]
    senders.remove(streams[-1])
    assert streams[0].told[2:] == [(GATHER_LEAST_S, False)]
    assert streams[-1].told == [(slower, True)], "it has gone"


def test_what_a_sender_opened_is_known_until_it_goes():
    senders, stream = Senders(), Stream()
    senders.add(stream)
    senders.opened(stream, key(3))
    assert senders.remove(stream) == {key(3)}
    senders.opened(stream, key(4))  # a file that took its time: it counts as gone all the same
    assert len(senders) == 0 and senders.remove(stream) == set()
