"""What the durable state remembers of a job's past: bounded whatever happened, and never silently less."""

from dataclasses import replace

from resurge_libs.core.ids import IncidentId
from resurge_libs.core.instant import Wall
from resurge_rendezvous.core import remembered
from resurge_rendezvous.core.charges import Charge
from resurge_rendezvous.core.job import Job, RecoverySpan
from resurge_rendezvous.core.remembered import CHARGES_MAX, RECORD_PARTS_MAX, RECORDS_MAX, with_charge, with_record
from tests.unit.rendezvous.desk import Desk, spec, started
from tests.unit.rendezvous.test_attempts import ended


def a_record():
    d = started()
    d.crash("n0")
    d.verdict()
    d.down("n0", "n1")
    d.proven("n0", "n1")
    (record,) = d.job.records
    return record


RECORD = a_record()
SPAN = RecoverySpan("spawn", Wall(1.0), Wall(2.0))


def numbered(number, spans=()):
    return replace(RECORD, incident=IncidentId(f"inc-{number}"), spans=spans)


def names(job):
    return [record.incident for record in job.records]


def test_the_newest_records_stay_and_the_others_are_counted():
    job = Job()
    for number in range(RECORDS_MAX + 7):
        job = with_record(job, numbered(number))
    assert names(job) == [f"inc-{number}" for number in range(7, RECORDS_MAX + 7)]
    assert job.records_forgotten == 7 and job.recoveries_closed == RECORDS_MAX + 7


def test_records_with_many_spans_leave_room_for_fewer_and_the_newest_stays_whatever_it_has():
    job = Job()
    for number in range(6):
        job = with_record(job, numbered(number, (SPAN,) * (RECORD_PARTS_MAX // 3)))
    assert names(job) == ["inc-4", "inc-5"], "two with their faults fit, three do not"
    job = with_record(job, numbered(6, (SPAN,) * (2 * RECORD_PARTS_MAX)))
    assert names(job) == ["inc-6"] and job.recoveries_closed == 7
    job = with_record(job, numbered(7))
    assert names(job) == ["inc-7"], "what does not fit beside the newest goes, and what is older with it"


def test_restarts_stay_counted_when_their_charges_are_forgotten():
    job = Job()
    for number in range(CHARGES_MAX + 5):
        job = with_charge(job, Charge(IncidentId(f"inc-{number}"), 0))
    assert len(job.charges) == CHARGES_MAX and job.restarts_spent == CHARGES_MAX + 5


def test_a_budget_larger_than_the_memory_is_spent_to_its_end_and_not_beyond(monkeypatch):
    monkeypatch.setattr(remembered, "CHARGES_MAX", 2)
    monkeypatch.setattr(remembered, "RECORDS_MAX", 2)
    d = started(Desk(spec(max_restarts=5)))
    for spent in range(1, 6):
        d.crash("n1")
        assert d.asked[-1].view.budget.left == 6 - spent
        d.verdict()
        d.down("n0", "n1")
        d.proven("n0", "n1")
        assert d.job.restarts_spent == spent and d.job.recoveries_closed == spent
    d.crash("n1")
    assert d.asked[-1].view.budget.left == 0
    d.restart_service()
    assert d.job.restarts_spent == 5 and len(d.job.charges) == 2 and len(d.job.records) == 2


def test_a_new_attempt_begins_with_its_whole_budget(monkeypatch):
    monkeypatch.setattr(remembered, "CHARGES_MAX", 1)
    d = started(Desk(spec(attempt=1)))
    for _ in range(2):
        d.crash("n1")
        d.verdict()
        d.down("n0", "n1")
        d.proven("n0", "n1")
    assert (d.job.restarts_spent, d.job.charges_forgotten) == (2, 1)
    ended(d)
    d.join("n0", "n1", incarnation=2)
    assert (d.job.attempt, d.job.restarts_spent, d.job.recoveries_closed) == (2, 0, 2)
