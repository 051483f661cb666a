"""The refit watchdog under the names that refit code already uses; the engine is `resurge.guards`.

    with RefitAbortWatchdog([group], timeout_s) as guard:
        transfer()
    if guard.fired: ...          # an aborted transfer may have returned quietly: its buffers are partial

Decides nothing that the engine does not: it has its own registry, prints instead of logging, and tells a quiet return
by `fired` alone. Without a positive limit and a group nothing happens at all: no thread, no abort, no translation.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar, cast

from resurge import environment
from resurge.guards.aborted import (
    REFIT_ABORTED_TOKEN,
    REFIT_CONTEXT_LOST_TOKEN,
    RefitAborted,
    is_refit_abort,
    is_refit_context_lost,
)
from resurge.guards.bounds import RELEASE_GRACE_S, off_loop, sync_within, teardown_within
from resurge.guards.deadlines import Deadline
from resurge.guards.groups import Abortable as _Abortable

__all__ = [
    "REFIT_ABORTED_TOKEN",
    "REFIT_CONTEXT_LOST_TOKEN",
    "RELEASE_GRACE_S",
    "RefitAbortWatchdog",
    "RefitAborted",
    "await_off_loop",
    "hold_refit_for_fault_injection",
    "is_refit_abort",
    "is_refit_context_lost",
    "release_within",
    "stand_down_armed_watchdogs",
    "sync_stream_within",
]

_HOLD_LOOK_S = 0.1
_ARMED_LOCK = threading.RLock()
"""Guards the registry; taken again by a signal's handler that hears of a death."""
_ARMED: set[RefitAbortWatchdog] = set()
R = TypeVar("R")


class RefitAbortWatchdog(Deadline):
    """Aborts the groups of a refit that takes longer than `timeout_s` seconds; armed, fired, stand_down()."""

    error_type: ClassVar[type[RefitAborted]] = RefitAborted
    needs_groups: ClassVar[bool] = True
    obeys: ClassVar[bool] = False
    says_first: ClassVar[bool] = True

    def __init__(self, group: _Abortable | Sequence[_Abortable | None] | None, timeout_s: float | None) -> None:
        super().__init__(group, timeout_s, "the refit", raise_=False, fan_out=False)

    def __enter__(self) -> Self:
        if not self.armed or self._entered_until_s:
            return super().__enter__()
        _say(f"refit watchdog armed: {self._timeout_s:g} s, {len(self._groups)} groups")
        try:
            with _ARMED_LOCK:
                _ARMED.add(self)
            return super().__enter__()
        except BaseException:
            self._unregister()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._unregister()
        finally:
            super().__exit__(kind, error, trace)

    def _unregister(self) -> None:
        with _ARMED_LOCK:
            _ARMED.discard(self)

    def _say_not_armed(self, why: str) -> None:
        _say(f"refit watchdog NOT armed: {why}")

    def _say_fired(self, groups: int) -> None:
        _say(f"refit watchdog fired: deadline of {self._timeout_s:g} s passed, aborting {groups} groups")


def await_off_loop(fn: Callable[[], R]) -> Awaitable[R]:
    """Run a blocking call on a daemon thread and await it, so that the loop still hears orders."""
    return off_loop(fn)


def sync_stream_within(stream: Any, budget_s: float | None, what: str = "the refit's stream") -> None:
    """Wait for a stream at most so long; raises RefitAborted with both tokens when it does not drain."""
    sync_within(stream, budget_s, what, error_type=RefitAborted)


def release_within(
    release: Callable[[], object], budget_s: float = RELEASE_GRACE_S, what: str = "the release of the old group"
) -> None:
    """Release an old group, waited for at most so long; never raises, never joins."""
    teardown_within(release, budget_s, what, say=_say)


def stand_down_armed_watchdogs() -> int:
    """A death is confirmed: no deadline for silence is needed. Gives the number of watchdogs that were armed."""
    with _ARMED_LOCK:
        armed = list(_ARMED)
    for guard in armed:
        guard.stand_down()
    return len(armed)


def hold_refit_for_fault_injection() -> None:
    """Wait while the file named by NRL_REFIT_HOLD_FILE exists, at most NRL_REFIT_HOLD_MAX_S (120) seconds.

    For a test that strikes in the middle of one chosen transfer; call it inside the guard, whose deadline has to
    outlast the hold. Without the variable or the file it does nothing.
    """
    path, limit_s = environment.refit_hold()
    if not path or not os.path.exists(path):
        return
    _say(f"refit held by {path} for at most {limit_s:g} s")
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        time.sleep(_HOLD_LOOK_S)
        if not os.path.exists(path):
            break
    _say(f"refit released from {path}")


def _say(line: str) -> None:
    try:
        print(f"resurge: {line}", flush=True)
    except (OSError, ValueError):
        # an output that is closed loses a line, not a refit
        return


def _after_fork_in_child() -> None:
    # what the parent guards is the parent's
    cast(Any, _ARMED_LOCK)._at_fork_reinit()
    _ARMED.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
