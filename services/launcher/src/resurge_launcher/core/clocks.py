"""How far the clock of rendezvous is from this node's, from the four timestamps of each beat. Pure.

A beat says between which two values the offset lies: as far apart as the beat was under way. One that had to wait for a
processor says little, so what earlier ones said stays: the offset lies within all of them, widened by what two clocks
may drift apart meanwhile. Where that is impossible one of the clocks was set, and the newest word holds alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.instant import Instant

DRIFT = 2 * 500e-6
"""Seconds per second: two clocks that the kernel's own discipline slews apart, each by 500 ppm at most.

Other tools may slew faster for a while: chrony by 83,333 ppm, unless its `maxslewrate` says otherwise. Then what is
known may be wrong by more than its error, yet it stays within what the newest beat says by itself.
"""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The clock of rendezvous is ahead by `offset_s`, at most `error_s` more or less, as known at an instant."""

    offset_s: float
    error_s: float
    at: Instant

    def simplest(self) -> ClockOffset:
        """The same knowledge, told as no offset at all where that explains what the beats said.

        Most launchers share a disciplined clock with rendezvous, or the very machine; the middle of what a slow beat
        leaves possible would shift all their times by half of what it waited.
        """
        if abs(self.offset_s) > self.error_s:
            return self
        return ClockOffset(0.0, self.error_s + abs(self.offset_s), self.at)


def measured(sent: float, received: float, answered: float, back: float) -> ClockOffset:
    """What one beat says: sent and back by the clock of this node, received and answered by the other one."""
    offset_s = ((received - sent) + (answered - back)) / 2
    error_s = max(0.0, ((back - sent) - (answered - received)) / 2)
    return ClockOffset(offset_s, error_s, Instant(back))


def narrowed(known: ClockOffset | None, news: ClockOffset) -> ClockOffset:
    """What is known after one more beat."""
    if known is None:
        return news
    error_s = known.error_s + DRIFT * max(0.0, news.at - known.at)
    low_s = max(known.offset_s - error_s, news.offset_s - news.error_s)
    high_s = min(known.offset_s + error_s, news.offset_s + news.error_s)
    if low_s > high_s:
        return news
    return ClockOffset((low_s + high_s) / 2, (high_s - low_s) / 2, news.at)
