"""Decides what to do about one incident: the first rule that answers wins.

The rules, in order: a job that already succeeded shuts down with success; a requested shutdown is carried out; a
latched verdict against a restart stops; too many cycles without progress stop; a machine that keeps failing is kept,
and the verdict says so, when without it too few nodes would be left; an exhausted budget stops; a machine that keeps
failing is left out of the restart; otherwise restart, after a wait when the job keeps failing fast. The same incident
gives the same verdict, always: nothing is remembered between two calls. Explaining replays the decision.
"""

from __future__ import annotations

from resurge_libs.core.named_rules import NamedRule
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_libs.core.verdict import SOURCE_POLICY, IncidentView, Verdict, VerdictRules, default_verdict
from resurge_restart_policy.core.model import Explanation, RuleOutcome
from resurge_restart_policy.core.rules import ORDER


def decide(view: IncidentView, rules: VerdictRules, order: tuple[NamedRule, ...] = ORDER) -> Verdict:
    """The verdict on one incident, under the policy's own name."""
    verdict = default_verdict(view, rules, tuple(rule.judge for rule in order))
    return replace(verdict, source=SOURCE_POLICY)


def explain(view: IncidentView, rules: VerdictRules, order: tuple[NamedRule, ...] = ORDER) -> Explanation:
    """The verdict on one incident with the word of every rule: passed over, decided, or not asked."""
    outcomes: list[RuleOutcome] = []
    decided_by: str | None = None
    for rule in order:
        if decided_by is not None:
            because = Because(Reason.RULE_NOT_ASKED, f"{decided_by} had decided")
            outcomes.append(RuleOutcome(rule.name, False, because))
            continue
        verdict = rule.judge(view, rules)
        if verdict is None:
            outcomes.append(
                RuleOutcome(rule.name, False, Because(Reason.RULE_PASSED_OVER, rule.passed_over(view, rules)))
            )
        else:
            decided_by = rule.name
            outcomes.append(RuleOutcome(rule.name, True, verdict.because))
    return Explanation(view, decide(view, rules, order), tuple(outcomes))
