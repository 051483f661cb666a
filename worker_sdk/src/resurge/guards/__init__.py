"""Guards: everything that waits is bounded, by a thread that is inside the process already.

    with resurge.deadline(60, groups=[group], phase="step"):
        all_reduce(...)

Decides when a wait is over and what is aborted then. Never starts a thread, never imports torch, until a guard with a
positive limit is entered. Effects: one daemon timer thread for all guards of a process; short-lived daemon threads for
aborts, releases and calls off the loop.
"""

from resurge.guards.aborted import (
    ABORTED_TOKEN,
    CONTEXT_LOST_TOKEN,
    CollectiveAborted,
    DeviceContextLost,
    is_aborted,
    is_context_lost,
)
from resurge.guards.bounds import RELEASE_GRACE_S, off_loop, sync_within, teardown_within
from resurge.guards.deadlines import Deadline, Outcome, bounded, deadline, stand_down_all
from resurge.guards.groups import Abortable, AbortableGroup

__all__ = [
    "ABORTED_TOKEN",
    "CONTEXT_LOST_TOKEN",
    "RELEASE_GRACE_S",
    "Abortable",
    "AbortableGroup",
    "CollectiveAborted",
    "Deadline",
    "DeviceContextLost",
    "Outcome",
    "bounded",
    "deadline",
    "is_aborted",
    "is_context_lost",
    "off_loop",
    "stand_down_all",
    "sync_within",
    "teardown_within",
]
