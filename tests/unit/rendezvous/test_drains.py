"""A notice to one node: the step that all ranks agree on, and where the job goes from there."""

from __future__ import annotations

import pytest

from resurge_libs.core.budget import RestartRules
from resurge_libs.core.fault_cause import FaultCause
from resurge_libs.core.ids import NodeId, Rank, RequestId
from resurge_libs.core.reasons import Reason
from resurge_rendezvous.core.model import DrainAsked, Draining, ExitRecord, NodePhase, Park, Stop, StopPhase
from resurge_rendezvous.core.shards import ShardMap
from tests.unit.rendezvous.desk import LIMITS, Desk, spec, started


def says(d: Desk, node: str, **draining):
    draining.setdefault("asks", True)
    return d.tell(node, NodePhase.RUNNING, d.runs[node].generation, draining=Draining(**draining))


def notice(d: Desk, node: str, grace_s: float = 20.0, **draining):
    return says(d, node, notice_signal=15, grace_s=grace_s, **draining)


def stops(d: Desk, node: str):
    goal = d.runs[node]
    exits = (ExitRecord(Rank(goal.base_rank), 0, 1, d.wall, exit_code=0),)
    d.tell(node, NodePhase.FINISHED, goal.generation, exits=exits, draining=Draining(told=True))


def agreed(d: Desk, step: int = 12) -> Desk:
    """n0 got notice, and both nodes agreed."""
    notice(d, "n0", offer=10)
    says(d, "n1", offer=step)
    notice(d, "n0", offer=10, held=step)
    says(d, "n1", offer=step, held=step)
    return d


def told(d: Desk) -> list[Stop | None]:
    return [d.run_of(node).stop for node in ("n0", "n1")]


def test_all_nodes_are_asked_then_hold_at_the_highest_offer_and_then_it_is_decided():
    d = started()
    notice(d, "n0")
    assert told(d) == [Stop(StopPhase.ASK)] * 2
    notice(d, "n0", offer=10)
    assert told(d) == [Stop(StopPhase.ASK)] * 2, "the other has not said yet where it could stop"
    says(d, "n1", offer=12)
    assert told(d) == [Stop(StopPhase.HOLD, 12)] * 2
    notice(d, "n0", offer=10, held=12)
    assert told(d) == [Stop(StopPhase.HOLD, 12)] * 2
    says(d, "n1", offer=12, held=12)
    assert told(d) == [Stop(StopPhase.DECIDED, 12)] * 2


def test_a_rank_that_was_faster_moves_the_border_for_all():
    d = started()
    notice(d, "n0", offer=10)
    says(d, "n1", offer=12)
    says(d, "n1", offer=15)
    notice(d, "n0", offer=10, held=12)
    assert told(d) == [Stop(StopPhase.HOLD, 15)] * 2
    notice(d, "n0", offer=10, held=15)
    says(d, "n1", offer=15, held=15)
    assert told(d) == [Stop(StopPhase.DECIDED, 15)] * 2


def test_a_node_that_speaks_twice_holds_once_and_one_that_takes_its_offer_back_is_waited_for():
    d = started()
    notice(d, "n0", offer=10)
    says(d, "n1", offer=12)
    notice(d, "n0", offer=10, held=12)
    notice(d, "n0", offer=11, held=12)
    assert told(d) == [Stop(StopPhase.HOLD, 12)] * 2
    notice(d, "n0")
    says(d, "n1", offer=12, held=12)
    assert told(d) == [Stop(StopPhase.HOLD, 12)] * 2
    notice(d, "n0", offer=11, held=12)
    assert told(d) == [Stop(StopPhase.DECIDED, 12)] * 2


def test_a_node_that_is_lost_meanwhile_no_longer_holds():
    d = Desk(spec(min_nodes=3))
    d.join("n0", "n1", "n2")
    d.proven("n0", "n1", "n2")
    d.finish("n2")  # from here on a loss waits: it may be the end of the job
    notice(d, "n0", offer=10)
    says(d, "n1", offer=12)
    says(d, "n1", offer=12, held=12)
    d.close("n1")
    d.wait(LIMITS.stream_loss_limit_s + 0.1, ("n0", "n2"))
    assert d.job.nodes.get("n1").lost is not None and d.stage == "Running"
    notice(d, "n0", offer=10, held=12)
    assert d.run_of("n0").stop == Stop(StopPhase.HOLD, 12), "nobody knows whether the ranks of n1 have passed it"


def test_where_no_rank_reports_steps_all_stop_at_once():
    d = started()
    notice(d, "n0", offer=0)
    says(d, "n1", offer=0)
    assert told(d) == [Stop(StopPhase.DECIDED, 0)] * 2


def test_a_node_that_does_not_answer_is_not_waited_for_beyond_the_limit():
    d = started()
    notice(d, "n0", offer=10)
    d.wait(LIMITS.lease_ttl_s, beats=("n0", "n1"))
    assert told(d) == [Stop(StopPhase.DECIDED, 10)] * 2


