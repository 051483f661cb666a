"""A promise that is valid until an instant. Pure; never stored: instants die with their process."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.instant import Instant
from resurge_libs.core.values import quick


@quick
@dataclass(frozen=True, slots=True)
class Lease:
    """Valid until `until`, on the clock of the process that holds this value."""

    until: Instant

    @classmethod
    def starting(cls, at: Instant, ttl_s: float) -> Lease:
        """A lease of `ttl_s` seconds from `at`."""
        return Lease(Instant(at + ttl_s))

    def extended_by(self, more_s: float) -> Lease:
        """The lease with time added, as after a pause of the service itself."""
        return Lease(Instant(self.until + more_s))

    def renewed(self, at: Instant, ttl_s: float) -> Lease:
        """The lease after a beat at `at`; a late old beat never shortens it."""
        return Lease(max(self.until, Instant(at + ttl_s)))

    def shortened_to(self, until: Instant) -> Lease:
        """The lease that ends at `until` at the latest."""
        return Lease(min(self.until, until))

    def expired(self, at: Instant) -> bool:
        """Whether the promise is over at the given instant."""
        return at >= self.until

    def left_s(self, at: Instant) -> float:
        """Seconds until it is over; 0 when it is."""
        return max(0.0, self.until - at)
