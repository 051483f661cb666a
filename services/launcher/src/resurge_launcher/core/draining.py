"""The values of an end by agreement: how far this node's ranks are, and its launcher's notice. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.instant import Instant


@dataclass(frozen=True, slots=True)
class Stop:
    """How far this node's ranks are on their way to stop with all others; steps as workers count committed ones."""

    offer: int | None = None
    """The earliest step at which they could stop, as told; 0 where none reports steps."""
    held: int | None = None
    """The step at which they are held."""
    held_at: Instant | None = None
    kept: bool = False
    """None of them had passed it."""
    decided: int | None = None
    """The step at which they are told to stop; 0: at once."""
    told: bool = False
    """Some rank was told."""


NOT_STOPPING = Stop()


@dataclass(frozen=True, slots=True)
class Goodbye:
    """Nothing is left here to end: rendezvous is to hear that the node leaves, lest others wait for it."""

    since: Instant
    until: Instant
    heard: bool = False
    """A beat sent after it was answered, so everything said before it arrived."""


@dataclass(frozen=True, slots=True)
class Notice:
    """The launcher was told to leave, and waits for its ranks to save and stop."""

    signal: int
    at: Instant
    ends_at: Instant
    """The end of the scheduler's grace."""