def test_a_job_that_stopped_is_preempted_when_nobody_can_take_the_place():
    d = agreed(started())
    stops(d, "n1")
    assert d.stage == "Running"
    stops(d, "n0")
    decision = d.job.stage.decision
    assert (decision.exit_code, decision.because.code, decision.cause) == (143, Reason.PREEMPTED, "preempted")
    assert "stopped at step 12" in decision.because.sentence
    assert (d.told("n0"), d.told("n1")) == ("EXIT 143", "EXIT 143")


def test_the_exit_code_of_a_preempted_job_may_be_given():
    d = agreed(started(Desk(spec(preempted_exit_code=75))))
    stops(d, "n0")
    stops(d, "n1")
    assert d.told("n1") == "EXIT 75"


def test_a_spare_takes_the_place_of_the_node_that_leaves_and_nothing_is_lost():
    d = agreed(started(None, "n2"))
    stops(d, "n0")
    stops(d, "n1")
    assert d.stage == "Fenced"
    assert d.job.stage.incident.first_cause.because.code is Reason.NODE_LEFT
    d.verdict()
    d.down("n0", "n1")
    assert (d.told("n1"), d.told("n2"), d.told("n0")) == ("RUN 2", "RUN 2", "PARK")
    assert d.run_of("n1").stop is None, "the new generation is not drained"


def test_without_a_restart_left_a_spare_does_not_help():
    d = agreed(started(Desk(spec(max_restarts=0)), "n2"))
    stops(d, "n0")
    stops(d, "n1")
    assert d.told("n2") == "EXIT 143"


def test_a_restart_that_was_given_back_is_one_that_is_left():
    d = started(Desk(spec(max_restarts=1, restarts=RestartRules((), 100.0))), "n2")
    d.crash("n0")
    d.verdict()
    d.down("n0", "n1")
    d.wait(30.0, ("n0", "n1", "n2"))
    d.proven("n0", "n1")
    d.wait(120.0, ("n0", "n1", "n2"))
    assert (d.job.restarts_spent, d.job.refunded) == (1, 1)
    agreed(d)
    stops(d, "n0")
    stops(d, "n1")
    assert d.stage == "Fenced", "the spare takes the place with the restart that was given back"


@pytest.mark.parametrize("cause, stage", [(FaultCause.NODE, "Ended"), (FaultCause.SIGNAL, "Fenced")])
def test_of_the_bounds_of_single_causes_that_of_nodes_that_leave_counts(cause: FaultCause, stage: str):
    d = agreed(started(Desk(spec(restarts=RestartRules(((cause, 0),)))), "n2"))
    stops(d, "n0")
    stops(d, "n1")
    assert d.stage == stage
    if stage == "Ended":
        assert d.told("n1") == "EXIT 143"


