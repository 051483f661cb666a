"""The limits of a worker, as its script sets them: they stand on its page, and short ones are told to the launcher.

Decides only what is short. Effects: the page's cells, and frames by the link.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from resurge.environment import WorkerEnvironment
from resurge.fencing import NS_PER_S
from resurge.frames import Hello, Speaker
from resurge.limits import GivenLimits
from resurge.link import SDK_VERSION, Link
from resurge.page import NEVER, Cell, PageWriter, cell_value

SHORT_LIMIT_S = 1.0
"""A limit this short is told: the launcher looks at a page by itself only so often, and would notice its end late."""


class Place:
    """Where a worker stands in its job, as its launcher told it."""

    _environment: WorkerEnvironment

    @property
    def rank(self) -> int:
        """Global rank in this generation."""
        return self._environment.rank

    @property
    def world_size(self) -> int:
        """Workers in all."""
        return self._environment.world_size

    @property
    def cycle(self) -> int:
        """How often the workers of this attempt were started before: 0 in the first run."""
        return self._environment.cycle

    @property
    def generation(self) -> int:
        """The number that fences; 0 without a launcher."""
        return self._environment.generation


class SettableLimits(Place):
    """The part of a session that is about limits. Without a launcher every call does nothing."""

    _page: PageWriter | None
    _cells: memoryview[int] | None
    _link: Link
    _beat_count: int

    @property
    def limits(self) -> GivenLimits:
        """What the launcher was told about the limits of its workers."""
        return self._environment.limits

    def set_beat_limit(self, limit_s: float) -> None:
        """Beats further apart than this, in seconds, mean that the worker hangs; 0 for no limit."""
        if self._page is not None and self._cells is not None:
            self._page.set_beat_limit(as_ns(limit_s))
            self._tell_short_limit(as_ns(limit_s))

    def _tell_short_limit(self, limit_ns: int) -> None:
        """Have the launcher look at the page now, so that it sees the limit before it is over."""
        if 0 < limit_ns < SHORT_LIMIT_S * NS_PER_S and self._cells is not None:
            self._link.send(Hello(self._speaker(), SDK_VERSION))

    def set_section_deadline(self, deadline_ns: int) -> None:
        """The earliest end, by time.monotonic_ns(), of limits that run beside that of the beats; 0 for none."""
        if self._page is not None and self._cells is not None:
            self._page.set_section_deadline(deadline_ns)
            self._tell_short_limit(deadline_ns - time.monotonic_ns() if deadline_ns else 0)

    def set_first_beat_limit(self, limit_s: float | None) -> None:
        """A first beat later than this after the start, in seconds, means that the worker hangs; None for no limit."""
        if self._page is not None and self._cells is not None:
            self._page.set_first_beat_limit(as_ns(limit_s))

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """This worker waits for the others: no beat is due inside, nor afterwards until there is one again."""
        cells, first_ns = self._cells, NEVER
        if cells is not None:
            first_ns = cells[Cell.FIRST_BEAT_LIMIT_NS]
            for cell in (Cell.FIRST_BEAT_LIMIT_NS, Cell.SECTION_DEADLINE_NS, Cell.BEAT_NS):
                cells[cell] = NEVER
        try:
            yield
        finally:
            if cells is not None and first_ns and not self._beat_count:
                # as it was, unless it is over already
                is_over = cells[Cell.STARTED_NS] + first_ns <= time.monotonic_ns()
                cells[Cell.FIRST_BEAT_LIMIT_NS] = NEVER if is_over else first_ns

    def _speaker(self) -> Speaker:
        raise NotImplementedError("the session says who speaks")


def as_ns(limit_s: float | None) -> int:
    """Seconds as nanoseconds; what is no positive number means no limit."""
    if limit_s is None:
        return 0
    try:
        return cell_value(int(limit_s * NS_PER_S))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return 0
