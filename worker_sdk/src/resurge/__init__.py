"""Resurge in a training script: session, beats, phases, milestones, fence. Standard library only.

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
"""

from resurge.control import WorkloadAction, WorkloadControlRequest
from resurge.fencing import Fence, FenceLost, FenceState
from resurge.frames import ControlAnswer
from resurge.worker_session import Session, fence, send_workload_control_request, session

__all__ = [
    "ControlAnswer",
    "Fence",
    "FenceLost",
    "FenceState",
    "Session",
    "WorkloadAction",
    "WorkloadControlRequest",
    "fence",
    "send_workload_control_request",
    "session",
]
