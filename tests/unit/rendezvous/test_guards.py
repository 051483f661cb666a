"""Guards that no other test would miss: each test here fails when one condition of a rule is taken out."""

from __future__ import annotations

from resurge_libs.core.refusals import BadRequest, Unready
from resurge_rendezvous.core.model import NodePhase
from tests.unit.rendezvous.desk import Desk, spec, started


def test_a_launcher_on_another_host_waits_while_the_one_that_lost_its_stream_may_come_back():
    d = started()
    d.close("n1")
    d.now += d.limits.stream_loss_limit_s / 2
    d.hello("n1", incarnation=2, host="elsewhere")
    assert isinstance(d.closed[-1].refusal, Unready)
    assert d.job.nodes.get("n1").incarnation == 1


def test_a_specification_that_cannot_be_opens_no_job():
    d = Desk()
    d.hello("n0", spec=spec(min_nodes=0))
    assert isinstance(d.closed[-1].refusal, BadRequest)
    assert d.stage == "Unopened"


def test_nothing_that_the_launcher_before_said_is_believed_of_a_new_one():
    d = started(None, "n2")
    d.close("n2")
    d.hello("n2", incarnation=2)
    assert d.state.volatile.seats.get("n2").observed.phase is NodePhase.UNKNOWN


def test_that_all_may_leave_is_not_taken_back_for_one_that_comes_again():
    d = started()
    d.finish("n0", "n1")
    for node in ("n0", "n1"):
        d.tell(node, NodePhase.READY, 1, exit_acknowledged=True)
    d.hello("n1", incarnation=1)
    assert d.goals["n0"].all_acknowledged
    assert d.goals["n1"].all_acknowledged


def test_workers_of_an_older_generation_bring_a_lost_lease_not_back():
    d = started()
    d.now += 3.0
    d.finish("n0")
    d.wait(3.0, ("n0",))
    assert d.state.volatile.seats.get("n1").lease is None
    d.tell("n1", NodePhase.RUNNING, 0)
    assert d.state.volatile.seats.get("n1").lease is None
    assert d.job.nodes.get("n1").lost is not None


def test_the_last_call_of_a_node_that_has_nothing_to_offer_is_over_in_time():
    d = started(None, "n2")
    d.crash("n1")
    d.tell("n1", NodePhase.READY, 1, store_offer=None)
    d.down("n0")
    d.verdict()
    d.wait(d.limits.last_call_s - 0.5, ("n0", "n1", "n2"))
    assert d.stage == "Fenced", "n1 was active before and may come back"
    d.wait(1.0, ("n0", "n1", "n2"))
    assert d.stage == "Proving"
