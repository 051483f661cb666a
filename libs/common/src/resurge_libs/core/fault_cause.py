"""What kind of trouble a fault is, in the few words that restart budgets are given for. Pure.

The reason code decides; for a worker that ended by itself also what it wrote into its error file, because a process
that runs out of memory, or sits on a broken device, exits like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, unique
from types import MappingProxyType

from resurge_libs.core.reasons import Reason


@unique
class FaultCause(StrEnum):
    """The kinds of trouble that a budget of its own can be given for."""

    EXIT = "exit"
    """A worker exited with a code other than 0."""
    SIGNAL = "signal"
    """A worker was ended by a signal that its launcher did not send."""
    OOM = "oom"
    """A worker said that it ran out of memory, on the host or on a device."""
    HARDWARE = "hardware"
    """A worker said that a device is broken."""
    HANG = "hang"
    """A worker stopped getting on, is held stopped, or ended long before its peers."""
    NODE = "node"
    """A node, or its launcher, was lost or left."""
    START = "start"
    """Workers did not start, or not in time."""
    OTHER = "other"


OF_REASON: Mapping[Reason, FaultCause] = MappingProxyType({
    Reason.WORKER_EXIT: FaultCause.EXIT,
    Reason.WORKER_SIGNAL: FaultCause.SIGNAL,
    Reason.WORKER_CRASHED: FaultCause.EXIT,
    Reason.WORKER_HUNG: FaultCause.HANG,
    Reason.WORKER_STOPPED: FaultCause.HANG,
    Reason.WORKER_GIL_HELD: FaultCause.HANG,
    Reason.WORKER_LIVELOCK: FaultCause.HANG,
    Reason.WORKER_BLOCKED: FaultCause.HANG,
    Reason.FINISH_SKEW: FaultCause.HANG,
    Reason.LEASE_EXPIRED: FaultCause.NODE,
    Reason.STREAM_LOST: FaultCause.NODE,
    Reason.NODE_STUCK: FaultCause.NODE,
    Reason.NODE_LEFT: FaultCause.NODE,
    Reason.NODE_RETURNED: FaultCause.NODE,
    Reason.SUPERSEDED: FaultCause.NODE,
    Reason.ENDED_ITS_WORKERS: FaultCause.NODE,
    Reason.WORKER_START_FAILED: FaultCause.START,
    Reason.START_TIMEOUT: FaultCause.START,
})  # fmt: skip
HARDWARE_WORDS = (
    "uncorrectable ecc", "ecc error", "fallen off the bus", "nvlink error", "hardware error", "nvrm: xid",
)  # fmt: skip
MEMORY_WORDS = ("out of memory", "outofmemory", "out_of_memory", "memoryerror", "cannot allocate memory")


def cause_of(reason: Reason, error: str = "") -> FaultCause:
    """The cause of a fault with this reason, whose worker left this error text; OTHER for a reason without one."""
    cause = OF_REASON.get(reason, FaultCause.OTHER)
    if cause in (FaultCause.EXIT, FaultCause.SIGNAL) and error:
        said = error.lower()
        if any(words in said for words in HARDWARE_WORDS):
            return FaultCause.HARDWARE
        if any(words in said for words in MEMORY_WORDS):
            return FaultCause.OOM
    return cause
