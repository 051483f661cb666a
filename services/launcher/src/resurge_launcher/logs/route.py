"""Where a sender tries next: its own leaf, then the other leaves, then the log server itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from resurge_libs.rpc.endpoint import Endpoint

OWN_LEAF_S = 3.0
"""So long only the own leaf is tried: it may be starting, or started again."""
LEAVES_S = 10.0
"""So long only leaves are: all nodes at once are too many for the log server."""


@dataclass(slots=True)
class Route:
    """The places of one sender."""

    leaves: tuple[Endpoint, ...]
    root: Endpoint | None
    clock: Callable[[], float] = time.monotonic
    _failing_since: float | None = None
    _tries: int = 0

    def __post_init__(self) -> None:
        assert self.leaves or self.root is not None, "a sender has somewhere to go"

    def now(self) -> Endpoint:
        """Where to try now."""
        places = self._places()
        return places[self._tries % len(places)]

    def _places(self) -> tuple[Endpoint, ...]:
        root = (self.root,) if self.root is not None else ()
        failing_s = 0.0 if self._failing_since is None else self.clock() - self._failing_since
        if not self.leaves:
            return root
        if failing_s < OWN_LEAF_S:
            return self.leaves[:1]
        return self.leaves if failing_s < LEAVES_S else self.leaves + root

    def failed(self) -> None:
        """A stream has broken, or never began."""
        if self._failing_since is None:
            self._failing_since, self._tries = self.clock(), 0
        else:
            self._tries += 1

    def answered(self) -> None:
        """The place takes lines."""
        self._failing_since = None
