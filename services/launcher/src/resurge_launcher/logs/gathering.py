"""When a sender sends what it has. Pure.

A few lines wait for others, as long as the log server says from the last message on: with many senders each message
costs it more than the lines in it. A full block does not wait, nor do last words: of a worker that has ended, or when
the launcher says that somebody has said his. After a pause the first line goes at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from resurge_launcher.logs.backlog import BLOCK_BYTES

GATHER_MAX_S = 0.5
"""Whatever a log server says: a line is in its file within a second."""


@dataclass(slots=True)
class Gathering:
    """The pace of one stream; times are of the monotonic clock, in seconds."""

    gather_s: float = 0.0
    """From one message to the next; 0 until the log server has spoken."""
    _sent_at: float = float("-inf")

    def told(self, gather_s: float) -> None:
        """The log server's word."""
        self.gather_s = min(max(0.0, gather_s), GATHER_MAX_S)

    def wait_s(self, now: float, waiting_bytes: int) -> float:
        """How much longer so many bytes wait; 0 when they are to go."""
        if waiting_bytes >= BLOCK_BYTES:
            return 0.0
        return max(0.0, self._sent_at + self.gather_s - now)

    def sent(self, now: float) -> None:
        """Something went."""
        self._sent_at = now
