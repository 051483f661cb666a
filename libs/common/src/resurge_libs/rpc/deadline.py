"""How long a call may still take. A deadline only shrinks on its way from caller to callee to callee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from resurge_libs.core.instant import Instant

RESERVE_S = 0.02
"""Kept back of the caller's time for our own answer."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant on this process's clock by which an answer must be there."""

    at: Instant

    @classmethod
    def within(cls, limit_s: float, now: Instant) -> Deadline:
        """A deadline `limit_s` seconds from now."""
        return cls(Instant(now + limit_s))

    @classmethod
    def of_call(cls, context: Any, now: Instant, limit_s: float) -> Deadline:
        """The deadline of the call being served: what is left of the caller's, less our reserve, and at most `limit_s`.

        `context` is a gRPC servicer context.
        """
        left_s = context.time_remaining()
        return cls.within(limit_s if left_s is None else min(limit_s, max(0.0, left_s - RESERVE_S)), now)

    def left_s(self, now: Instant) -> float:
        """Seconds left; 0 when it is over."""
        return max(0.0, self.at - now)

    def shrunk_to(self, limit_s: float, now: Instant) -> Deadline:
        """The deadline of a call made on behalf of this one: never later than this one."""
        return Deadline(min(self.at, Instant(now + limit_s)))

    def is_over(self, now: Instant) -> bool:
        """Whether no time is left."""
        return now >= self.at
