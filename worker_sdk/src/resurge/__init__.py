"""Resurge in a training script: session, beats, phases, milestones, fence, guards. Standard library only.

    import resurge

    with resurge.session(beat_limit=60) as s:
        s.process_group_ready()
        s.checkpoint_restored(step)
        while step < steps:
            ...
            s.step_committed(step)
            with s.phase("checkpoint", limit=600):
                s.fence()
                ...
            if s.should_stop():
                save(); break

Without a launcher every call is a cheap no-op. Nothing here raises into the training loop, blocks it or slows it; the
fence is the one exception, and says so. A worker that gives up asks with `s.stop_restarting(reason)` or
`s.exclude_this_node(reason)`, waits for the answer, and leaves by raising what is wrong.

`deadline`, `bounded`, `off_loop`, `sync_within` and `teardown_within` bound what may block in native code; without a
positive limit they do nothing. `crash_guard` ends the world when one rank's loop has crashed.
"""

from typing import TYPE_CHECKING, Any

from resurge.control import WorkloadAction, WorkloadControlRequest
from resurge.fencing import Fence, FenceLost, FenceState
from resurge.frames import ControlAnswer
from resurge.worker_session import Session, fence, send_workload_control_request, session

if TYPE_CHECKING:
    from resurge.crashing import CrashGuard, crash_guard
    from resurge.guards import (
        Abortable,
        AbortableGroup,
        CollectiveAborted,
        DeviceContextLost,
        bounded,
        deadline,
        is_aborted,
        is_context_lost,
        off_loop,
        sync_within,
        teardown_within,
    )

__all__ = [
    "Abortable",
    "AbortableGroup",
    "CollectiveAborted",
    "ControlAnswer",
    "CrashGuard",
    "DeviceContextLost",
    "Fence",
    "FenceLost",
    "FenceState",
    "Session",
    "WorkloadAction",
    "WorkloadControlRequest",
    "bounded",
    "crash_guard",
    "deadline",
    "fence",
    "is_aborted",
    "is_context_lost",
    "off_loop",
    "send_workload_control_request",
    "session",
    "sync_within",
    "teardown_within",
]

_IN_CRASHING = frozenset({"CrashGuard", "crash_guard"})
_AT_FIRST_USE = _IN_CRASHING | {
    "Abortable",
    "AbortableGroup",
    "CollectiveAborted",
    "DeviceContextLost",
    "bounded",
    "deadline",
    "is_aborted",
    "is_context_lost",
    "off_loop",
    "sync_within",
    "teardown_within",
}


def __getattr__(name: str) -> Any:
    """The guards are imported when they are first named: a script without them does not pay for them."""
    if name not in _AT_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    home = importlib.import_module("resurge.crashing" if name in _IN_CRASHING else "resurge.guards")
    value = globals()[name] = getattr(home, name)
    return value
