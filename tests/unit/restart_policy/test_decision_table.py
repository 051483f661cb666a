"""The decision table of the policy: every state of an incident has exactly one entry, and gets its verdict.

The policy remembers nothing, so that what it is given is its whole state; asking it is its one event.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from resurge_libs.core.budget import CauseBudget
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import Generation, NodeId, Rank
from resurge_libs.core.offenders import CulpritView, OffenceView
from resurge_libs.core.progress import ProgressCheck, ProgressRules, ProgressSource
from resurge_libs.core.reasons import Reason
from resurge_libs.core.verdict import SOURCE_POLICY, IncidentView, default_verdict
from resurge_restart_policy.core.rules import ORDER
from resurge_restart_policy.core.step import decide, explain
from tests.unit.restart_policy.test_rules import LATCHED, PLAIN, RULES, SHUTDOWN, SPENT, SUCCEEDED

TRACKED = ProgressCheck(ProgressRules(ProgressSource.MARKER, 1, 3), baseline=10, without_progress=2)
N1 = NodeId("n1")


def offences(elsewhere: bool = False) -> tuple[OffenceView, ...]:
    node = NodeId("n0") if elsewhere else N1
    return tuple(OffenceView(node, Generation(g), Reason.WORKER_SIGNAL, Rank(5), elsewhere) for g in (4, 5))


REPEATED = CulpritView(N1, Reason.WORKER_SIGNAL, Rank(5), 2, True, offences())
PARTS: dict[str, dict[str, dict[str, object]]] = {
    "succeeded": {"no": {}, "yes": SUCCEEDED},
    "shutdown": {"no": {}, "yes": SHUTDOWN},
    "latched": {"no": {}, "yes": LATCHED},
    "progress": {
        "untracked": {},
        "advances": {"progress": replace(TRACKED, value=11)},
        "skipped": {"progress": replace(TRACKED, skipped="is empty")},
        "stuck": {"progress": replace(TRACKED, without_progress=0, value=10)},
        "exhausted": {"progress": replace(TRACKED, value=10)},
    },
    "machine": {
        "none": {},
        "first": {"culprit": replace(REPEATED, offences=())},
        "follows": {"culprit": replace(REPEATED, offences=(*offences(), *offences(elsewhere=True)))},
        "repeats": {"culprit": REPEATED},
        "needed": {"culprit": replace(REPEATED, nodes_left=1, is_enough=False)},
    },
    "budget": {"left": {}, "spent": SPENT},
    "cause": {
        "unbounded": {},
        "left": {"cause_budget": CauseBudget(FaultCause.HARDWARE, 2, 1)},
        "spent": {"cause_budget": CauseBudget(FaultCause.HARDWARE, 2, 2)},
    },
}
TABLE = """
succeeded shutdown latched progress   machine            budget cause  rule                     verdict           code
yes       -        -       -          -                  -      -      job_already_succeeded    SHUTDOWN          0
no        yes      -       -          -                  -      -      shutdown_requested       SHUTDOWN          0
no        no       yes     -          -                  -      -      no_restart_latched       STOP              93
no        no       no      exhausted  -                  -      -      no_progress              STOP              93
no        no       no      !exhausted -                  spent  -      budget                   STOP              1
no        no       no      !exhausted -                  left   spent  budget_of_cause          STOP              1
no        no       no      !exhausted needed             left   !spent exclusion_leaves_too_few RESTART           0
no        no       no      !exhausted repeats            left   !spent repeat_offender          RESTART_EXCLUDING 0
no        no       no      !exhausted none|first|follows left   !spent restart                  RESTART           0
"""
NAMES, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
STATES = [dict(zip(PARTS, choice, strict=True)) for choice in product(*PARTS.values())]


def fits(row: list[str], state: dict[str, str]) -> bool:
    return all(_allows(cell, state[name]) for name, cell in zip(NAMES, row, strict=False) if name in state)


def _allows(cell: str, value: str) -> bool:
    return cell == "-" or (value != cell[1:] if cell.startswith("!") else value in cell.split("|"))


def view_of(state: dict[str, str]) -> IncidentView:
    changes = {key: value for name, choice in state.items() for key, value in PARTS[name][choice].items()}
    return replace(PLAIN, **changes)


def test_every_rule_stands_in_the_table_in_the_order_of_precedence():
    named = [row[NAMES.index("rule")] for row in ROWS]
    assert sorted(named) == sorted(rule.name for rule in ORDER)


@pytest.mark.parametrize("state", STATES, ids=lambda state: "-".join(state.values()))
def test_every_state_has_one_entry_and_gets_its_verdict(state: dict[str, str]):
    matching = [row for row in ROWS if fits(row, state)]
    assert len(matching) == 1, f"{state} has {len(matching)} entries"
    (row,) = matching
    rule, kind, code = row[len(PARTS) :]
    told = explain(view_of(state), RULES)
    found = (told.deciding_rule, told.verdict.kind.value, told.verdict.exit_code)
    assert found == (rule, kind, int(code))
    assert told.verdict == decide(view_of(state), RULES), "explaining replays the decision"
    assert told.verdict.restarts_left == max(0, 3 - view_of(state).restarts_spent - told.verdict.is_restart)
    if state["machine"] in ("none", "first", "follows"):  # what the stand-in knows nothing of
        assert replace(default_verdict(view_of(state), RULES), source=SOURCE_POLICY) == told.verdict
