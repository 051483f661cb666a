"""The core's rules: each byte once, in order; what is durable; when a file is complete."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_log_aggregator.core.model import (
    BlockHead,
    Follows,
    LogKey,
    LogKind,
    Repeats,
    Rewinds,
    SourceKey,
    SourceState,
)
from resurge_log_aggregator.core.step import made_durable, place, state_of

KEY = SourceKey(LogKind.APPLICATION, 1, 3, 4, 1, "n0", 7)
LOG = KEY.log


def head(offset: int, length: int, **more) -> BlockHead:
    return BlockHead(offset, length, size=length + 3, lines=1, **more)


def source(rank: int = 1, generation: int = 4, **more) -> SourceState:
    return SourceState(replace(KEY, rank=rank, generation=generation), world_size=2, **more)


def test_a_block_follows_where_the_source_ended():
    placed = place(source(written=10, lines=2), head(10, 5, gap_bytes=4, gap_lines=1))
    assert isinstance(placed, Follows)
    after = placed.after
    assert (after.written, after.lines, after.gap_bytes, after.gap_lines, after.durable) == (15, 3, 4, 1, 0)


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (head(0, 10), Repeats),
        (head(4, 6), Repeats),
        (head(10, 0), Repeats),
        (head(4, 7), Rewinds),
        (head(11, 1), Rewinds),
    ],
)
def test_what_was_there_repeats_and_what_does_not_follow_is_turned_back(block, kind):
    if block.length == 0:
        block = replace(block, size=0)
    assert isinstance(place(source(written=10), block), kind)


def test_after_its_end_nothing_more_is_taken():
    ended = place(source(written=10), BlockHead(10, 0, 0, 0, ends=True)).after
    assert ended.has_ended and not ended.end_is_durable
    assert isinstance(place(ended, BlockHead(10, 0, 0, 0, ends=True)), Repeats)
    assert isinstance(place(ended, head(10, 5)), Rewinds)
    assert made_durable(ended, 10, ended=True).end_is_durable


def test_durable_never_runs_ahead_of_written_nor_back():
    assert made_durable(source(written=10, durable=4), 99, ended=False).durable == 10
    assert made_durable(source(written=10, durable=8), 4, ended=False).durable == 8
    assert not made_durable(source(written=10), 10, ended=True).end_is_durable


def test_a_file_is_sealed_when_every_rank_of_its_newest_generation_ended():
    ends = {"has_ended": True, "end_is_durable": True}
    assert state_of(LOG, [source(0, **ends)]).missing_ranks == (1,)
    assert state_of(LOG, [source(0, **ends), source(1)]).missing_ranks == (1,)
    assert state_of(LOG, [source(0, **ends), source(1, **ends)]).is_sealed
    older = [source(0, generation=3, **ends), source(1, generation=3, **ends)]
    assert state_of(LOG, [*older, source(0)]).missing_ranks == (0, 1)


def test_a_file_without_sources_or_of_launchers_is_never_sealed():
    assert not state_of(LOG, []).is_sealed
    launcher = replace(KEY, kind=LogKind.LAUNCHER)
    assert launcher.log == LogKey(LogKind.LAUNCHER, 0, 0)
    assert not state_of(launcher.log, [SourceState(launcher, has_ended=True, end_is_durable=True)]).is_sealed
