"""Groups and streams that stand for those of a transport, on a machine without one. Decide nothing; no effects."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace


class FakeGroup:
    """Counts its aborts; `block` is a collective that only an abort ends."""

    def __init__(self, on_abort: Callable[[], object] | None = None) -> None:
        self.aborts = 0
        self.aborted = threading.Event()
        self._on_abort = on_abort

    def abort(self) -> None:
        """What a guard calls."""
        self.aborts += 1
        try:
            if self._on_abort is not None:
                self._on_abort()
        finally:
            self.aborted.set()

    def block(self, limit_s: float = 10.0) -> None:
        """Return when the group is aborted; AssertionError when it is not within the limit."""
        assert self.aborted.wait(limit_s), f"the group was not aborted within {limit_s:g} s"


class SlowGroup(FakeGroup):
    """One whose abort takes so long."""

    def __init__(self, abort_s: float) -> None:
        super().__init__(lambda: threading.Event().wait(abort_s))


class StuckGroup(FakeGroup):
    """One whose abort does not end before `let_go` is set."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        super().__init__(self.let_go.wait)


class FakeStream:
    """Drains after so many looks, never with None; it is a GPU's unless said otherwise. Also its own event."""

    def __init__(self, looks: int | None = 0, device: str = "cuda") -> None:
        self.looks = looks
        self.recorded = 0
        self.queried = 0
        self.device = SimpleNamespace(type=device)

    def record_event(self) -> FakeStream:
        """The event that is looked at."""
        self.recorded += 1
        return self

    def query(self) -> bool:
        """Whether what was queued is done."""
        self.queried += 1
        return self.looks is not None and self.queried > self.looks
