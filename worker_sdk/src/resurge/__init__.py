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

TYPE_CHECKING = False  # as type checkers know it; typing itself is a third of what this package would cost
if TYPE_CHECKING:
    from resurge.control import WorkloadAction, WorkloadControlRequest
    from resurge.crashing import CrashGuard, crash_guard
    from resurge.fencing import Fence, FenceLost, FenceState
    from resurge.frames import ControlAnswer
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
    from resurge.worker_session import Session, fence, send_workload_control_request, session

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

_HOMES = {
    "control": ("WorkloadAction", "WorkloadControlRequest"),
    "crashing": ("CrashGuard", "crash_guard"),
    "fencing": ("Fence", "FenceLost", "FenceState"),
    "frames": ("ControlAnswer",),
    "worker_session": ("Session", "fence", "send_workload_control_request", "session"),
    "guards": (
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
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """A name is imported when it is first used: a script does not pay for what it does not name."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
