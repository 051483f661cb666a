"""How soon the next words may travel on a relay's stream: the first at once, those that follow together. Pure.

A message costs either side some tenths of a millisecond, whatever it carries. So where many launchers speak or are told
within moments, the words of those moments go in one. Words that nothing went before never wait, and a wait grows with
the launchers behind the relay: with few there is little to gather.
"""

from __future__ import annotations

S_PER_LINK = 0.00005
MOST_S = 0.05
MOST_SAID = 256
"""Launchers whose words go up in one message: it stays within its bound, and reading it holds nothing up for long."""
MOST_TOLD = 1_024
"""Launchers told in one message. What they are told is small and mostly alike; in several messages, the first launchers
would have answered before the last are told.
"""


class Pace:
    """Of one direction of one stream."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def wait_s(self, now: float, links: int) -> float:
        """How long words that are here now have to wait for others."""
        return max(0.0, self._last + min(MOST_S, S_PER_LINK * links) - now)

    def left(self, now: float) -> None:
        """Words leave now, and all that is there with them."""
        self._last = now
