"""The values of the policy's decisions. Frozen; they decide nothing and have no effects."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.reasons import Because
from resurge_libs.core.verdict import IncidentView, Verdict


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """One rule's word on one incident."""

    rule: str
    decided: bool
    because: Because


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict with the word of every rule, in order of precedence."""

    view: IncidentView
    verdict: Verdict
    outcomes: tuple[RuleOutcome, ...]

    @property
    def deciding_rule(self) -> str:
        """The name of the rule that decided."""
        return next(outcome.rule for outcome in self.outcomes if outcome.decided)
