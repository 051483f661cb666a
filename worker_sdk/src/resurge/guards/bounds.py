"""Waits with a bound, and calls that leave the event loop free.

Decides how long each is waited for; a call that does not end is left behind on its daemon thread, which delays nothing,
the process's end included. Torch is used only where the script has imported it. Effects: daemon threads.
"""

from __future__ import annotations

import contextvars
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from resurge.guards.aborted import CollectiveAborted

RELEASE_GRACE_S = 30.0
"""How long the release of an old group is waited for."""
POLL_S = 0.05
"""From one look at a stream to the next."""
_log = logging.getLogger("resurge")
_group_locks: weakref.WeakKeyDictionary[Any, threading.Lock] = weakref.WeakKeyDictionary()
_group_locks_lock = threading.RLock()
R = TypeVar("R")


async def off_loop(function: Callable[[], R], group: Any = None) -> R:
    """Run this on a daemon thread of its own and await its end, so that the loop goes on.

    Context variables and the current CUDA device go along. With a group, calls for the same group wait for each other:
    two that interleave their collectives are lost. There is no limit here, cancelling frees the awaiter only; whoever
    must not wait for ever puts a deadline around what blocks.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()
    lock = _lock_of(group) if group is not None else None
    context = contextvars.copy_context()
    device = current_device(only_if_used=True)

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            if lock is not None:
                with lock:
                    result = context.run(_on_device, device, function)
            else:
                result = context.run(_on_device, device, function)
        except StopIteration as raised:
            error = RuntimeError("the function called off the loop raised StopIteration")
            error.__cause__ = raised
        except BaseException as raised:  # task root: it belongs to whoever awaits
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            _log.debug("resurge: the loop was closed before a call off the loop ended")

    threading.Thread(target=work, name="resurge-off-loop", daemon=True).start()
    return await future


def sync_within(
    stream: Any, budget_s: float | None, what: str = "", error_type: type[CollectiveAborted] = CollectiveAborted
) -> None:
    """Wait until the stream's work is done, at most so long; then synchronize the device once.

    Without a positive budget it is the plain, unbounded synchronize. Past the budget raises the error that says that
    the device's context is lost: an abort does not retire what is queued, and nothing else in this process will. A
    stream of the CPU is done already.
    """
    if getattr(getattr(stream, "device", None), "type", "") == "cpu":
        return
    if budget_s is None or budget_s <= 0:
        _synchronize_device()
        return
    event = _record(stream)
    until_s = time.monotonic() + budget_s
    while not event.query():
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise error_type.context_lost(f"{what or 'the stream'} did not drain within {budget_s:g} s")
        time.sleep(min(POLL_S, left_s))
    _synchronize_device()


def teardown_within(
    release: Callable[[], object],
    budget_s: float = RELEASE_GRACE_S,
    what: str = "",
    say: Callable[[str], object] = _log.warning,
) -> bool:
    """Release something on a daemon thread, waited for at most so long; True when it ended in time. Never raises.

    Bind the new rendezvous first and release the old group after: peers count down their connect timeout already.
    """
    device = current_device()
    ended = threading.Event()
    name = what or "a release"

    def run() -> None:
        try:
            _on_device(device, release)
        except BaseException as error:  # task root: the old group is given up either way
            _log.debug("resurge: %s failed: %r", name, error)
        ended.set()

    try:
        threading.Thread(target=run, name="resurge-teardown", daemon=True).start()
    except RuntimeError as error:
        say(f"resurge: {name} was not begun: {error}")
        return False
    if ended.wait(budget_s):
        return True
    say(f"resurge: {name} did not end within {budget_s:g} s and is left behind")
    return False


def current_device(only_if_used: bool = False) -> int | None:
    """The current CUDA device of this thread; None where torch is not imported or has none (or has not used it)."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_available() or (only_if_used and not cuda.is_initialized()):
        return None
    return int(cuda.current_device())


def _on_device(device: int | None, function: Callable[[], R]) -> R:
    if device is not None:
        # a fresh thread starts on device 0
        sys.modules["torch"].cuda.set_device(device)
    return function()


def _record(stream: Any) -> Any:
    record_event = getattr(stream, "record_event", None)
    if callable(record_event):
        return record_event()
    event = sys.modules["torch"].cuda.Event()
    event.record(stream)
    return event


def _synchronize_device() -> None:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None:
        return
    try:
        cuda.synchronize()
    except (AssertionError, RuntimeError):
        # a build without devices has nothing to wait for; a device that fails has
        if cuda.is_available():
            raise


def _lock_of(group: Any) -> threading.Lock:
    with _group_locks_lock:
        return _group_locks.setdefault(group, threading.Lock())


def _after_fork_in_child() -> None:
    # the lock may be held by a thread that did not come along
    global _group_locks_lock
    _group_locks_lock = threading.RLock()
    _group_locks.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
