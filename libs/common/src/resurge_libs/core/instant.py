"""Two kinds of time that must not be mixed. Pure: both come from outside, inside events."""

from __future__ import annotations

from typing import NewType

Instant = NewType("Instant", float)
"""Monotonic seconds of one process's life: the only time that decides. Never stored, never sent."""

Wall = NewType("Wall", float)
"""Unix seconds, for people and records only."""


def after(now: Instant, wait_s: float) -> Instant:
    """The instant `wait_s` seconds later."""
    return Instant(now + wait_s)


def earliest(*instants: Instant | None) -> Instant | None:
    """The first of the given instants; None when there is none to wait for."""
    first: Instant | None = None
    for instant in instants:
        if instant is not None and (first is None or instant < first):
            first = instant
    return first
