"""S3, counted a second time: restarts, what was given back, and what single causes may have."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from resurge_rendezvous.core import model as rm

if TYPE_CHECKING:
    from tests.sim.oracle import Oracle

CLOCK_GRACE_S = 0.05


class BudgetOracle:
    """What was spent and given back, by attempt."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.restarts: Counter[int] = Counter()
        self.refunds: Counter[int] = Counter()

    def check(self, live: rm.Job) -> None:
        """What must hold of every durable state."""
        if live.spec is None:
            return
        allowed = live.spec.max_restarts + live.refunded
        if live.restarts_spent > allowed:
            self._oracle.fail("S3", f"{live.restarts_spent} restarts charged of {allowed}")
        if live.refunded > live.restarts_spent:
            self._oracle.fail("S3", f"{live.refunded} restarts given back of {live.restarts_spent}")
        for cause, bound in live.spec.restarts.by_cause:
            if live.spent_on(cause) > bound:
                self._oracle.fail("S3", f"{live.spent_on(cause)} restarts charged to {cause} of {bound}")
        if self._oracle.journal_was_lost:
            return
        if live.refunded != self.refunds[int(live.attempt)]:
            self._oracle.fail(
                "S3", f"{live.refunded} restarts count as given back, {self.refunds[int(live.attempt)]} were"
            )
        if self.restarts[int(live.attempt)] > allowed:
            self._oracle.fail("S3", f"{self.restarts[int(live.attempt)]} restarts happened of {allowed}")

    def refunded(self, at: float, live: rm.Job) -> None:
        """A restart is given back only to a generation that was healthy for the whole period."""
        self.refunds[int(live.attempt)] += 1
        assert live.spec is not None
        period_s = live.spec.restarts.refund_after_s
        if not isinstance(live.stage, rm.Running) or period_s <= 0:
            self._oracle.fail("S3", f"a restart is given back in stage {type(live.stage).__name__}")
        elif at - live.stage.formation.closed_wall < period_s - CLOCK_GRACE_S:
            healthy_s = at - live.stage.formation.closed_wall
            self._oracle.fail("S3", f"a restart is given back after {healthy_s:.1f} s of {period_s:g}")
