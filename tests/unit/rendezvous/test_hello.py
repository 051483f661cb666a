"""Who is let in, and what a launcher's coming means."""

from __future__ import annotations

import pytest

from resurge_libs.core.ids import JobId
from resurge_libs.core.reasons import Reason
from resurge_libs.core.refusals import AlreadyAttached, BadRequest, Superseded, Unready, VersionMismatch, WrongJob
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.model import NodePhase
from tests.unit.rendezvous.desk import Desk, spec, started


def test_the_first_launcher_opens_the_job():
    d = Desk()
    d.hello("n0")
    assert d.stage == "Gathering"
    assert d.job.attempt == 1
    assert d.told("n0") == "PARK"


def test_another_protocol_is_refused_and_opens_nothing():
    d = Desk()
    d.hello("n0", protocol_version=2)
    assert isinstance(d.closed[-1].refusal, VersionMismatch)
    assert d.stage == "Unopened"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"command_digest": "other"}, "command_digest"),
        ({"min_nodes": 1}, "min_nodes"),
        ({"max_restarts": 0}, "max_restarts"),
    ],
)
def test_one_id_with_another_specification_is_another_job(changed, field):
    d = Desk()
    d.hello("n0")
    d.hello("n1", spec=spec(**changed))
    refusal = d.closed[-1].refusal
    assert isinstance(refusal, WrongJob)
    assert refusal.field == field
    assert d.job.nodes.get("n1") is None


def test_another_job_is_refused():
    d = Desk()
    d.hello("n0")
    d.hello("n1", spec=spec(job_id=JobId("other")))
    assert isinstance(d.closed[-1].refusal, WrongJob)


def test_a_lease_that_contradicts_the_other_limits_is_refused():
    d = Desk()
    d.hello("n0", spec=spec(lease_ttl_s=4000.0))
    assert isinstance(d.closed[-1].refusal, BadRequest)
    assert d.stage == "Unopened"


def test_the_lease_of_the_job_holds():
    d = Desk(spec(lease_ttl_s=2.0))
    d.join("n0", "n1")
    step = d.beat("n0")
    assert step.actions[0].lease_ttl_s == 2.0
    d.wait(2.5)
    assert d.stage == "Fenced"


def test_surplus_nodes_are_parked_and_never_an_error():
    d = started(None, "n2", "n3", "n4")
    assert [d.told(n) for n in ("n2", "n3", "n4")] == ["PARK"] * 3
    assert d.closed == []


def test_a_second_living_launcher_of_a_node_is_refused_and_harms_nothing():
    d = started()
    d.hello("n1", incarnation=2)
    refusal = d.closed[-1].refusal
    assert isinstance(refusal, AlreadyAttached)
    assert refusal.incarnation == 1
    assert d.stage == "Running"
    d.beat("n1")
    assert d.last.actions[0].lease_ttl_s == 5.0


def test_a_second_launcher_with_the_same_number_is_refused_too():
    d = started()
    d.hello("n1", incarnation=1, pid=77)
    assert isinstance(d.closed[-1].refusal, AlreadyAttached)


def test_take_over_supersedes_the_living_launcher():
    d = started(None, "n2")
    old = d.streams["n1"]
    d.hello("n1", incarnation=2, take_over=True)
    closed = d.closed[-1]
    assert closed.stream == old
    assert isinstance(closed.refusal, Superseded)
    assert d.stage == "Fenced"
    assert d.told("n0") == "DOWN 1"
    assert d.job.stage.incident.faults[0].because.code is Reason.SUPERSEDED
    d.hello("n1", incarnation=1, pid=1)
    assert isinstance(d.closed[-1].refusal, Superseded)


def test_a_newer_stream_of_one_launcher_closes_the_older_without_a_refusal():
    d = started()
    old = d.streams["n1"]
    d.hello("n1", incarnation=1, pid=1)
    assert (d.closed[-1].stream, d.closed[-1].refusal) == (old, None)
    assert d.stage == "Running"
    assert d.told("n1") == "RUN 1"


def test_words_of_an_old_stream_are_ignored_by_name():
    d = started()
    old = d.streams["n1"]
    d.hello("n1", incarnation=1, pid=1)
    new, d.streams["n1"] = d.streams["n1"], old
    before = d.state
    d.tell("n1", NodePhase.STUCK, 1)
    assert d.last.reason.code is Reason.LATE_EVENT_IGNORED
    assert d.state == before
    d.beat("n1")
    assert d.last.actions == ()
    d.close("n1")
    assert d.state == before
    d.streams["n1"] = new


