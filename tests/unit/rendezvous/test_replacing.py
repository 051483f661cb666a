"""Fresh processes in the places of lost ranks: granted against the budget, refused with a reason, remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core import codec
from resurge_libs.core.budget import RestartRules
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.model import Job, NodePhase
from resurge_rendezvous.core.muster_values import MusterKind, MusterReport
from resurge_rendezvous.core.replaced import REPLACED_MAX
from resurge_rendezvous.core.replacement_values import ObservedReplacement, ReplacementStage, Replacing
from resurge_rendezvous.export import spans_of_replaced
from tests.unit.rendezvous.desk import SPEC, Desk
from tests.unit.rendezvous.test_musters import Two

WHY = Because(Reason.WORKER_SIGNAL, "rank 1 was ended by SIGKILL")
LOST = ObservedReplacement(1, Rank(1), 1, WHY, Wall(5_099.0), ReplacementStage.WANTED, lost_pid=11)


def alone(**spec: object) -> Desk:
    desk = Desk(replace(SPEC, min_nodes=1, max_nodes=1, **spec))
    desk.join("n0", local_world_size=2)
    desk.proven("n0")
    return desk


def tell(desk: Desk, *told: ObservedReplacement, node: str = "n0", **changed: object):
    number = desk.runs[node].generation
    return desk.tell(node, NodePhase.RUNNING, number, replacements=told, **changed)


def test_a_grant_costs_a_restart_and_is_journaled_once():
    desk = alone(max_restarts=2)
    step = tell(desk, LOST)
    fact = step.facts[0]
    assert isinstance(fact, f.RankReplaced) and fact.replaced.rank == 1 and fact.replaced.lost_pid == 11
    assert desk.run_of("n0").replacing == Replacing((1,))
    assert desk.job.restarts_spent == 1
    assert tell(desk, LOST).facts == (), "a repeat is no news"


def test_a_restart_that_it_has_cost_is_not_given_back_at_once_when_the_service_restarts():
    desk = alone(max_restarts=1, restarts=RestartRules(refund_after_s=100.0))
    desk.wait(300.0, ("n0",))
    tell(desk, LOST)
    desk.wait(50.0, ("n0",))
    desk.restart_service()
    desk.hello("n0", infra_rank=0)
    tell(desk, replace(LOST, stage=ReplacementStage.JOINED, settled_at=Wall(5_402.0)))
    desk.wait(40.0, ("n0",))
    assert (desk.job.restarts_spent, desk.job.refunded) == (1, 0), "healthy since the loss only"
    desk.wait(20.0, ("n0",))
    assert desk.job.refunded == 1


@pytest.mark.parametrize("sentence", ["", "it has not come in time"])
def test_what_became_of_it_is_remembered(sentence: str):
    desk = alone(max_restarts=2)
    tell(desk, LOST)
    stage = ReplacementStage.GIVEN_UP if sentence else ReplacementStage.JOINED
    settled = replace(LOST, stage=stage, pid=12, settled_at=Wall(5_101.0), sentence=sentence)
    assert len(tell(desk, settled).facts) == 1 and tell(desk, settled).facts == ()
    (one,) = desk.job.replaced
    root, decide, spawn = spans_of_replaced(SPEC.job_id, one)
    assert root.attributes["resurge.outcome"] == ("GIVEN_UP" if sentence else "REPLACED_IN_PLACE")
    assert (root.start, decide.end, root.end) == (decide.start, spawn.start, spawn.end)
    assert {decide.parent_id, spawn.parent_id} == {root.span_id}
    assert (one.came, one.sentence, one.pid) == (not sentence, sentence, 12) and one.settled_wall is not None


def test_without_a_restart_left_it_is_refused_and_asks_in_vain():
    desk = alone(max_restarts=1)
    tell(desk, LOST)
    step = tell(desk, replace(LOST, number=2))
    assert step.facts == () and desk.job.restarts_spent == 1
    said = desk.run_of("n0").replacing
    assert (said.granted, said.refused_upto) == ((1,), 2) and "1 of 1 are spent" in said.sentence


def test_those_that_are_still_to_come_are_remembered_however_many_and_charged_once():
    many = REPLACED_MAX + 8
    desk = alone(max_restarts=2 * many)
    asked = [replace(LOST, number=number) for number in range(1, many + 1)]
    tell(desk, *asked)
    assert desk.run_of("n0").replacing.granted == tuple(range(1, many + 1))
    assert tell(desk, *asked).facts == () and desk.job.restarts_spent == many


def test_of_those_that_came_the_newest_are_remembered():
    desk = alone(max_restarts=2 * REPLACED_MAX)
    for number in range(1, REPLACED_MAX + 3):
        came = replace(LOST, number=number, stage=ReplacementStage.JOINED, settled_at=Wall(5_101.0))
        tell(desk, replace(LOST, number=number)), tell(desk, came)
    assert [one.number for one in desk.job.replaced] == list(range(3, REPLACED_MAX + 3))


def test_a_start_in_which_a_fresh_process_takes_part_says_so_to_all():
    t = Two().started()
    t.say("n1", iteration=1, is_running=False, broken="rank 1: gone", can_renew=True)
    t.joined("n0", 1)
    t.say("n1", iteration=1, joined=t.reports["n1"].living, is_anew=True)
    assert t.order("n0").kind is MusterKind.START and t.order("n0").is_anew
    t.follows("n0"), t.follows("n1")
    t.say("n0", iteration=2, is_running=False, broken="rank 0: boom")
    assert t.order("n0").kind is MusterKind.INTERRUPT and t.order("n0").is_anew, "whoever missed the start learns it"


def test_over_several_nodes_it_is_refused_where_one_would_not_understand_the_start():
    t = Two().started()
    t.say("n0", can_renew=True)
    asked = tell(t.desk, LOST, node="n0", muster=t.reports["n0"])
    assert asked.facts == () and "n1" in t.desk.run_of("n0").replacing.sentence
    t.say("n1", can_renew=True)
    granted = tell(t.desk, replace(LOST, number=2), node="n0", muster=t.reports["n0"])
    assert isinstance(granted.facts[0], f.RankReplaced)
    assert t.desk.run_of("n1").replacing == Replacing(), "others are told nothing of it"


def test_while_a_member_has_not_told_of_itself_after_a_restart_of_the_service_nothing_is_decided():
    t = Two().started()
    for node in ("n0", "n1"):
        t.say(node, can_renew=True)
    t.desk.restart_service()
    t.desk.hello("n0", infra_rank=0)
    asked = tell(t.desk, LOST, node="n0", muster=t.reports["n0"])
    assert asked.facts == () and t.desk.run_of("n0").replacing == Replacing(), "neither granted nor refused"
    t.desk.hello("n1", infra_rank=1)
    granted = tell(t.desk, node="n1", muster=t.reports["n1"])
    assert [type(fact) for fact in granted.facts] == [f.RankReplaced]
    assert t.desk.run_of("n0").replacing == Replacing((1,))
    assert tell(t.desk, LOST, node="n0", muster=t.reports["n0"]).facts == ()


def test_a_member_that_knows_of_no_fresh_process_has_it_refused_when_it_tells_of_itself_after_a_restart():
    t = Two().started()
    t.say("n0", can_renew=True)
    t.desk.restart_service()
    t.desk.hello("n0", infra_rank=0)
    tell(t.desk, LOST, node="n0", muster=t.reports["n0"])
    t.desk.hello("n1", infra_rank=1)
    assert tell(t.desk, node="n1", muster=t.reports["n1"]).facts == ()
    said = t.desk.run_of("n0").replacing
    assert said.refused_upto == 1 and "n1" in said.sentence


def test_a_launcher_that_follows_no_such_orders_keeps_all_of_several_nodes_from_restarting_in_place():
    desk = Desk()
    desk.join("n0", local_world_size=1)
    desk.join("n1", local_world_size=1, in_place_version=0)
    desk.proven("n0", "n1")
    run = desk.run_of("n0")
    assert run.muster is None and "the launcher of n1 is of a version" in run.in_place_refusal
    desk.tell("n1", NodePhase.RUNNING, run.generation, muster=MusterReport())
    assert desk.run_of("n0").muster is None


def test_one_that_is_not_of_the_generation_does_not():
    desk = Desk()
    desk.join("n0", "n1", local_world_size=1)
    desk.join("n2", local_world_size=1, in_place_version=0)
    desk.proven("n0", "n1")
    assert desk.run_of("n0").muster is not None and not desk.run_of("n0").in_place_refusal


def test_a_state_of_an_earlier_release_knows_of_none():
    text = codec.encode(alone().job)
    assert b',"replaced":[]' in text
    text = text.replace(b',"replaced":[]', b"")
    assert codec.decode(Job, text).replaced == ()
