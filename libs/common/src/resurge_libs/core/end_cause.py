"""Why a job, or one launcher of it, ended: one word for schedulers, scripts and records, beside the longer reason.

A cause says what kind of end it was and never changes once it stands; the reason and its sentence say what led to it.
Pure; decides nothing but the mapping from reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, unique
from types import MappingProxyType

from resurge_libs.core.reasons import Reason


@unique
class EndCause(StrEnum):
    """The kind of an end; the value stands in the store's shutdown key, in the job's record and in launchers' logs."""

    UNKNOWN = "unknown"
    """Decided by a release that named no causes, or for a reason that has none of its own."""
    # the job's
    SUCCESS = "success"
    BUDGET = "budget"
    NO_PROGRESS = "no_progress"
    ATTRIBUTION_STOP = "attribution_stop"
    WORKLOAD_SHUTDOWN = "workload_shutdown"
    SHUTDOWN_REQUESTED = "shutdown_requested"
    TOO_FEW_NODES = "too_few_nodes"
    NODES_LOST = "nodes_lost"
    PREEMPTED = "preempted"
    START_FAILED = "start_failed"
    LEFT = "left"
    """Every launcher was told to leave by a signal."""
    # one launcher's own, while the job may go on
    CONTROL_LOST = "control_lost"
    SIGNALLED = "signalled"
    EXCLUDED = "excluded"
    REFUSED = "refused"
    LAUNCHER_FAILED = "launcher_failed"


OF_REASON: Mapping[Reason, EndCause] = MappingProxyType({
    Reason.SUCCEEDED: EndCause.SUCCESS,
    Reason.BUDGET_EXHAUSTED: EndCause.BUDGET,
    Reason.NO_PROGRESS: EndCause.NO_PROGRESS,
    Reason.ATTRIBUTION_STOP: EndCause.ATTRIBUTION_STOP,
    Reason.WORKLOAD_SHUTDOWN: EndCause.WORKLOAD_SHUTDOWN,
    Reason.SHUTDOWN_REQUESTED: EndCause.SHUTDOWN_REQUESTED,
    Reason.QUORUM_TIMEOUT: EndCause.TOO_FEW_NODES,
    Reason.TOO_FEW_NODES: EndCause.TOO_FEW_NODES,
    Reason.ALL_LOST_WAIT: EndCause.NODES_LOST,
    Reason.PREEMPTED: EndCause.PREEMPTED,
    Reason.WORKER_START_FAILED: EndCause.START_FAILED,
    Reason.START_TIMEOUT: EndCause.START_FAILED,
    Reason.NODE_LEFT: EndCause.LEFT,
    Reason.CONTROL_LOST: EndCause.CONTROL_LOST,
    Reason.CONTROL_UNREACHABLE: EndCause.CONTROL_LOST,
    Reason.SIGNAL_RECEIVED: EndCause.SIGNALLED,
    Reason.EXCLUDED: EndCause.EXCLUDED,
    Reason.SUPERSEDED: EndCause.REFUSED,
    Reason.ALREADY_ATTACHED: EndCause.REFUSED,
    Reason.VERSION_MISMATCH: EndCause.REFUSED,
    Reason.BAD_REQUEST: EndCause.REFUSED,
    Reason.LAUNCHER_FAILED: EndCause.LAUNCHER_FAILED,
})  # fmt: skip
_BY_NAME: Mapping[str, EndCause] = MappingProxyType({cause.value: cause for cause in EndCause})


def end_cause_of(reason: Reason) -> EndCause:
    """The cause that a reason of an end stands for; UNKNOWN for a reason that ends nothing by itself."""
    return OF_REASON.get(reason, EndCause.UNKNOWN)


def end_cause_named(text: str) -> EndCause:
    """The cause of that name; UNKNOWN for one that only another release knows."""
    return _BY_NAME.get(text, EndCause.UNKNOWN)
