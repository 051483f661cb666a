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

Without a launcher every call is a cheap no-op. Nothing here raises into the training loop, blocks it or slows it; the
fence is the one exception, and says so.
"""

from resurge.fencing import Fence, FenceLost, FenceState
from resurge.worker_session import Session, fence, session

__all__ = ["Fence", "FenceLost", "FenceState", "Session", "fence", "session"]
