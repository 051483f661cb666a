"""Ranks of several nodes that restart in place: started together, broken together, and judged when they do not come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge_libs.core.ids import Rank
from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core.model import NodePhase
from resurge_rendezvous.core.muster_values import MusterKind, MusterOrder, MusterReport
from resurge_rendezvous.core.musters import margin_s
from tests.unit.rendezvous.desk import Desk

LIMIT_S = 20.0
MARGIN_S = margin_s(2)


class Two:
    """Nodes n0 and n1, which report as launchers do, and a spare."""

    def __init__(self, ranks: int = 1, min_world: int = 1) -> None:
        self.desk = Desk()
        self.desk.join("n0", "n1", "n2", local_world_size=ranks)
        self.desk.proven("n0", "n1")
        self.all = tuple(Rank(rank) for rank in range(2 * ranks))
        self.reports = {
            node: MusterReport(living=self.all[n * ranks : n * ranks + ranks], limit_s=LIMIT_S, min_world=min_world)
            for n, node in enumerate(("n0", "n1"))
        }

    def say(self, node: str, **changed: object) -> None:
        self.reports[node] = replace(self.reports[node], **changed)
        number = self.desk.runs[node].generation
        self.step = self.desk.tell(node, NodePhase.RUNNING, number, muster=self.reports[node])

    def joined(self, node: str, iteration: int = 0) -> None:
        self.say(node, iteration=iteration, joined=self.reports[node].living, is_running=False, is_over=False)

    def follows(self, node: str) -> None:
        """The launcher acts upon the newest start."""
        order = self.order(node)
        self.say(node, acted=order, is_running=True, joined=(), done=0)

    def order(self, node: str) -> MusterOrder:
        return self.desk.run_of(node).muster

    def orders(self) -> list[tuple[int, str, int, tuple[Rank, ...]]]:
        first, second = (self.order(node) for node in ("n0", "n1"))
        assert first == second, "all are told the same"
        return [(first.number, first.kind, first.iteration, first.members)]

    def started(self) -> Two:
        self.joined("n0")
        assert self.orders() == [(0, MusterKind.NOTHING, 0, ())]
        self.joined("n1")
        assert self.orders() == [(1, MusterKind.START, 0, self.all)]
        assert self.step.facts == (), "nothing durable"
        for node in ("n0", "n1"):
            self.follows(node)
        return self


def test_a_break_on_one_node_interrupts_all_and_the_next_starts_when_all_have_come():
    t = Two().started()
    t.say("n1", iteration=1, is_running=False, broken="rank 1: boom")
    assert t.orders() == [(2, MusterKind.INTERRUPT, 0, (0, 1))]
    assert t.order("n0").sentence == "rank 1: boom"
    t.joined("n1", 1)
    assert t.orders() == [(2, MusterKind.INTERRUPT, 0, (0, 1))]
    t.joined("n0", 1)
    assert t.orders() == [(3, MusterKind.START, 1, (0, 1))]
    t.desk.wait(2 * LIMIT_S, beats=("n0", "n1", "n2"))
    assert t.desk.stage == "Running"


def test_it_is_over_for_all_when_as_many_have_finished_as_were_to():
    t = Two().started()
    t.say("n0", done=1, needed=2)
    assert t.orders()[0][1] is MusterKind.START
    t.say("n1", done=1, needed=2)
    assert t.orders() == [(2, MusterKind.OVER, 0, (0, 1))]
    for node in ("n0", "n1"):
        t.say(node, acted=t.order(node), is_running=False, is_over=True, done=0, needed=0)
    for node in ("n0", "n1"):
        t.joined(node)
    assert t.orders() == [(3, MusterKind.START, 0, (0, 1))]


def test_who_has_not_come_in_time_is_at_fault():
    t = Two().started()
    t.say("n0", iteration=1, is_running=False, broken="rank 0: boom")
    t.joined("n0", 1)
    t.say("n1", iteration=1, is_running=False)
    t.desk.wait(LIMIT_S + MARGIN_S - 0.1, beats=("n0", "n1", "n2"))
    assert t.desk.stage == "Running"
    t.desk.wait(0.2, beats=("n0", "n1", "n2"))
    assert t.desk.stage == "Fenced"
    fault = t.desk.job.open_incident.faults[0]
    assert (fault.node, fault.rank, fault.because.code) == ("n1", 1, Reason.WORKER_HUNG)


def test_whoever_is_ended_as_it_has_not_come_has_as_long_again_to_end():
    t = Two(ranks=2).started()
    t.say("n0", iteration=1, is_running=False, broken="rank 0: boom")
    t.joined("n0", 1)
    t.say("n1", iteration=1, is_running=False, joined=(Rank(2),))
    t.desk.wait(LIMIT_S, beats=("n0", "n1", "n2"))
    for _ in range(3):
        t.say("n1", evicted=(Rank(3),))
    t.desk.wait(LIMIT_S, beats=("n0", "n1", "n2"))
    t.say("n1", evicted=(Rank(3),), done=1)
    assert t.desk.stage == "Running"
    t.say("n1", living=(Rank(2),), evicted=())
    assert t.orders() == [(3, MusterKind.START, 1, (0, 1, 2))]


def test_whoever_is_ended_and_does_not_end_is_at_fault_once_its_time_is_over():
    t = Two(ranks=2).started()
    t.say("n0", iteration=1, is_running=False, broken="rank 0: boom")
    t.joined("n0", 1)
    t.say("n1", iteration=1, is_running=False, joined=(Rank(2),))
    t.desk.wait(LIMIT_S, beats=("n0", "n1", "n2"))
    for changed in (0, 1, 0):
        t.say("n1", evicted=(Rank(3),), done=changed)
        t.desk.wait((LIMIT_S + MARGIN_S + 0.3) / 3, beats=("n0", "n1", "n2"))
    assert t.desk.stage == "Fenced"


def test_a_rank_that_is_ended_while_an_iteration_runs_sets_no_limit():
    t = Two(ranks=2).started()
    t.say("n1", evicted=(Rank(3),))
    assert t.desk.state.volatile.timers.muster_at is None


def test_a_rank_that_is_ended_where_the_break_is_not_known_yet_leaves_the_limit():
    t = Two(ranks=2).started()
    t.say("n0", iteration=1, is_running=False, broken="rank 0: boom")
    t.say("n1", evicted=(Rank(3),))
    assert t.desk.state.volatile.timers.muster_at == pytest.approx(t.desk.now + LIMIT_S + MARGIN_S)


def test_many_nodes_have_longer_for_orders_and_reports():
    assert margin_s(10_000) > 10 * margin_s(10)


def test_who_never_comes_to_the_first_start_is_at_fault():
    t = Two()
    t.joined("n0")
    limit_s = t.desk.limits.start_limit_s("process_group")
    assert limit_s > LIMIT_S, "ranks come to their function in their own time"
    t.desk.wait(limit_s - 1.0, beats=("n0", "n1", "n2"))
    t.joined("n0")
    assert t.desk.stage == "Running"
    t.desk.wait(1.1 + MARGIN_S, beats=("n0", "n1", "n2"))
    assert t.desk.stage == "Fenced"
    fault = t.desk.job.open_incident.faults[0]
    assert (fault.node, fault.rank, fault.because.code) == ("n1", None, Reason.WORKER_HUNG)
    assert "older version" in fault.because.sentence


def test_who_comes_late_to_the_first_start_is_no_fault():
    t = Two()
    t.joined("n0")
    limit_s = t.desk.limits.start_limit_s("process_group")
    t.desk.wait(limit_s, beats=("n0", "n1", "n2"))
    t.joined("n1")
    assert t.orders() == [(1, MusterKind.START, 0, (0, 1))]
    for node in ("n0", "n1"):
        t.follows(node)
    t.desk.wait(limit_s, beats=("n0", "n1", "n2"))
    assert t.desk.stage == "Running"


@pytest.mark.parametrize("ends_first", [True, False])
def test_a_node_whose_ranks_have_ended_as_they_should_is_not_waited_for_in_a_second_call(ends_first: bool):
    t = Two().started()
    for node in ("n0", "n1"):
        t.say(node, done=1, needed=2)
    for node in ("n0", "n1"):
        t.say(node, acted=t.order(node), is_running=False, is_over=True, done=0, needed=0)
    for node in ("n0", "n1") if ends_first else ("n1", "n0"):
        if node == "n0":
            t.desk.finish(node)
        else:
            t.joined(node)
    order = t.order("n1")
    assert (order.number, order.kind, order.iteration, order.members) == (3, MusterKind.START, 0, (1,))
    t.desk.finish("n1")
    assert t.desk.stage == "Ended"


def test_with_too_few_left_the_lost_rank_is_a_fault_after_all():
    t = Two(ranks=2, min_world=4).started()
    t.say("n1", iteration=1, is_running=False, living=(Rank(2),), broken="rank 3 has ended")
    t.joined("n0", 1)
    assert t.desk.stage == "Running"
    t.joined("n1", 1)
    assert t.desk.stage == "Fenced"
    fault = t.desk.job.open_incident.faults[0]
    assert (fault.node, fault.rank, fault.because.code) == ("n1", 3, Reason.WORKER_EXIT)


def test_with_enough_left_the_others_start_without_the_lost_rank():
    t = Two(ranks=2, min_world=3).started()
    t.say("n1", iteration=1, is_running=False, living=(Rank(2),), broken="rank 3 has ended")
    t.joined("n0", 1)
    t.joined("n1", 1)
    assert t.orders() == [(3, MusterKind.START, 1, (0, 1, 2))]


def test_a_rank_that_ends_after_it_has_joined_is_waited_for_no_more():
    t = Two()
    t.reports["n1"] = replace(t.reports["n1"], living=(Rank(1), Rank(9)))
    t.joined("n1")
    t.say("n1", living=(Rank(1), Rank(9)), joined=(Rank(1),))
    t.joined("n0")
    assert t.orders() == [(0, MusterKind.NOTHING, 0, ())]
    t.say("n1", living=(Rank(1),))
    assert t.orders() == [(1, MusterKind.START, 0, (0, 1))]


def test_a_service_that_has_restarted_learns_the_newest_order_from_whoever_has_it():
    t = Two().started()
    t.say("n1", iteration=1, is_running=False, broken="boom")
    newest = t.order("n1")
    t.desk.restart_service()
    behind, ahead = t.reports["n0"], replace(t.reports["n1"], acted=replace(newest, sentence=""))
    for node, report in (("n0", behind), ("n1", ahead)):
        t.desk.hello(node)
        t.reports[node] = report
        t.say(node)
    assert t.orders() == [(2, MusterKind.INTERRUPT, 0, (0, 1))]
    for node in ("n0", "n1"):
        t.joined(node, 1)
    assert t.orders() == [(3, MusterKind.START, 1, (0, 1))]


def test_a_service_that_has_restarted_says_with_a_break_who_took_part():
    t = Two()
    t.joined("n0")
    t.joined("n1")
    t.follows("n1")
    t.say("n1", iteration=1, is_running=False, broken="boom", acted=replace(t.order("n1"), sentence=""))
    t.desk.restart_service()
    for node in ("n1", "n0"):
        t.desk.hello(node)
        t.say(node)
    assert t.reports["n0"].acted.number == 0, "it has not seen the start"
    assert t.order("n0").kind is MusterKind.INTERRUPT and t.order("n0").members == t.all


def test_the_next_generation_is_told_nothing_of_it():
    t = Two().started()
    t.desk.crash("n1")
    t.desk.down("n0", "n1")
    t.desk.verdict()
    assert t.orders() == [(0, MusterKind.NOTHING, 0, ())]


def test_a_node_that_is_no_member_changes_nothing():
    t = Two()
    t.desk.tell("n2", NodePhase.READY, 0, muster=MusterReport(living=(Rank(0),), joined=(Rank(0),)))
    assert t.desk.state.volatile.muster is None


def under_a_newer_service(t: Two) -> Two:
    """It restarts as another release, under launchers that do not say that they follow orders, and do."""
    t.desk.restart_service()
    for number, node in enumerate(("n0", "n1")):
        t.desk.hello(node, infra_rank=number, in_place_version=0)
        t.say(node)
    return t


def test_under_launchers_that_are_told_no_orders_ranks_run_on_until_one_is_due_and_that_is_a_fault():
    t = under_a_newer_service(Two().started())
    t.desk.wait(LIMIT_S, beats=("n0", "n1", "n2"))
    assert t.desk.stage == "Running" and t.order("n0") is None
    t.say("n1", iteration=1, is_running=False, broken="rank 1: boom")
    assert t.desk.stage == "Fenced"
    (fault,) = t.desk.job.open_incident.faults
    assert fault.node in ("n0", "n1") and (fault.rank, fault.because.code) == (None, Reason.VERSION_MISMATCH)
    assert "interrupt of iteration 0" in fault.because.sentence and "rank 1: boom" in fault.because.sentence


def test_ranks_that_are_gathered_when_the_service_becomes_another_release_are_restarted_by_the_launchers():
    t = Two().started()
    t.say("n1", iteration=1, is_running=False, broken="rank 1: boom")
    for node in ("n0", "n1"):
        t.say(node, iteration=1, is_running=False, acted=t.order(node))
    t = under_a_newer_service(t)
    t.joined("n0", 1)
    assert t.desk.stage == "Running", "n1 has not come"
    t.joined("n1", 1)
    assert t.desk.stage == "Fenced"
    assert t.desk.job.open_incident.faults[0].because.code is Reason.VERSION_MISMATCH


def test_so_are_those_that_have_all_finished():
    t = under_a_newer_service(Two().started())
    t.say("n0", done=1, needed=2)
    assert t.desk.stage == "Running"
    t.say("n1", done=1, needed=2)
    assert t.desk.stage == "Fenced"
