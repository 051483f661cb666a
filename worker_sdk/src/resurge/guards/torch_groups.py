"""Process groups of torch as groups that a guard can abort: those whose backend can, and gloo, which cannot.

gloo's own `abort` releases nobody. What does is cutting the group's own connected sockets, within milliseconds, except
for a rank in the middle of a large transfer to one peer; that one needs a timeout which was set before the operation.
So a guard sets the backend's timeout when it is entered, and point-to-point calls go through `send` and `recv` here.
Decides how long each operation may take natively. Torch is imported by the calls. Effects: sockets of this process, the
backend's timeout, at most one file.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from resurge.guards import exits
from resurge.guards.aborted import CollectiveAborted
from resurge.guards.bounds import teardown_within
from resurge.own_sockets import OwnSockets

NATIVE_MARGIN_S = 0.02
"""How much later than its guard an operation ends by the backend's own timeout."""
STAND_DOWN_GRACE_S = 1.0
"""What a stand-down leaves of a guard over gloo: a peer's death does not end every wait."""
SNAPSHOT_LIMIT_S = 0.25
"""How long an abort waits for the flight recorder."""
_SHORTEST_S = 0.001
_log = logging.getLogger("resurge")
_monotonic = time.monotonic
R = TypeVar("R")


class TorchGroup:
    """A process group whose backend can abort, as NCCL's can."""

    def __init__(self, group: Any, snapshot_to: Path | None = None) -> None:
        self._abort = _abort_of(group)
        self._snapshot_to = snapshot_to
        self._lock = threading.Lock()
        self._aborted = False

    @property
    def aborted(self) -> bool:
        """Whether it was aborted, for good."""
        return self._aborted

    def abort(self) -> None:
        """Write the flight recorder down where that was asked for, then abort; a second call does nothing."""
        with self._lock:
            if self._aborted:
                return
            self._aborted = True
            abort, self._abort = self._abort, _nothing
        snapshot(self._snapshot_to)
        abort()


class GlooGroup:
    """A process group of gloo, with the sockets that are its own; made by `open_gloo`."""

    stand_down_grace_s = STAND_DOWN_GRACE_S

    def __init__(self, group: Any, sockets: OwnSockets, snapshot_to: Path | None = None) -> None:
        self._group: Any = group
        self._backend: Any = _gloo_backend(group)
        self._sockets = sockets
        self._snapshot_to = snapshot_to
        self._lock = threading.RLock()
        self._usual: timedelta = self._backend.options._timeout
        self._told = self._usual
        self._usual_s = self._usual.total_seconds()
        self._deadlines: list[float] = []
        self._aborted = False

    @property
    def aborted(self) -> bool:
        """Whether it was aborted, for good."""
        return self._aborted

    @property
    def group(self) -> Any:
        """The process group, for torch's calls. Keep it nowhere: its sockets are open as long as anyone holds it."""
        group = self._group
        if group is None:
            raise CollectiveAborted("the gloo group was aborted: open a fresh one over a fresh prefix")
        return group

    def abort(self) -> None:
        """Cut the group's connections, and let go of it; a second call does nothing."""
        with self._lock:
            if self._aborted:
                return
            self._aborted = True
            self._group = self._backend = None
        snapshot(self._snapshot_to)
        cut = self._sockets.cut()
        _log.info("resurge: cut %d connections of an aborted gloo group", cut)

    def enter_guard(self, deadline_s: float) -> None:
        """A guard over this group begins, until this instant of time.monotonic()."""
        # most guards of training have limits beyond the usual one: then there is nothing to tell the backend
        self._deadlines.append(deadline_s)
        if len(self._deadlines) > 1 or deadline_s - _monotonic() + NATIVE_MARGIN_S < self._usual_s:
            with self._lock:
                self._set_timeout()

    def leave_guard(self, deadline_s: float) -> None:
        """That guard has ended. Never raises: the group may have been destroyed inside it."""
        try:
            self._deadlines.remove(deadline_s)
            if self._deadlines or self._told is not self._usual:
                with self._lock:
                    self._set_timeout()
        except (ValueError, RuntimeError):
            _log.debug("resurge: a guard left a group that is no more")

    def run(self, operation: Callable[[Any], R]) -> R:
        """A collective on the group, bounded natively by what is left of the innermost guard.

        One that is called on `group` directly has the guard's limit for itself, however late in the guard it begins.
        """
        group = self.group
        with self._lock:
            self._set_timeout()
        return operation(group)

    def send(self, tensor: Any, to: int) -> None:
        """Send to a rank; ends with the guard, which gloo's own blocking form does not."""
        import torch.distributed as distributed

        self.wait(distributed.isend(tensor, to, group=self.group), f"send to rank {to}")

    def recv(self, tensor: Any, source: int) -> None:
        """Receive from a rank; ends with the guard."""
        import torch.distributed as distributed

        self.wait(distributed.irecv(tensor, source, group=self.group), f"receive from rank {source}")

    def wait(self, work: Any, what: str = "operation") -> None:
        """Wait for an asynchronous operation of this group, no longer than what is left of the guard."""
        left = self._left()
        if left is None:
            work.wait()
            return
        try:
            work.wait(left)
        except RuntimeError as error:
            if work.is_completed():
                raise
            exits.note_stuck(f"a {what} of gloo")
            raise CollectiveAborted(f"the {what} did not end within {left.total_seconds():.3f} s") from error

    def _left(self) -> timedelta | None:
        """What is left of the earliest guard and its margin; None without a guard."""
        with self._lock:
            return self._bound()

    def _set_timeout(self) -> None:
        bound_s = self._bound_s()
        timeout = timedelta(seconds=bound_s) if bound_s < self._usual_s else self._usual
        if timeout is not self._told and self._backend is not None:
            self._told = timeout
            # gloo counts in whole milliseconds, and takes 0 for no limit
            self._backend.set_timeout(timeout)

    def _bound(self) -> timedelta | None:
        bound_s = self._bound_s()
        return None if bound_s == math.inf else timedelta(seconds=bound_s)

    def _bound_s(self) -> float:
        # each look at the list is one step of the interpreter, as each change of it is: guards come and go meanwhile
        return max(min(self._deadlines, default=math.inf) - _monotonic() + NATIVE_MARGIN_S, _SHORTEST_S)


