"""One attempt to connect, as TCP makes it: refused at once, answered soon, or waited for in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tests.sim.network import Link, Network

CONNECT_LIMIT_S, KNOCK_S = 1.0, 0.1
"""How long one attempt to connect may take, and how often a waiting one is looked at."""


class Target(Protocol):
    """What is dialled."""

    alive: bool
    paused: bool
    reachable: bool
    """Its machine has power: somebody refuses connections where the process is gone."""


class Dialler(Protocol):
    """Who dials: its waits die with it."""

    def later(self, wait_s: float, act: Callable[[], None]) -> None: ...


def dial(
    who: Dialler, net: Network, link: Link, target: Target, connected: Callable[[], None], failed: Callable[[str], None]
) -> None:
    """Try to connect; one of the two is called, later."""
    if not link.whole or target.paused or not target.reachable:
        _knock(who, link, target, connected, failed, CONNECT_LIMIT_S)
    elif not target.alive:
        who.later(0.001, lambda: failed("connection refused"))
    else:
        who.later(2 * net.delay_s(link), connected)


def _knock(
    who: Dialler,
    link: Link,
    target: Target,
    connected: Callable[[], None],
    failed: Callable[[str], None],
    left_s: float,
) -> None:
    """A connection waits for an answer: one that stands still may give it yet."""
    if link.whole and not target.paused and target.reachable:
        connected()
    elif left_s <= 0:
        failed("no answer in time")
    else:
        who.later(KNOCK_S, lambda: _knock(who, link, target, connected, failed, left_s - KNOCK_S))
