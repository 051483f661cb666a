"""When a sender is of no more use: its launcher is gone, and nothing of what is left becomes durable.

What it leaves stays in the spool for the next launcher's sender, which waits for this one.
"""

from __future__ import annotations

import os
import threading
import time

ORPHAN_LIMIT_S = 30.0
"""So long a sender whose launcher is gone goes on without anything becoming durable, over however many streams."""
HANG_LIMIT_S = 5.0
"""After that it is ended where it stands: it hangs in a call. It may be ended anywhere, as by SIGKILL."""
LOOK_S = 0.5
EXIT_LEFT = 3


class Lifeline:
    """The launcher that a sender belongs to. Thread-safe."""

    def __init__(self, parent: int = 0, limit_s: float = ORPHAN_LIMIT_S) -> None:
        """`parent`: pid of the launcher; 0: nobody whose death would matter."""
        self._parent, self._limit_s = parent, limit_s
        self._since: float | None = None
        """Orphaned, and nothing became durable since."""

    @property
    def is_orphan(self) -> bool:
        """Whether the launcher is gone."""
        return self._parent > 0 and os.getppid() != self._parent

    @property
    def idle_s(self) -> float:
        """How long the launcher has been gone without anything becoming durable."""
        if not self.is_orphan:
            return 0.0
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since

    @property
    def is_over(self) -> bool:
        """Whether to end, and leave the rest to the next sender."""
        return self.idle_s > self._limit_s

    def got_on(self) -> None:
        """Something became durable."""
        self._since = None

    def watch(self) -> None:
        """End the process, too, when it hangs where it cannot look: in a call to a server, a disk or a lock."""
        threading.Thread(target=self._watch, name="resurge-log-lifeline", daemon=True).start()

    def _watch(self) -> None:
        while self.idle_s <= self._limit_s + HANG_LIMIT_S:
            time.sleep(LOOK_S)
        os._exit(EXIT_LEFT)
