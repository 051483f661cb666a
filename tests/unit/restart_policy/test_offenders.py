"""Machines that keep failing are left out, unless too few would be left or the fault follows the rank."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.config.settings import UsageProblem
from resurge_libs.core.budget import CauseBudget
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import Generation, NodeId, Rank
from resurge_libs.core.offenders import CulpritView, OffenceView, OffenderRules
from resurge_libs.core.reasons import Reason
from resurge_libs.core.repeat_offenders import POLICY_ORDER
from resurge_libs.core.verdict import VerdictKind
from resurge_restart_policy.core.rules import ORDER
from resurge_restart_policy.core.step import decide, explain
from resurge_restart_policy.settings import PolicySettings
from tests.unit.restart_policy.test_rules import LATCHED, PLAIN, RULES, SPENT

N1 = NodeId("n1")


def offence(generation: int, code: Reason = Reason.WORKER_SIGNAL, elsewhere: bool = False, rank: int = 5):
    return OffenceView(NodeId("n0") if elsewhere else N1, Generation(generation), code, Rank(rank), elsewhere)


CULPRIT = CulpritView(N1, Reason.WORKER_SIGNAL, Rank(5), 2, True, (offence(3), offence(6)))
THIRD = replace(PLAIN, culprit=CULPRIT)


def culprit(**changes) -> object:
    return replace(PLAIN, culprit=replace(CULPRIT, **changes))


def test_the_third_fault_within_ten_cycles_excludes_the_machine():
    told = explain(THIRD, RULES)
    assert told.deciding_rule == "repeat_offender"
    assert (told.verdict.kind, told.verdict.excluded) == (VerdictKind.RESTART_EXCLUDING, {N1})
    assert told.verdict.because.code is Reason.REPEAT_OFFENDER
    assert told.verdict.because.sentence.startswith("3 faults within 10 cycles began on n1; rank 5 on n1: ended by")
    assert told.verdict.restarts_left == 2, "it is a restart, and charged as one"


def test_without_the_machine_too_few_nodes_would_be_left_so_it_stays_and_that_is_said():
    told = explain(culprit(nodes_left=1, is_enough=False), RULES)
    assert told.deciding_rule == "exclusion_leaves_too_few"
    assert (told.verdict.kind, told.verdict.excluded, told.verdict.would_exclude) == (VerdictKind.RESTART, set(), {N1})
    assert "is kept: without it 1 nodes are left, and 2 must run" in told.verdict.because.sentence


@pytest.mark.parametrize("enough", [True, False])
@pytest.mark.parametrize(("given", "rule"), [(LATCHED, "no_restart_latched"), (SPENT, "budget")])
def test_what_forbids_a_restart_forbids_it_without_the_machine_too(enough: bool, given, rule: str):
    view = replace(THIRD, culprit=replace(CULPRIT, is_enough=enough), **given)
    assert explain(view, RULES).deciding_rule == rule


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (PLAIN, "not known"),
        (culprit(offences=(offence(6),)), "n1 began 2 of 3 faults within 10 cycles"),
        (culprit(offences=(offence(6), offence(int(PLAIN.generation)))), "n1 began 2 of 3 faults within 10 cycles"),
        (culprit(code=Reason.WORKER_EXIT), "WORKER_EXIT is not held against a machine"),
        (culprit(code=Reason.WORKER_HUNG), "WORKER_HUNG is not held"),
        (culprit(offences=(offence(3, Reason.WORKER_EXIT), offence(6))), "2 of 3"),
        (
            culprit(offences=(offence(1, elsewhere=True), offence(2, elsewhere=True), offence(4), offence(6))),
            "rank 5 failed in the same way on n0, which was excluded for it",
        ),
    ],
)
def test_who_is_not_to_blame_stays(view, why: str):
    told = explain(view, RULES)
    assert (told.verdict.kind, told.deciding_rule) == (VerdictKind.RESTART, "restart")
    assert told.verdict.would_exclude == frozenset()
    said = {outcome.rule: outcome.because.sentence for outcome in told.outcomes}
    assert why in said["repeat_offender"]


def test_another_rank_on_an_excluded_machine_shields_nobody():
    view = culprit(offences=(offence(1, elsewhere=True, rank=4), offence(2, elsewhere=True), offence(4), offence(6)))
    assert decide(view, RULES).kind is VerdictKind.RESTART_EXCLUDING


@pytest.mark.parametrize(("cycles", "kind"), [(5, VerdictKind.RESTART_EXCLUDING), (4, VerdictKind.RESTART)])
def test_older_cycles_do_not_count(cycles: int, kind: VerdictKind):
    rules = replace(RULES, offenders=OffenderRules(3, cycles))
    assert decide(THIRD, rules).kind is kind  # generation 7: the fault in 3 is the fifth of the last five cycles


def test_nobody_is_excluded_where_that_is_switched_off():
    rules = replace(RULES, offenders=OffenderRules(0, 10))
    assert "policy.offender_faults is 0" in explain(THIRD, rules).outcomes[-2].because.sentence
    assert decide(THIRD, rules).kind is VerdictKind.RESTART


def test_a_kept_machine_gets_no_restart_that_its_cause_has_spent():
    view = replace(culprit(nodes_left=1, is_enough=False), cause_budget=CauseBudget(FaultCause.SIGNAL, 1, 1))
    assert explain(view, RULES).deciding_rule == "budget_of_cause"


def test_a_record_replays_without_the_policy_by_the_policys_own_rules():
    assert tuple(rule.judge for rule in ORDER) == POLICY_ORDER


def test_one_fault_is_enough_where_that_is_wanted():
    rules = replace(RULES, offenders=OffenderRules(1, 10))
    assert decide(culprit(offences=()), rules).kind is VerdictKind.RESTART_EXCLUDING
    assert decide(culprit(offences=(offence(6, elsewhere=True),)), rules).kind is VerdictKind.RESTART


def test_settings_that_can_never_hold_are_refused():
    assert PolicySettings(offender_faults=2, offender_cycles=4).rules().offenders == OffenderRules(2, 4)
    with pytest.raises(UsageProblem, match="5 faults never happen within 4 cycles"):
        PolicySettings(offender_faults=5, offender_cycles=4).rules()
