"""Ranks in whose places fresh processes were granted while they restart in place, in plain sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from resurge_api.rendezvous.v1 import rendezvous_pb2

SHOWN_MAX = 16
"""The newest are shown."""


def replaced_lines(replaced: Sequence[rendezvous_pb2.ReplacedRank]) -> list[str]:
    """One line for each, oldest first; none where there are none."""
    if not replaced:
        return []
    count = len(replaced)
    head = f"Replaced in place, for one restart of the budget each, with no other rank started anew: {count}"
    left_out = [f"  ... {count - SHOWN_MAX} before these"] if count > SHOWN_MAX else []
    return [head, *left_out, *(_line(one) for one in replaced[-SHOWN_MAX:])]


def _line(one: rendezvous_pb2.ReplacedRank) -> str:
    lost = one.lost_at.ToDatetime()
    where = f"  {lost:%Y-%m-%d %H:%M:%S} UTC, generation {one.generation}, {one.node_id}/{one.rank}"
    why = one.because.sentence or one.because.code
    return f"{where}: {why}; {_outcome(one)}"


def _outcome(one: rendezvous_pb2.ReplacedRank) -> str:
    if one.came:
        took_s = (one.settled_at.ToNanoseconds() - one.lost_at.ToNanoseconds()) / 1e9
        return f"pid {one.pid} took part in iteration {one.iteration} {took_s:.2f} s later"
    if one.HasField("settled_at"):
        return f"the others went on without it: {one.sentence}"
    return "what became of the fresh process is not known"
