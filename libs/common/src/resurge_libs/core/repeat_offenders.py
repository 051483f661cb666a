"""Machines that are to blame for fault after fault: when one is to go, and when it is kept all the same. Pure.

The machine on which the present round's faults began goes when it did so `faults` times within `cycles` cycles. It is
kept when too few nodes would be left, and when the same rank had failed so on a machine that was excluded before: then
the fault follows the rank, which is the application's.
"""

from __future__ import annotations

from resurge_libs.core.offenders import OFFENCES, CulpritView, OffenceView
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.values import replace
from resurge_libs.core.verdict import (
    IncidentView,
    Verdict,
    VerdictKind,
    VerdictRule,
    VerdictRules,
    budget_is_exhausted,
    budget_of_cause_is_exhausted,
    job_already_succeeded,
    no_progress,
    no_restart_is_latched,
    restart,
    shutdown_was_requested,
)


def exclusion_leaves_too_few(view: IncidentView, rules: VerdictRules) -> Verdict | None:
    """A machine that is to go stays when no round could be formed without it; the verdict says so."""
    culprit = view.culprit
    if culprit is None or culprit.is_enough or why_kept(view, rules) is not None:
        return None
    if any(spent(view, rules) is not None for spent in (budget_is_exhausted, budget_of_cause_is_exhausted)):
        return None  # there is no restart to be had: a rule further down says so
    sentence = (
        f"{told(view, culprit, rules)}, and is kept: without it {culprit.nodes_left} nodes are left, and "
        f"{view.min_nodes} must run"
    )
    again = restart(view, rules)
    because = Because(again.because.code, f"{sentence}; {again.because.sentence}")
    return replace(again, because=because, would_exclude=frozenset({culprit.node}))


def repeat_offender(view: IncidentView, rules: VerdictRules) -> Verdict | None:
    """Restart without the machine that keeps failing."""
    culprit = view.culprit
    if culprit is None or why_kept(view, rules) is not None:
        return None
    again = restart(view, rules)
    because = Because(Reason.REPEAT_OFFENDER, f"{told(view, culprit, rules)}; {again.because.sentence}")
    return replace(again, kind=VerdictKind.RESTART_EXCLUDING, because=because, excluded=frozenset({culprit.node}))


def why_kept(view: IncidentView, rules: VerdictRules) -> str | None:
    """Why nothing is held against the culprit's machine yet; None where it is to go."""
    culprit, wanted = view.culprit, rules.offenders
    if culprit is None:
        return "the machine on which it began is not known"
    if wanted.faults == 0:
        return "no machine is excluded for its faults: policy.offender_faults is 0"
    if culprit.code not in OFFENCES:
        return f"{culprit.code} is not held against a machine"
    counted = 1 + len(_recent(view, culprit, rules, elsewhere=False))
    if counted < wanted.faults:
        return f"{culprit.node} began {counted} of {wanted.faults} faults within {wanted.cycles} cycles"
    follows = [one for one in _recent(view, culprit, rules, elsewhere=True) if _is_alike(one, culprit)]
    if culprit.rank is not None and len(follows) >= max(1, wanted.faults - 1):
        return f"rank {culprit.rank} failed in the same way on {follows[-1].node}, which was excluded for it"
    return None


def kept_sentence(view: IncidentView, rules: VerdictRules) -> str:
    """What the rules say of the culprit's machine when they leave it where it is."""
    return why_kept(view, rules) or f"{view.nodes_available} nodes could take part, and {view.min_nodes} must run"


def told(view: IncidentView, culprit: CulpritView, rules: VerdictRules) -> str:
    """What is held against a machine, in one clause."""
    counted = 1 + len(_recent(view, culprit, rules, elsewhere=False))
    return f"{counted} faults within {rules.offenders.cycles} cycles began on {culprit.node}"


def _recent(view: IncidentView, culprit: CulpritView, rules: VerdictRules, *, elsewhere: bool) -> list[OffenceView]:
    since = view.generation - rules.offenders.cycles
    return [
        one
        for one in culprit.offences
        if one.elsewhere is elsewhere and one.code in OFFENCES and since < one.generation < view.generation
    ]


def _is_alike(one: OffenceView, culprit: CulpritView) -> bool:
    return one.rank == culprit.rank and one.code is culprit.code


POLICY_ORDER: tuple[VerdictRule, ...] = (
    job_already_succeeded,
    shutdown_was_requested,
    no_restart_is_latched,
    no_progress,
    exclusion_leaves_too_few,
    budget_is_exhausted,
    budget_of_cause_is_exhausted,
    repeat_offender,
    restart,
)
"""The rules that the policy service asks, in its order."""
