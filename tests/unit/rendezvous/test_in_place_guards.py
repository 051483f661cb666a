"""Guards of restarts in place that no other test would miss: each fails when one condition of a rule is taken out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.budget import RestartRules
from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.verdict import Verdict, VerdictKind
from resurge_rendezvous.core.model import Draining, ExitRecord, NodePhase
from resurge_rendezvous.core.muster_values import MusterKind, MusterReport
from resurge_rendezvous.core.replaced import REPLACED_MAX
from resurge_rendezvous.core.replacement_values import ReplacementStage
from tests.unit.rendezvous.desk import Desk, spec
from tests.unit.rendezvous.test_aborts import fires, notice, told
from tests.unit.rendezvous.test_musters import LIMIT_S, Two
from tests.unit.rendezvous.test_replacing import LOST, alone, tell

STOP = Verdict(VerdictKind.STOP, Because(Reason.NO_PROGRESS, "enough"), exit_code=93, source="policy")


def again(d: Desk, *nodes: str) -> None:
    """A fault, and the next generation on the same nodes."""
    d.crash(nodes[-1])
    d.verdict()
    d.now += 1.0
    d.down(*nodes)
    d.proven(*nodes)


# --- gathered


@pytest.mark.parametrize(("node", "generation"), [("n1", 0), ("n2", 1)], ids=["older", "spare"])
def test_a_report_of_an_older_generation_or_of_a_spare_breaks_nothing(node: str, generation: int):
    t = Two().started()
    broken = replace(t.reports["n1"], iteration=1, is_running=False, broken="rank 1: boom")
    t.desk.tell(node, NodePhase.RUNNING, generation, muster=broken)
    assert t.orders()[0][1] is MusterKind.START


def test_the_next_generation_is_gathered_from_the_beginning():
    t = Two().started()
    again(t.desk, "n0", "n1")
    for node in ("n0", "n1"):
        t.reports[node] = replace(t.reports[node], acted=t.order(node))
    t.joined("n0")
    assert t.orders() == [(0, MusterKind.NOTHING, 0, ())]
    t.joined("n1")
    assert t.orders() == [(1, MusterKind.START, 0, t.all)]


def test_when_all_have_finished_nobody_is_missed_for_another_iteration():
    t = Two().started()
    for node in ("n0", "n1"):
        t.say(node, done=1, needed=2)
    over = t.order("n0")
    assert over.kind is MusterKind.OVER
    for node in ("n0", "n1"):
        t.say(node, acted=over, is_running=False, is_over=True, done=0, needed=0)
    for number, node in enumerate(("n0", "n1")):
        ended = (ExitRecord(Rank(number), 0, 1, t.desk.wall, exit_code=0),)
        t.desk.tell(node, NodePhase.FINISHED, 1, exits=ended, muster=t.reports[node])
    assert t.desk.stage == "Ended" and t.desk.job.stage.decision.exit_code == 0


def test_a_node_whose_ranks_go_on_no_more_interrupts_nobody():
    t = Two().started()
    t.say("n1", iteration=1, is_running=False, is_over=True)
    assert t.orders()[0][1] is MusterKind.START


def test_each_rank_that_has_finished_this_iteration_is_counted_once():
    t = Two().started()
    t.say("n0", done=1, needed=2)
    t.say("n0", done=1, needed=2, can_renew=True)
    assert t.orders()[0][1] is MusterKind.START
    t.say("n1", iteration=7, done=1, needed=2)
    assert t.orders()[0][1] is MusterKind.START


def test_the_first_start_is_waited_for_from_the_first_that_has_come():
    t = Two()
    t.joined("n0")
    due = t.desk.state.volatile.timers.muster_at
    t.desk.now += 5.0
    t.say("n0", can_renew=True)
    assert due is not None and t.desk.state.volatile.timers.muster_at == due


def test_a_world_smaller_than_the_smallest_that_goes_on_starts_whole():
    Two(min_world=5).started()


# --- granted


def test_what_an_older_generation_or_a_spare_asks_for_is_not_granted():
    d = alone(max_restarts=5)
    d.tell("n0", NodePhase.RUNNING, 0, replacements=(LOST,))
    assert d.job.replaced == ()
    t = Two().started()
    for node in ("n0", "n1"):
        t.say(node, can_renew=True)
    t.desk.tell("n2", NodePhase.RUNNING, 1, replacements=(LOST,))
    assert t.desk.job.replaced == ()


def test_what_its_launcher_has_given_up_by_then_is_not_granted():
    d = alone(max_restarts=5)
    gone = replace(LOST, stage=ReplacementStage.GIVEN_UP, settled_at=d.wall, sentence="late")
    assert tell(d, gone).facts == ()


def test_what_was_refused_stays_refused_in_its_generation_and_no_longer():
    d = alone(max_restarts=1, restarts=RestartRules(refund_after_s=100.0))
    tell(d, LOST)
    second = replace(LOST, number=2)
    tell(d, second)
    assert d.run_of("n0").replacing.refused_upto == 2
    d.wait(150.0, ("n0",))
    assert d.job.refunded == 1, "health counts from the grant"
    assert tell(d, second, replace(LOST, stage=ReplacementStage.JOINED, settled_at=d.wall)).facts[0].number == 1
    assert d.run_of("n0").replacing.granted == (1,)
    t = Two().started()
    t.say("n0", can_renew=True)
    tell(t.desk, LOST, node="n0", muster=t.reports["n0"])
    assert t.desk.run_of("n0").replacing.refused_upto == 1
    again(t.desk, "n0", "n1")
    for node in ("n0", "n1"):
        t.say(node, can_renew=True)
    tell(t.desk, LOST, node="n0", muster=t.reports["n0"])
    assert t.desk.run_of("n0").replacing.granted == (1,)


def test_none_is_granted_in_a_job_that_is_to_stop_or_not_to_be_restarted():
    t = Two().started()
    for node in ("n0", "n1"):
        t.say(node, can_renew=True)
    notice_to = Draining(asks=True, notice_signal=15, grace_s=30.0)
    t.desk.tell("n1", NodePhase.RUNNING, 1, draining=notice_to, muster=t.reports["n1"])
    assert t.desk.job.drain is not None
    tell(t.desk, LOST, node="n0", muster=t.reports["n0"], draining=Draining(asks=True))
    assert "about to stop" in t.desk.run_of("n0").replacing.sentence
    d = alone(max_restarts=5)
    again(d, "n0")
    d.verdict(STOP)
    assert d.job.no_restart is not None
    tell(d, LOST)
    assert "not to be restarted" in d.run_of("n0").replacing.sentence


def test_none_is_granted_to_a_launcher_that_leaves_while_its_fault_is_held():
    d = Desk(spec(min_nodes=3, max_nodes=4, max_restarts=5))
    d.join("n0", "n1", "n2", "n3", local_world_size=1)
    d.proven("n0", "n1", "n2")
    knows = MusterReport(can_renew=True)
    ended = (ExitRecord(Rank(2), 0, 1, d.wall, exit_code=0),)
    d.tell("n1", NodePhase.RUNNING, 1, muster=knows)
    d.tell("n2", NodePhase.FINISHED, 1, exits=ended, muster=knows)
    tell(d, LOST, muster=knows, leaving_signal=15)
    assert d.stage == "Running" and d.state.volatile.held_faults
    assert (d.job.replaced, d.run_of("n0").replacing.refused_upto) == ((), 1)


def test_one_settles_by_itself_and_those_of_older_generations_make_room():
    d = alone(max_restarts=10 * REPLACED_MAX)
    tell(d, LOST, replace(LOST, number=2))
    tell(d, LOST, replace(LOST, number=2, stage=ReplacementStage.JOINED, settled_at=Wall(5_101.0)))
    assert [one.settled_wall is not None for one in d.job.replaced] == [False, True]
    again(d, "n0")
    tell(d, *(replace(LOST, number=number) for number in range(1, REPLACED_MAX + 1)))
    assert {one.generation for one in d.job.replaced} == {2}


# --- guards that fired


def test_news_that_was_told_is_not_told_again_when_it_is_old():
    t = Two()
    fires(t.desk, "n0", notice())
    t.desk.wait(1.1)
    before = dict(t.desk.revisions)
    fires(t.desk, "n0", notice(), notice(number=2, phase="eval"))
    assert [one.phase for one in told(t.desk)[1]] == ["eval"]
    assert t.desk.revisions != before


def test_so_many_phases_are_told_of_at_one_time():
    t = Two()
    fires(t.desk, "n0", *(notice(number=number, phase=f"p{number}", left_s=LIMIT_S) for number in range(1, 21)))
    assert len(told(t.desk)[1]) == 16
