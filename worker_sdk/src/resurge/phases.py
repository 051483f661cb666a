"""Phases: the stretches of work that a worker has open, and their record on the page.

Decides which phase the page shows (the innermost) and which deadline holds (the earliest). Effects: the page's record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from resurge.page import PageWriter, Phase, earliest_deadline_ns

_NOTHING_OPEN = Phase("", 0, 0, 0, 0)


class OpenPhases:
    """All open phases of one worker. Several threads may open and close them."""

    def __init__(self, page: PageWriter, beat: Callable[[], None]) -> None:
        self._page = page
        self._beat = beat
        self._lock = threading.RLock()
        self._open: dict[int, Phase] = {}
        """By identity, the outermost first. It changes before the page does, each time in one step: a signal's handler
        that has phases of its own may come in between."""
        self._armed = True

    @property
    def any_open(self) -> bool:
        """Whether some phase is open now."""
        return bool(self._open)

    def disarm(self) -> None:
        """Do nothing from now on; takes no lock, which a forked child may find held for ever."""
        self._armed = False

    def opened(self, name: str, limit_ns: int) -> Phase:
        """Open a phase now."""
        phase = Phase(name, time.monotonic_ns(), limit_ns, 0, len(self._open) + 1)
        if self._armed:
            with self._lock:
                self._open[id(phase)] = phase
                self._write()
        return phase

    def close(self, phase: Phase) -> None:
        """Close it, in whatever order, and beat."""
        if not self._armed:
            return
        with self._lock:
            self._open.pop(id(phase), None)
            # The beat comes first: between the two stores the worker must not look silent since before the phase.
            self._beat()
            self._write()

    def _write(self) -> None:
        phases = tuple(self._open.values())
        top = phases[-1] if phases else _NOTHING_OPEN
        deadline_ns = earliest_deadline_ns(phases)
        self._page.write_phase(Phase(top.name, top.opened_ns, top.limit_ns, deadline_ns, len(phases)))


class PhaseScope:
    """The `with` of a phase; may be entered again after it was left."""

    def __init__(
        self, phases: OpenPhases, name: str, limit_ns: int, on_open: Callable[[int], None] | None = None
    ) -> None:
        self._phases = phases
        self._on_open = on_open
        self._name = name
        self._limit_ns = limit_ns
        self._opened: Phase | None = None

    def __enter__(self) -> None:
        self._opened = self._phases.opened(self._name, self._limit_ns)
        if self._on_open is not None:
            self._on_open(self._limit_ns)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            self._phases.close(self._opened)
            self._opened = None
