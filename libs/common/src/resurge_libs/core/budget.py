"""The restart budget of a job. Pure: what was spent and refunded comes from the journal."""

from __future__ import annotations

from dataclasses import dataclass


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