def test_a_launcher_that_died_and_came_back_is_a_fault_of_its_workers():
    d = started(None, "n2")
    d.close("n1")
    d.now += 0.2
    d.hello("n1", incarnation=2)
    assert d.stage == "Fenced"
    fault = d.job.stage.incident.faults[0]
    assert fault.because.code is Reason.NODE_RETURNED
    assert fault.at == pytest.approx(d.wall - 0.2)
    d.ready("n1")
    d.down("n0")
    d.verdict()
    assert d.told("n1") == "RUN 2"


def test_after_a_restart_of_the_service_a_new_launcher_waits_for_the_old_ones_lease():
    d = started()
    d.restart_service()
    d.hello("n1", incarnation=2)
    assert isinstance(d.closed[-1].refusal, Unready)


def test_a_machine_that_was_started_anew_does_not_wait_for_its_own_ghost():
    d = started()
    d.restart_service()
    d.hello("n1", incarnation=2, boot_id="boot-2")
    assert d.closed == []


def test_a_launcher_that_has_seen_more_than_the_journal_makes_the_service_adopt():
    d = Desk()
    d.hello("n0", highest_generation=7, highest_attempt=2)
    assert (d.job.generation, d.job.fenced, d.job.attempt) == (8, 8, 2)
    assert d.last.reason.code is Reason.JOURNAL_BEHIND
    d.tell("n0", NodePhase.RUNNING, 7)
    assert d.told("n0") == "DOWN 8"
    d.hello("n1", highest_generation=7, highest_attempt=2)
    d.tell("n1", NodePhase.RUNNING, 7)
    d.down("n0", "n1")
    assert d.stage == "Gathering", "nodes that are not here yet may hold a lease of the lost journal"
    d.wait(8.0, ("n0", "n1"))
    assert (d.told("n0"), d.told("n1")) == ("RUN 9", "RUN 9")


def test_a_journal_behind_during_an_incident_ends_its_recovery():
    d = started()
    d.crash("n1")
    d.close("n0")
    d.hello("n0", pid=1, highest_generation=40)
    assert d.stage == "Gathering"
    assert d.exported[-1].outcome.value == "ENDED"
    assert d.job.generation == 41


def test_a_higher_attempt_of_the_scheduler_begins_anew_with_a_full_budget():
    d = started(Desk(spec(max_restarts=1, attempt=1)))
    d.crash("n1")
    d.verdict()
    d.down("n0", "n1")
    assert d.job.restarts_spent == 1
    d.close("n0")
    d.hello("n0", incarnation=2, spec=spec(max_restarts=1, attempt=2))
    assert (d.job.attempt, d.job.restarts_spent, d.job.generation) == (2, 0, 2)
    assert d.told("n1") == "DOWN 2"
    d.ready("n0")
    d.down("n1")
    assert (d.told("n0"), d.told("n1")) == ("RUN 3", "RUN 3")
    assert d.run_of("n0").cycle == 0


def test_a_launcher_of_an_older_attempt_is_refused():
    d = Desk(spec(attempt=3))
    d.hello("n0")
    d.hello("n1", spec=spec(attempt=2))
    refusal = d.closed[-1].refusal
    assert isinstance(refusal, WrongJob)
    assert refusal.field == "attempt"


def test_a_rerun_of_an_ended_job_is_a_new_attempt():
    d = started()
    d.finish("n0", "n1")
    d.hello("late", incarnation=5)
    assert d.told("late") == "EXIT 0", "not all have acknowledged: it belongs to the attempt that ended"
    for node in ("n0", "n1", "late"):
        d.tell(node, NodePhase.READY, 1, exit_acknowledged=True)
        d.close(node)
    d.hello("n0", incarnation=2)
    assert (d.stage, d.job.attempt) == ("Gathering", 2)
    d.ready("n0")
    d.join("n1", incarnation=2)
    assert d.told("n0") == "RUN 2"
    assert d.facts_of(f.AttemptRaised)[0].because.code is Reason.NEW_ATTEMPT


def test_a_superseded_launcher_leaves_and_the_numbers_that_it_has_seen_stay_given():
    """The journal was lost, and a newer launcher of its node was here first."""
    d = started()
    d.hello("n1", incarnation=2, take_over=True)
    d.close("n1")
    step = d.hello("n1", incarnation=1, highest_generation=9)
    assert isinstance(d.closed[-1].refusal, Superseded)
    assert (d.job.generation, step.reason.code) == (10, Reason.JOURNAL_BEHIND)
    assert d.told("n0") == "DOWN 10", "what runs under a number that may be in use elsewhere must end"
