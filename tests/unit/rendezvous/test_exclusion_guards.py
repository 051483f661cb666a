"""Guards of exclusions that no other test would miss: each fails when one condition of a rule is taken out."""

from __future__ import annotations

from resurge_libs.core.ids import NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_rendezvous.core import exclusions
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.excluding import allowed_exclusions
from resurge_rendezvous.core.facts import OffenceNoted
from resurge_rendezvous.core.identity import Identity
from resurge_rendezvous.core.job import Job
from resurge_rendezvous.core.nodes import Exclusion, MachineExclusion, NodeEntry
from tests.unit.rendezvous.desk import Desk
from tests.unit.rendezvous.test_exclusion import crowd, exclude, excluding, fault, members


def test_a_node_that_ran_on_its_new_machine_is_blamed_there():
    d = Desk()
    for number, node in enumerate(("n0", "n1")):
        d.hello(node, infra_rank=number, machine_id=f"m{number}")
        d.ready(node)
    d.proven("n0", "n1")
    d.crash("n1")
    d.close("n1")
    d.wait(d.limits.resume_window_s + 0.1, ("n0",))
    d.hello("n1", incarnation=2, boot_id="boot-new", machine_id="m9", infra_rank=1)
    d.verdict()
    d.down("n0")
    d.ready("n1")
    d.wait(d.limits.last_call_s, ("n0", "n1"))
    assert members(d) == ["n0", "n1"]
    d.proven("n0", "n1")
    fault(d, "n1")
    assert [fact.offence.identity.machine_id for fact in d.facts_of(OffenceNoted)] == ["m1", "m9"]


def test_a_share_is_one_of_the_nodes_that_are_there():
    d = crowd()
    assert allowed(d) == 2
    for number in range(2, 10):
        d.close(f"n{number}")
    d.wait(d.limits.stream_loss_limit_s + 0.1, ("n0", "n1"))
    assert allowed(d) == 1


def allowed(d: Desk) -> int:
    """How many machines verdicts may exclude now."""
    return allowed_exclusions(Draft(d.state, d.stamp(), d.now, d.machine.settings))


def test_policy_is_told_of_faults_elsewhere_on_machines_that_verdicts_excluded_and_on_no_others():
    d = crowd()
    fault(d, "n0", excluding("n0"))
    d.proven(*members(d))
    fault(d, "n1")
    d.proven(*members(d))
    exclude(d, "n1")
    d.crash(next(node for node in members(d) if node != "n1"))
    told = d.asked[-1].view.culprit.offences
    assert [(one.node, one.elsewhere) for one in told] == [("n0", True)], "n1 was an operator's to exclude"


def test_what_is_held_against_a_machine_is_not_told_as_a_fault_elsewhere():
    d = crowd()
    fault(d, "n0")
    d.verdict(excluding("n0"))  # late: it is out from the next round on
    assert "n0" in members(d) and d.job.nodes.get("n0").exclusion is not None
    d.proven(*members(d))
    d.crash("n0")
    assert [(one.node, one.elsewhere) for one in d.asked[-1].view.culprit.offences] == [("n0", False)]


# --- the table


OUT = Exclusion(Because(Reason.EXCLUDED, "fans"), None, "ann", Wall(1.0))
LATER = Exclusion(Because(Reason.EXCLUDED, "heat"), None, "ann", Wall(2.0))


def entry(node: str, machine_id: str, boot_id: str = "b", host: str = "h") -> NodeEntry:
    return NodeEntry(node=NodeId(node), incarnation=1, boot_id=boot_id, host=host, pid=1, machine_id=machine_id)


def table(job: Job) -> list[Identity]:
    return [one.identity for one in job.exclusions]


def test_the_table_has_a_machine_once_as_it_is_now():
    first = entry("n1", "m1", boot_id="b1")
    job = exclusions.excluded(exclusions.admitted(Job(), first), first.identity, OUT)
    job = exclusions.admitted(job, first)
    assert table(job) == [first.identity]
    rebooted = entry("n1", "m1", boot_id="b2")
    job = exclusions.admitted(job, rebooted)
    assert table(job) == [rebooted.identity]
    assert job.nodes.get("n1").exclusion == OUT


def test_readmission_of_one_machine_leaves_others_out_and_one_by_name_frees_the_machine_too():
    one, other = entry("n1", "m1", "b1", "h1"), entry("n2", "m2", "b2", "h2")
    job = exclusions.admitted(exclusions.admitted(Job(), one), other)
    job = exclusions.excluded(exclusions.excluded(job, one.identity, OUT), other.identity, LATER)
    free = exclusions.readmitted(job, job.nodes.get("n1"), one.identity)
    assert (table(free), free.nodes.get("n2").exclusion) == ([other.identity], LATER)
    renamed = entry("n7", "m1", "b1", "h1")
    job = exclusions.admitted(job, renamed)
    by_name = exclusions.readmitted(job, job.nodes.get("n7"), None)
    assert [found.node for found in table(by_name)] == ["n2"]
    assert MachineExclusion(other.identity, LATER) in by_name.exclusions


def test_a_launcher_that_comes_again_as_it_was_changes_nothing_in_the_table():
    one, other = entry("n1", "m1", "b1", "h1"), entry("n2", "m2", "b2", "h2")
    job = exclusions.admitted(exclusions.admitted(Job(), one), other)
    job = exclusions.excluded(exclusions.excluded(job, one.identity, OUT), other.identity, LATER)
    assert table(exclusions.admitted(job, one)) == [one.identity, other.identity]


def test_a_name_that_was_never_excluded_frees_the_machine_that_it_is_on():
    one, other = entry("n1", "m1", "b1", "h1"), entry("n7", "m1", "b1", "h1")
    job = exclusions.admitted(exclusions.admitted(Job(), one), other)
    job = exclusions.excluded(job, one.identity, OUT)
    assert job.nodes.get("n7").exclusion == OUT
    assert table(exclusions.readmitted(job, job.nodes.get("n7"), None)) == []


def test_a_node_whose_old_machine_is_let_in_stays_out_with_its_new_one():
    old, new = entry("n1", "m1", "b1", "h1"), entry("n1", "m9", "b9", "h9")
    job = exclusions.excluded(exclusions.admitted(Job(), old), old.identity, OUT)
    job = exclusions.admitted(job, new)
    assert job.nodes.get("n1").exclusion is None
    job = exclusions.excluded(job, new.identity, LATER)
    free = exclusions.readmitted(job, job.nodes.get("n1"), old.identity)
    assert (table(free), free.nodes.get("n1").exclusion) == ([new.identity], LATER)
