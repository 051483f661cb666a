"""The guard of an executor loop: when it crashes on one rank, the world ends within a grace, and for that reason.

    guard = resurge.crash_guard(session)
    with guard:
        while True:
            ...
            if nothing_is_left:
                guard.completed()
                break

Decides what a crash is: an exception before the loop said that it is complete, by `completed()` or by leaving the block
normally. A flag that asks the loop to stop says nothing: a rank sets it on its own at its most frequent failures. Never
raises an error of its own, never calls a collective. Effects: the error file, a frame to the launcher, the kill.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from resurge import environment, errors
from resurge.dead_man import arm_dead_man
from resurge.worker_session import Session, session
from resurge.world_kill import DEAD_MAN_MARGIN_S, Gate, KillWatchdog, WorldKill, end_recorded, end_unrecorded

_log = logging.getLogger("resurge")
RECORD_LIMIT_S = 0.5
"""How long the record of a crash is waited for before the kill is armed; the deadline counts from the crash."""
_TEXT_LIMIT = 1000


class CrashGuard:
    """May be entered again for each run of the loop; made by `crash_guard`."""

    def __init__(
        self,
        own: Session,
        cleanup: Callable[[], object] | None = None,
        delivered: Gate | None = None,
        grace_s: float | None = None,
        world_size: int | None = None,
    ) -> None:
        self._session = own
        self._cleanup = cleanup
        self._delivered = delivered
        self._grace_s = grace_s
        self._world_size = world_size
        self._completed = False
        self._error: BaseException | None = None
        self._watchdog: KillWatchdog | None = None
        self.crashed = threading.Event()
        """Set as soon as `error` is there, for those of this process who wait for the loop."""

    @property
    def error(self) -> BaseException | None:
        """What the loop of this run crashed with."""
        return self._error

    @property
    def watchdog(self) -> KillWatchdog | None:
        """What kills after the crash of this run; None while nothing is armed."""
        return self._watchdog

    def completed(self) -> None:
        """The loop has come to its own end: what is raised from now on is teardown, and kills nobody."""
        self._completed = True

    def __enter__(self) -> Self:
        self._completed = False
        if self._error is not None:
            # of the run before
            self._error = self._watchdog = None
            self.crashed.clear()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._completed:
            _log.warning("resurge: %s was raised after the loop was complete: no crash", type(error).__name__)
        elif error is not None and not _is_leaving(error):
            self._crash(error)
            return
        if self._cleanup is not None:
            self._cleanup()

    def _clean_up(self) -> None:
        if self._cleanup is not None:
            self._cleanup()

    def _crash(self, error: BaseException) -> None:
        self._error = error
        self.crashed.set()
        grace_s = self._grace()
        if grace_s < 0 or self._world() <= 1:
            self._clean_up()
            return
        record = CrashRecord()
        end = lambda: end_recorded() if record.written else end_unrecorded()  # noqa: E731
        kill = WorldKill(error, self._delivered, end, self._session.spared)
        watchdog = KillWatchdog(kill, grace_s)
        kill.dead_man = arm_dead_man(grace_s + DEAD_MAN_MARGIN_S)
        record.leave(self._session, error, grace_s)
        # before any cleanup: it may block for ever on what the crash has left behind
        self._watchdog = watchdog if watchdog.start() else None
        if self._cleanup is None and self._watchdog is not None:
            # the way out of this process is the cleanup, and the watchdog stays over it
            return
        try:
            self._clean_up()
        finally:
            self._kill_inline(kill, grace_s)

    def _kill_inline(self, kill: WorldKill, grace_s: float) -> None:
        """Cleanup is over: take the watchdog's deadline over as it is; without one the grace begins now."""
        if self._watchdog is None:
            kill.at(time.monotonic() + grace_s)
            return
        self._watchdog.cancel()
        kill.at(self._watchdog.deadline)

    def _grace(self) -> float:
        if self._grace_s is not None:
            return self._grace_s
        grace_s, problem = environment.crash_grace()
        if problem:
            _log.error("resurge: %s", problem)
        return grace_s

    def _world(self) -> int:
        if self._world_size is not None:
            return self._world_size
        return max(self._session.world_size, _process_group_size())


class CrashRecord:
    """The error of a crash where the launcher reads it; `written` once it stands there."""

    def __init__(self) -> None:
        self.written = False
        self._at_ns = time.monotonic_ns()

    def leave(self, own: Session, error: BaseException, grace_s: float) -> None:
        """Tell the launcher now and write the error file, waited for no longer than RECORD_LIMIT_S. Never raises."""
        thread = threading.Thread(
            target=self._leave, args=(own, error, grace_s), name="resurge-crash-record", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            self._leave(own, error, grace_s)
            return
        thread.join(RECORD_LIMIT_S)

    def _leave(self, own: Session, error: BaseException, grace_s: float) -> None:
        try:
            text = f"{type(error).__name__}: {error}"[:_TEXT_LIMIT]
            _log.error("resurge: the loop of rank %d crashed: %s", own.rank, text)
            own.crashed(text, self._at_ns, grace_s)
            own.event("rank_crashed", error=text, kill_in_s=grace_s)
            path = environment.read_environment().error_file
            self.written = bool(path) and errors.write_error_file(path, error, at_s=time.time())
        except Exception:  # task root: a record that fails must not keep the kill from being armed
            _log.exception("resurge: the crash could not be recorded")


def crash_guard(
    own: Session | None = None,
    *,
    cleanup: Callable[[], object] | None = None,
    delivered: Gate | None = None,
    grace_s: float | None = None,
    world_size: int | None = None,
) -> CrashGuard:
    """A guard for `with` around an executor loop: its crash ends the world after `grace_s` seconds.

    `cleanup` is what this rank does at the end of its loop, however it ends; it may block. Without it the exception
    goes on, and the process has until the deadline to end by itself. `delivered`, once set, spares the world: the
    error has reached who had to know. `grace_s`: without it RESURGE_RANK_CRASH_HARD_KILL_GRACE, then
    TLLM_RANK_CRASH_HARD_KILL_GRACE, then 10; negative disables, 0 is at once. A world of one rank is left alone.
    """
    return CrashGuard(session() if own is None else own, cleanup, delivered, grace_s, world_size)


def _is_leaving(error: BaseException) -> bool:
    """Whether somebody ends this process or task already; that is no crash."""
    cancelled = getattr(sys.modules.get("asyncio"), "CancelledError", SystemExit)
    return isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit | cancelled)


def _process_group_size() -> int:
    """Of torch's process group, where the script has made one: without a launcher nothing else knows the world."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    try:
        return int(distributed.get_world_size())
    except (RuntimeError, ValueError):
        # a group that is broken had peers
        return 2