def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries of tables of nodes are looked at from now on, in a list of one."""
    count = [0]
    get, values, names = ShardMap.get, ShardMap.values, ShardMap.__iter__

    def one(self: ShardMap, key: str) -> object:
        count[0] += 1
        return get(self, key)

    def every(right):
        def counted(self: ShardMap):
            for entry in right(self):
                count[0] += 1
                yield entry

        return counted

    monkeypatch.setattr(ShardMap, "get", one)
    monkeypatch.setattr(ShardMap, "values", every(values))
    monkeypatch.setattr(ShardMap, "__iter__", every(names))
    return count


def test_an_agreement_of_many_nodes_looks_at_each_a_few_times(monkeypatch: pytest.MonkeyPatch):
    names = [f"n{number}" for number in range(2000)]
    d = Desk(spec(min_nodes=2000, max_nodes=2000), check=False)
    d.join(*names)
    d.proven(*names)
    count = looks(monkeypatch)
    notice(d, "n0", offer=10)
    for node in names[1:]:
        says(d, node, offer=10)
    notice(d, "n0", offer=10, held=10)
    for node in names[1:]:
        says(d, node, offer=10, held=10)
    assert d.run_of("n7").stop == Stop(StopPhase.DECIDED, 10)
    assert count[0] < 60 * len(names), f"{count[0]} looks for {2 * len(names)} reports"


def test_the_nodes_that_stopped_for_a_drain_look_at_each_other_no_more_than_a_few_times(monkeypatch):
    names = [f"n{number}" for number in range(2000)]
    d = Desk(spec(min_nodes=1999, max_nodes=2000), check=False)
    d.join(*names)
    assert isinstance(d.goals["n1999"], Park)
    d.proven(*names[:-1])
    d.ask(DrainAsked(d.stamp(), RequestId("r"), NodeId("n0"), "maintenance"))  # no rank asks: they are fenced at once
    assert d.stage == "Fenced" and d.job.drain is not None
    d.verdict()
    count = looks(monkeypatch)
    for node in names[1:-1]:
        d.tell(node, NodePhase.TEARING_DOWN, 1)
    assert d.stage == "Fenced"
    assert count[0] < 60 * len(names), f"{count[0]} looks for {len(names)} reports"


def test_a_spare_waits_while_others_save():
    d = agreed(started(None, "n2"))
    assert d.goals["n2"].because.code is Reason.DRAINING


def test_ranks_that_finished_before_they_were_told_have_succeeded():
    d = started()
    notice(d, "n0", offer=10)
    d.finish("n0", "n1")
    assert d.job.stage.decision.because.code is Reason.SUCCEEDED


def test_a_fault_meanwhile_does_not_change_where_it_leads():
    d = agreed(started())
    d.crash("n1")
    assert d.told("n0") == "EXIT 143"
    assert d.job.records[-1].outcome == "ENDED"


def test_the_grace_bounds_it():
    d = agreed(started())
    d.wait(19.9, beats=("n0", "n1"))
    assert d.stage == "Running"
    d.wait(0.2, beats=("n0", "n1"))
    assert d.told("n1") == "EXIT 143"


def test_a_notice_while_a_restart_is_in_progress_ends_it():
    d = started()
    d.crash("n1")
    d.tell("n0", NodePhase.LEAVING, 1, leaving_signal=15)
    assert d.told("n1") == "EXIT 143"


def test_a_notice_to_a_spare_drains_nothing():
    d = started(None, "n2")
    d.tell("n2", NodePhase.READY, 0, draining=Draining(notice_signal=15, grace_s=20.0))
    assert d.job.drain is None
    assert "n2" not in d.state.volatile.ready


def test_a_restarted_service_agrees_on_the_step_that_was_held():
    d = started()
    notice(d, "n0", offer=10)
    says(d, "n1", offer=12)
    d.restart_service()
    for node in ("n0", "n1"):
        d.hello(node, stream=f"{node}/again")
    notice(d, "n0", offer=10, held=12)
    says(d, "n1", offer=12)
    assert told(d) == [Stop(StopPhase.HOLD, 12)] * 2
    says(d, "n1", offer=12, held=12)
    assert told(d) == [Stop(StopPhase.DECIDED, 12)] * 2


def test_a_restarted_service_knows_what_was_decided():
    d = agreed(started())
    d.restart_service()
    for node in ("n0", "n1"):
        d.hello(node, stream=f"{node}/again")
    says(d, "n1", offer=12, held=12)
    assert d.run_of("n1").stop == Stop(StopPhase.DECIDED, 12)


@pytest.mark.parametrize("node", [None, "n0"])
def test_an_operators_order_is_the_same_where_ranks_ask(node):
    d = started()
    says(d, "n0")
    says(d, "n1")
    d.ask(DrainAsked(d.stamp(), RequestId("r"), None if node is None else NodeId(node), "maintenance"))
    assert told(d) == [Stop(StopPhase.ASK)] * 2
    says(d, "n0", offer=10)
    says(d, "n1", offer=10)
    says(d, "n0", offer=10, held=10)
    says(d, "n1", offer=10, held=10)
    stops(d, "n0")
    stops(d, "n1")
    assert d.told("n1") == "EXIT 143"


def test_an_operators_order_ends_workers_that_never_ask_by_the_scheduler_s_ladder():
    d = started()
    d.ask(DrainAsked(d.stamp(), RequestId("r"), None, "maintenance"))
    assert d.job.stage.decision.because.code is Reason.PREEMPTED


def test_a_drained_node_is_released_when_a_spare_has_its_place():
    d = started(None, "n2")
    d.ask(DrainAsked(d.stamp(), RequestId("r"), NodeId("n0"), "maintenance"))
    d.verdict()
    d.down("n0", "n1")
    assert (d.told("n1"), d.told("n2"), d.told("n0")) == ("RUN 2", "RUN 2", "EXIT 0")
    d.close("n0")
    d.hello("n0", 2)
    d.ready("n0")
    assert d.told("n0") == "PARK", "a new launcher of it is welcome"


def test_a_drained_spare_is_released_at_once():
    d = started(None, "n2")
    d.ask(DrainAsked(d.stamp(), RequestId("r"), NodeId("n2"), "maintenance"))
    assert d.told("n2") == "EXIT 0"
    assert d.stage == "Running"


def test_a_node_that_was_told_to_leave_and_falls_silent_is_not_waited_for():
    """It left while the service was down, and had nobody to say goodbye to."""
    d = started()
    notice(d, "n0", offer=10)
    d.restart_service()
    d.hello("n1", pid=1)
    d.running("n1")
    d.wait(30.0, ("n1",))
    assert d.told("n1") == "EXIT 143"
    assert d.job.stage.decision.because.code is Reason.PREEMPTED
