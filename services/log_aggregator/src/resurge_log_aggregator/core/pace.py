"""How long senders let lines gather, and how often they are told what is durable. Pure.

The price of a log server is its messages, far more than its lines: a sender that sends each line at once makes fifty
messages a second of five hundred lines, and a thousand such senders more than a processor takes. So all senders
together are held to so many messages, whatever their number; a line waits no longer than half a second for others.
Last words do not wait at all: senders see to that.
"""

from __future__ import annotations

import math

MESSAGES_PER_S = 2_048
"""Of all senders together."""
GATHER_LEAST_S, GATHER_MOST_S = 0.05, 0.5
"""The most leaves room for a line to be in its file within a second even where nobody calls it a last word."""
GATHER_STEP_S = 0.05
"""Senders are not told again for each one that comes."""
TOLD_PER_S = 1_024
"""Sources that are told what is durable."""


def gather_s(senders: int) -> float:
    """From one message of a sender to its next, in seconds, where so many send."""
    steps = math.ceil(senders / MESSAGES_PER_S / GATHER_STEP_S)
    return min(max(steps * GATHER_STEP_S, GATHER_LEAST_S), GATHER_MOST_S)


def rest_s(sources: int, soonest_s: float, interval_s: float) -> float:
    """From one sync to the next, in seconds, where so many sources are told of it."""
    return min(max(soonest_s, sources / TOLD_PER_S), interval_s)
