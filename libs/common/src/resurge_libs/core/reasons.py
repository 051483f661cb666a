"""The one catalogue of reason codes. Every decision carries one, with a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique

from resurge_libs.core.values import quick


@unique
class Reason(StrEnum):
    """Why something was decided; the value is what logs, records and wires show."""

    # faults: what was seen
    WORKER_EXIT = "WORKER_EXIT"
    WORKER_SIGNAL = "WORKER_SIGNAL"
    WORKER_CRASHED = "WORKER_CRASHED"
    WORKER_HUNG = "WORKER_HUNG"
    WORKER_STOPPED = "WORKER_STOPPED"
    WORKER_GIL_HELD = "WORKER_GIL_HELD"
    WORKER_LIVELOCK = "WORKER_LIVELOCK"
    WORKER_BLOCKED = "WORKER_BLOCKED"
    WORKER_START_FAILED = "WORKER_START_FAILED"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    ENDED_ITS_WORKERS = "ENDED_ITS_WORKERS"
    STREAM_LOST = "STREAM_LOST"
    NODE_STUCK = "NODE_STUCK"
    NODE_LEFT = "NODE_LEFT"
    START_TIMEOUT = "START_TIMEOUT"
    FINISH_SKEW = "FINISH_SKEW"
    # forming a round
    NODE_JOINED = "NODE_JOINED"
    NODE_RETURNED = "NODE_RETURNED"
    NODE_PARKED = "NODE_PARKED"
    BELOW_MIN_NODES = "BELOW_MIN_NODES"
    LAST_CALL = "LAST_CALL"
    DRAINING = "DRAINING"
    STOP_AGREED = "STOP_AGREED"
    QUORUM_TIMEOUT = "QUORUM_TIMEOUT"
    ALL_LOST_WAIT = "ALL_LOST_WAIT"
    ROUND_OPENED = "ROUND_OPENED"
    ROUND_CLOSED = "ROUND_CLOSED"
    TEARDOWN_ORDERED = "TEARDOWN_ORDERED"
    TEARDOWN_CONFIRMED = "TEARDOWN_CONFIRMED"
    WAITING_FOR_TEARDOWN = "WAITING_FOR_TEARDOWN"
    WAITING_FOR_VERDICT = "WAITING_FOR_VERDICT"
    BACKOFF = "BACKOFF"
    JOURNAL_BEHIND = "JOURNAL_BEHIND"
    JOURNAL_FAILED = "JOURNAL_FAILED"
    LOG_NOT_WRITTEN = "LOG_NOT_WRITTEN"
    SERVICE_STOPPING = "SERVICE_STOPPING"
    SEGMENT_UNFILLED = "SEGMENT_UNFILLED"
    # verdicts
    RESTART_WITHIN_BUDGET = "RESTART_WITHIN_BUDGET"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    VERDICT_TIMEOUT = "VERDICT_TIMEOUT"
    POLICY_UNREACHABLE = "POLICY_UNREACHABLE"
    NO_RESTART_LATCHED = "NO_RESTART_LATCHED"
    NO_PROGRESS = "NO_PROGRESS"
    RESTART_REFUNDED = "RESTART_REFUNDED"
    ATTRIBUTION_STOP = "ATTRIBUTION_STOP"
    WORKLOAD_SHUTDOWN = "WORKLOAD_SHUTDOWN"
    TOO_FEW_NODES = "TOO_FEW_NODES"
    PREEMPTED = "PREEMPTED"
    SHUTDOWN_REQUESTED = "SHUTDOWN_REQUESTED"
    SUCCEEDED = "SUCCEEDED"
    EXCLUDED = "EXCLUDED"
    WOULD_EXCLUDE = "WOULD_EXCLUDE"
    READMITTED = "READMITTED"
    REPEAT_OFFENDER = "REPEAT_OFFENDER"
    RULE_PASSED_OVER = "RULE_PASSED_OVER"
    RULE_NOT_ASKED = "RULE_NOT_ASKED"
    # refusals
    SUPERSEDED = "SUPERSEDED"
    ALREADY_ATTACHED = "ALREADY_ATTACHED"
    STALE_GENERATION = "STALE_GENERATION"
    BAD_REQUEST = "BAD_REQUEST"
    VERSION_MISMATCH = "VERSION_MISMATCH"
    # endings of a recovery and of a launcher
    RECOVERED = "RECOVERED"
    STARTED_ONLY = "STARTED_ONLY"
    CONTROL_LOST = "CONTROL_LOST"
    CONTROL_UNREACHABLE = "CONTROL_UNREACHABLE"
    SIGNAL_RECEIVED = "SIGNAL_RECEIVED"
    RELEASED = "RELEASED"
    LAUNCHER_FAILED = "LAUNCHER_FAILED"
    # the ordinary course of things
    NOTHING_CHANGED = "NOTHING_CHANGED"
    LATE_EVENT_IGNORED = "LATE_EVENT_IGNORED"
    BEAT = "BEAT"
    TICK = "TICK"
    PAUSED = "PAUSED"
    MILESTONE = "MILESTONE"
    FINISHED = "FINISHED"
    STARTED = "STARTED"
    STARTED_COLD = "STARTED_COLD"
    STORE_WRITE = "STORE_WRITE"
    STORE_OFFERED = "STORE_OFFERED"
    OBSERVED = "OBSERVED"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    NEW_ATTEMPT = "NEW_ATTEMPT"


@quick
@dataclass(frozen=True, slots=True)
class Because:
    """A reason code for machines and one sentence for people."""

    code: Reason
    sentence: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}" if self.sentence else str(self.code)


SILENCES = frozenset({Reason.WORKER_HUNG, Reason.START_TIMEOUT})
"""Faults that only say that nothing more was heard. One rank's silence silences all that wait for it in a collective,
so among the faults of one story these never stand before one that says what happened."""
STANDSTILLS = frozenset({Reason.WORKER_BLOCKED})
"""Faults that say where a rank stands still, though it may stand there for want of a peer: after those that name what
happened, before mere silences."""
HANGS = frozenset({
    Reason.WORKER_HUNG, Reason.WORKER_STOPPED, Reason.WORKER_GIL_HELD, Reason.WORKER_LIVELOCK, Reason.WORKER_BLOCKED,
})  # fmt: skip
"""Faults of a worker that does not get on, and cannot be asked to end."""


def vagueness(code: Reason) -> int:
    """How little a fault says of what happened: 0 what, 1 where it stands still, 2 only that nothing was heard."""
    return 2 if code in SILENCES else 1 if code in STANDSTILLS else 0
