"""The policy simulator: a small trace by hand, the same answer twice, and traces that cannot be used."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from resurge_libs.core.ledger import Doing
from resurge_restart_policy.simulate.__main__ import main
from resurge_restart_policy.simulate.policies import (
    POLICIES,
    Offence,
    exclude_at_once,
    exclude_hardware,
    exclude_repeaters,
    in_place,
)
from resurge_restart_policy.simulate.trace import DAY_S, TracedFault, TraceProblem, faults_of, read_trace
from resurge_restart_policy.simulate.world import Setup, simulate

REAL = Path(__file__).parents[4] / "shared" / "data" / "infinitehbd" / "fault_trace.json"
SMALL = Setup(nodes=3, active=2, repair_least_s=0.0, excluded_share_max=1.0)
HOUR_S = 3_600.0


def fault(node: str, start_h: float, end_h: float, level: str = "Hardware Failure") -> TracedFault:
    return TracedFault(node, start_h * HOUR_S, end_h * HOUR_S, level, "GPU: xid")


def event(kind: str, at: float, **changes):
    return {
        "node_id": "a", "event_time": at, "event_type": kind,
        "fault_type": {"Level": "Hardware Failure", "Class": "GPU", "Desc": "x"}, **changes,
    }  # fmt: skip


def test_one_excluded_node_costs_one_recovery_and_its_lost_steps():
    setup = Setup(nodes=2, active=1, repair_least_s=0.0, excluded_share_max=1.0)
    outcomes = [simulate("x", exclude_at_once, [fault("a", 1, 5)], setup, seed) for seed in range(10)]
    assert {outcome.restarts for outcome in outcomes} == {0, 1}, "the faulty node trains in some, is a spare in others"
    started_s = setup.rendezvous_s + setup.start_s + setup.restore_s
    committed = int((HOUR_S - started_s) / setup.step_s)
    for outcome in outcomes:
        hit = outcome.restarts
        assert outcome.exclusions == hit
        assert outcome.ledger.lost_steps == hit * (committed % setup.checkpoint_steps)
        assert outcome.ledger.of(Doing.START) == (1 + hit) * setup.start_s
        assert outcome.ledger.wall_s == pytest.approx(5 * HOUR_S)


def test_a_job_with_no_spare_waits_until_the_node_is_repaired():
    tight = Setup(nodes=1, active=1, repair_least_s=0.0, excluded_share_max=1.0)
    outcome = simulate("x", exclude_at_once, [fault("a", 1, 3), fault("a", 10, 11)], tight, seed=1)
    assert (outcome.restarts, outcome.exclusions) == (2, 2)
    waited_s = 2 * HOUR_S - tight.detection_s - tight.teardown_s + HOUR_S - tight.detection_s - tight.teardown_s
    assert outcome.ledger.of(Doing.WAITING) == pytest.approx(waited_s)


def test_in_place_fails_again_while_the_node_is_faulty():
    tight = Setup(nodes=1, active=1, refail_mean_s=60.0)
    outcome = simulate("x", in_place, [fault("a", 1, 3)], tight, seed=1)
    assert outcome.restarts > 5
    assert outcome.exclusions == 0


def test_no_more_than_a_share_of_the_nodes_is_excluded_at_a_time():
    held = Setup(nodes=4, active=2, excluded_share_max=0.25)
    faults = [fault(name, 1 + n, 50) for n, name in enumerate("abcd")]
    outcome = simulate("x", exclude_at_once, faults, held, seed=3)
    assert outcome.exclusions == 1
    assert outcome.refused_exclusions >= 1


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_seed_gives_the_same_outcome_and_all_time_is_in_an_account(name):
    kinds = [("a", "Hardware Failure"), ("b", "Other Failure"), ("a", "Other Failure"), ("c", "Software Failure")]
    faults = [fault(node, at, at + 3, level) for at, (node, level) in enumerate(kinds)]
    once, again = (simulate(name, POLICIES[name], faults, SMALL, seed=7) for _ in range(2))
    assert once == again
    ledger = once.ledger
    others = sum(ledger.of(doing) for doing in Doing if doing is not Doing.TRAINING)
    assert ledger.productive_s + ledger.lost_s + others == pytest.approx(ledger.wall_s, rel=1e-6)


def test_policies_say_what_their_names_say():
    soft, hard = Offence("a", DAY_S, False, ()), Offence("a", DAY_S, True, ())
    assert [exclude_hardware(soft), exclude_hardware(hard)] == [False, True]
    assert not exclude_repeaters(Offence("a", DAY_S, True, (1.0,)))
    assert exclude_repeaters(Offence("a", DAY_S, True, (1.0, 2.0)))
    assert not exclude_repeaters(Offence("a", 3 * DAY_S, True, (1.0, 2.0)))


def test_a_fault_that_never_ends_lasts_to_the_end_of_the_trace():
    faults = faults_of([event("fault_start", 1.0), event("fault_start", 2.0, node_id="b"), event("fault_end", 3.0)])
    assert [(f.node, f.end_s / DAY_S) for f in faults] == [("a", 3.0), ("b", 3.0)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no list of events"),
        (json.dumps([event("fault_start", -1.0)]), "event 0: event_time"),
        (json.dumps([event("fault_start", 1.0, node_id=3)]), "node_id"),
        (json.dumps([event("began", 1.0)]), "event_type"),
        (json.dumps([event("fault_start", True)]), "event_time"),
        (json.dumps([event("fault_start", 1.0, fault_type="GPU")]), "fault_type"),
    ],
)
def test_a_trace_that_cannot_be_used_is_named_with_its_event(tmp_path, capsys, content, said):
    path = tmp_path / "trace.json"
    path.write_text(content)
    with pytest.raises(TraceProblem, match=re.escape(said)):
        read_trace(path)
    assert main([str(path)]) == 2
    assert said in capsys.readouterr().err


def test_bad_settings_are_named(tmp_path, capsys):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([event("fault_start", 1.0), event("fault_end", 2.0)]))
    for words, said in (
        (["--policies", "best"], "best"), (["--active", "300"], "active"), (["--step-s", "0"], "step_s"),
        (["--nodes", "0"], "nodes"),
    ):  # fmt: skip
        assert main([str(path), *words]) == 2
        assert said in capsys.readouterr().err


def test_a_real_trace_of_231_nodes_tells_policies_apart(capsys):
    if not REAL.exists():
        pytest.skip(f"the real failure trace is not at {REAL.name} beside the checkout")
    policies = "exclude-at-once,exclude-repeaters,hardware-or-repeaters"
    assert main([str(REAL), "--policies", policies]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["faults"] == 584
    goodput = {name: figures["goodput"] for name, figures in told["policies"].items()}
    assert goodput["exclude-at-once"] > goodput["hardware-or-repeaters"] > goodput["exclude-repeaters"] > 0.9
