"""The restart budget of a job. Pure: what was spent and refunded comes from the journal."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.backoff import BackoffRules
from resurge_libs.core.fault_cause import FaultCause


@dataclass(frozen=True, slots=True)
class Budget:
    """Restarts allowed, spent and given back."""

    max_restarts: int
    spent: int = 0
    refunded: int = 0

    def __post_init__(self) -> None:
        for name in ("max_restarts", "spent", "refunded"):
            if getattr(self, name) < 0:
                raise ValueError(f"budget: {name} must not be negative, got {getattr(self, name)}")
        if self.refunded > self.spent:
            raise ValueError(f"budget: refunded ({self.refunded}) exceeds spent ({self.spent})")

    @property
    def left(self) -> int:
        """Restarts that may still be charged; never negative."""
        return max(0, self.max_restarts + self.refunded - self.spent)

    @property
    def is_exhausted(self) -> bool:
        """Whether one more restart would exceed what was allowed and refunded."""
        return self.left == 0

    def charged(self) -> Budget:
        """The budget after one more restart. Raises ValueError when none is left."""
        if self.is_exhausted:
            raise ValueError(
                f"budget: {self.spent} spent of {self.max_restarts} (+{self.refunded} refunded), none left"
            )
        return Budget(self.max_restarts, self.spent + 1, self.refunded)

    def given_back(self, count: int = 1) -> Budget:
        """The budget after a refund, which is never more than was spent."""
        return Budget(self.max_restarts, self.spent, min(self.spent, self.refunded + count))


@dataclass(frozen=True, slots=True)
class CauseBudget:
    """What is allowed and spent for one cause, beside the budget of the whole job. What was given back is not spent."""

    cause: FaultCause
    allowed: int
    spent: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether one more restart for this cause would exceed what was allowed for it."""
        return self.spent >= self.allowed


@dataclass(frozen=True, slots=True)
class RestartRules:
    """How a job wants its restarts bounded beyond their number; the same on all its nodes."""

    by_cause: tuple[tuple[FaultCause, int], ...] = ()
    """Restarts allowed for a cause; a cause that is not named has no bound of its own."""
    refund_after_s: float = 0.0
    """After so long without a fault one restart is given back, and again after each further such time; 0: never."""
    backoff: BackoffRules | None = None
    """None: as the policy is set up."""

    def allowed_for(self, cause: FaultCause) -> int | None:
        """The bound of one cause; None where it has none."""
        return dict(self.by_cause).get(cause)

    def __str__(self) -> str:
        bounds = ",".join(f"{cause}={count}" for cause, count in self.by_cause) or "no cause bounded"
        backoff = "the policy's backoff" if self.backoff is None else str(self.backoff)
        return f"{bounds}, given back after {self.refund_after_s:g} s, {backoff}"
