"""Who is told of first where several workers are at their end at once. Pure.

On a busy machine the wake-ups come in any order. A peer that is gone makes a worker fail, while hardly anything but the
launcher sends a SIGKILL because a worker failed: so a peer that one took, seen beside a failure, went before it. What
else ends a worker by a signal, as an abort or a fault of memory, may be a consequence itself: that has its own moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from signal import SIGKILL

from resurge_libs.core.instant import Instant

APART_S = 1e-6
"""Between two ends whose order is known and whose moments are not: told apart on the wire."""


def struck_before(
    exit_code: int | None, at: Instant, signals: Mapping[int, int | None]
) -> tuple[tuple[int, Instant], ...]:
    """Local ranks that are told of before a worker that ended with this code at this moment, and since when they count.

    `signals` has what took each worker that is at its end and not reaped yet. No one comes before a worker that ended
    well or by a signal.
    """
    if not exit_code:
        return ()
    before = Instant(at - APART_S)
    return tuple((local_rank, before) for local_rank, signal in signals.items() if signal == SIGKILL)