def open_gloo(make: Callable[[], Any], snapshot_to: Path | None = None) -> GlooGroup:
    """Make a process group of gloo by this function, and know which sockets are its own.

    Collective, as making a group is. No other thread of this process should open connections meanwhile: they would be
    cut with the group's. Those to the store of the default group are spared. `make` gives the group, or None for the
    default one.
    """
    import torch.distributed as distributed

    before = OwnSockets.open_now()
    group = make()
    if group is None:
        group = distributed.group.WORLD
    return GlooGroup(group, OwnSockets.since(before, _store_ports()), snapshot_to)


def abortable(group: Any, snapshot_to: Path | None = None) -> TorchGroup:
    """A process group of torch for a guard. Raises ValueError for gloo: its sockets are known to `open_gloo` alone."""
    import torch.distributed as distributed

    if distributed.get_backend(group) == "gloo":
        raise ValueError("gloo cannot abort: make the group by resurge.guards.torch_groups.open_gloo")
    return TorchGroup(group, snapshot_to)


def snapshot(path: Path | None) -> bool:
    """Write torch's flight recorder to this file, waited for no longer than SNAPSHOT_LIMIT_S. Never raises."""
    if path is None:
        return False
    written = []

    def write() -> None:
        bindings = sys.modules["torch._C._distributed_c10d"]
        names = ("_dump_nccl_trace_json", "_dump_fr_trace_json")
        dump = next((getattr(bindings, name) for name in names if hasattr(bindings, name)), None)
        if dump is not None:
            data = dump()
            path.write_bytes(data if isinstance(data, bytes) else str(data).encode())
            written.append(path)

    teardown_within(write, SNAPSHOT_LIMIT_S, "the flight recorder's snapshot")
    return bool(written)


def _abort_of(group: Any) -> Callable[[], object]:
    """The abort that this torch has: of the group, else of torch.distributed. Raises NotImplementedError."""
    abort = getattr(group, "abort", None)
    if callable(abort):
        return abort
    from torch.distributed import distributed_c10d as c10d

    by_name = getattr(c10d, "_abort_process_group", None)
    if by_name is None:
        raise NotImplementedError("this torch cannot abort a process group; 2.6 or newer can")
    return lambda: by_name(group)


def _gloo_backend(group: Any) -> Any:
    import torch

    return group._get_backend(torch.device("cpu"))


def _store_ports() -> list[int]:
    """Where the default group's store listens: connections that may be made with the group, and must outlive it."""
    from torch.distributed import distributed_c10d as c10d

    if not c10d.is_initialized():
        return []
    store: Any = c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return [store.port] if hasattr(store, "port") else []


def _nothing() -> None:
    return None
