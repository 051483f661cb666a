"""How long to wait before restarting a job that keeps failing fast. Pure: the jitter comes in an event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackoffRules:
    """Which failures count as fast, and how the delay grows over them."""

    fast_failure_s: float = 30.0
    """A failure this soon after the one before it continues a crash loop."""
    free_failures: int = 1
    """So many fast failures in a row still restart at once."""
    first_delay_s: float = 0.5
    factor: float = 2.0
    max_delay_s: float = 30.0
    jitter_share: float = 0.2
    """The delay is shortened by up to this share of itself."""

    def __post_init__(self) -> None:
        if self.first_delay_s < 0 or self.max_delay_s < self.first_delay_s:
            raise ValueError(
                f"backoff: max_delay_s ({self.max_delay_s}) must be at least first_delay_s ({self.first_delay_s}) >= 0"
            )
        if self.factor < 1.0:
            raise ValueError(f"backoff: factor ({self.factor}) must be at least 1")
        if not 0.0 <= self.jitter_share <= 1.0:
            raise ValueError(f"backoff: jitter_share ({self.jitter_share}) must be within 0 and 1")
        if self.free_failures < 0:
            raise ValueError(f"backoff: free_failures ({self.free_failures}) must not be negative")


def consecutive_fast_failures(failure_ages_s: Sequence[float], rules: BackoffRules) -> int:
    """How many failures in a row, counted back from now, followed their predecessor fast.

    `failure_ages_s` holds the ages of earlier failures, youngest first; the present one is not among them.
    """
    count, younger_s = 0, 0.0
    for age_s in failure_ages_s:
        if age_s - younger_s > rules.fast_failure_s:
            break
        count, younger_s = count + 1, age_s
    return count


def delay_s(fast_failures: int, jitter: float, rules: BackoffRules) -> float:
    """Seconds to wait before the next start, after so many fast failures in a row; jitter in [0, 1)."""
    if not 0.0 <= jitter < 1.0:
        raise ValueError(f"jitter must be in [0, 1), not {jitter}")
    beyond = fast_failures - rules.free_failures
    if beyond <= 0:
        return 0.0
    # the exponent is bounded, so that a long crash loop cannot overflow the float
    full_s = min(rules.max_delay_s, rules.first_delay_s * rules.factor ** min(beyond - 1, 64))
    return full_s * (1.0 - rules.jitter_share * jitter)
