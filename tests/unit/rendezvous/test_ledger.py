"""Rendezvous books the time of its job: what it did when, from its own state, also over its own restart."""

from __future__ import annotations

import dataclasses

import pytest

from resurge_libs.core.ids import Rank
from resurge_libs.core.instant import Wall
from resurge_libs.core.ledger import Doing
from resurge_rendezvous.core.model import ExitRecord, Milestone, MilestoneKind, NodePhase, TimeBooked
from resurge_rendezvous.core.timekeeping import ledger_of
from resurge_rendezvous.core.views import job_view
from resurge_rendezvous.wire_out import job_to_proto
from tests.unit.rendezvous.desk import RESTART, Desk

NODES = ("n0", "n1")


def start(d: Desk, step: int):
    """Both nodes start their ranks: 2 s to the process group, 3 s for the restore, 1 s for the first step."""
    marks: dict[str, tuple[Milestone, ...]] = dict.fromkeys(NODES, ())
    waits = {
        MilestoneKind.PROCESS_GROUP_READY: 2.0,
        MilestoneKind.CHECKPOINT_RESTORED: 3.0,
        MilestoneKind.FIRST_STEP: 1.0,
    }
    for kind, wait_s in waits.items():
        d.wait(wait_s, NODES)
        for node in NODES:
            run = d.run_of(node)
            marks[node] += (Milestone(Rank(run.base_rank), kind, d.wall, step),)
            d.tell(node, NodePhase.RUNNING, run.generation, milestones=marks[node])


def crash(d: Desk, step: int):
    run = d.runs["n1"]
    record = ExitRecord(Rank(run.base_rank), 0, 4711, Wall(d.wall - 0.5), signal=11, last_step=step)
    d.tell("n1", NodePhase.TEARING_DOWN, run.generation, exits=(record,))


def recover(d: Desk, delay_s: float = 0.0):
    d.verdict(dataclasses.replace(RESTART, delay_s=delay_s))
    d.wait(1.5, NODES)
    d.down(*NODES)
    d.wait(max(0.0, delay_s - 1.5), NODES)


def accounts(d: Desk) -> dict[str, float]:
    ledger = ledger_of(d.state)
    return {
        **{doing.lower(): round(ledger.of(doing), 6) for doing in Doing if doing is not Doing.TRAINING},
        "productive": round(ledger.productive_s, 6),
        "lost": round(ledger.lost_s, 6),
    }


def one_recovery() -> Desk:
    d = Desk()
    d.hello("n0")
    d.ready("n0")
    d.wait(4.0, ("n0",))
    d.join("n1")
    start(d, 0)
    d.wait(99.5, NODES)
    crash(d, 50)  # after 100 s of training, half a second before it is known
    recover(d, delay_s=2.0)
    start(d, 40)
    return d


def test_every_phase_of_a_recovery_is_in_its_account():
    assert accounts(one_recovery()) == pytest.approx({
        "waiting": 4.0 + 0.5, "rendezvous": 0.0, "start": 4.0, "restore": 6.0, "detection": 0.5, "teardown": 1.5,
        "productive": 80.0, "lost": 20.0,
    })  # fmt: skip


def test_the_sum_is_the_wall_time():
    d = one_recovery()
    ledger = ledger_of(d.state)
    assert sum(accounts(d).values()) == pytest.approx(ledger.wall_s, rel=1e-6)
    assert ledger.begun == 5_100.0
    assert ledger.reached + 1.0 == d.wall, "booked up to the start of training; the first step is part of it"


def test_keeping_time_costs_no_journal_entry_of_its_own(monkeypatch):
    steps = []
    ask = Desk.ask
    monkeypatch.setattr(Desk, "ask", lambda self, event: steps.append(ask(self, event)) or steps[-1])
    one_recovery()
    booking = [step.facts for step in steps if any(isinstance(fact, TimeBooked) for fact in step.facts)]
    assert len(booking) >= 4
    assert all(len(facts) > 1 for facts in booking)


def test_a_restart_of_the_service_loses_no_time():
    d = Desk()
    d.join(*NODES)
    start(d, 0)
    d.wait(50.0, NODES)
    d.restart_service()
    d.now += 3.0
    for node in NODES:
        d.hello(node)
        run = d.runs[node]
        marks = tuple(Milestone(Rank(run.base_rank), kind, Wall(5_100.0 + at), 0) for kind, at in (
            (MilestoneKind.PROCESS_GROUP_READY, 2.0), (MilestoneKind.CHECKPOINT_RESTORED, 5.0),
            (MilestoneKind.FIRST_STEP, 6.0)))  # fmt: skip
        d.tell(node, NodePhase.RUNNING, run.generation, milestones=marks)
    crash(d, 10)
    assert accounts(d)["start"] == pytest.approx(2.0)
    assert accounts(d)["restore"] == pytest.approx(3.0)
    assert accounts(d)["productive"] == pytest.approx(1.0 + 50.0 + 3.0 - 0.5)


def test_the_end_stops_productive_time_and_observers_see_the_ledger():
    d = one_recovery()
    d.wait(9.0, NODES)
    d.finish(*NODES)
    told = job_to_proto(job_view(d.state)).ledger
    assert told.productive.ToSeconds() == 90
    assert told.lost_steps == 10
    assert told.reached.ToSeconds() == round(d.wall)
