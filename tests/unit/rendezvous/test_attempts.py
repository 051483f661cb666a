"""Launches by a scheduler and reruns by a user: their numbers are told apart, and neither meets the other's end."""

from __future__ import annotations

from resurge_libs.core.refusals import WrongJob
from resurge_rendezvous.core.model import NodePhase
from tests.unit.rendezvous.desk import Desk, spec, started


def ended(d: Desk) -> Desk:
    """Both nodes finish, acknowledge the end, and leave."""
    d.finish("n0", "n1")
    for node in ("n0", "n1"):
        d.tell(node, NodePhase.READY, d.job.generation, exit_acknowledged=True)
        d.close(node)
    return d


def started_by(scheduler_attempt: int) -> Desk:
    return started(Desk(spec(attempt=scheduler_attempt)))


def test_two_runs_in_one_launch_of_the_scheduler_are_two_attempts():
    d = ended(started_by(1))
    d.join("n0", "n1", incarnation=2, highest_attempt=1, highest_generation=d.job.generation)
    assert (d.job.attempt, d.told("n0"), d.told("n1")) == (2, "RUN 2", "RUN 2")


def test_a_requeue_after_such_reruns_is_a_higher_attempt():
    d = ended(started_by(1))
    d.join("n0", "n1", incarnation=2)
    d.proven("n0", "n1")
    ended(d)
    d.join("n0", "n1", incarnation=3, spec=spec(attempt=2))
    assert (d.job.attempt, d.told("n0"), d.told("n1")) == (3, "RUN 3", "RUN 3")


def test_a_launcher_of_an_earlier_launch_is_refused_although_reruns_raised_the_number():
    d = ended(started_by(1))
    d.join("n0", "n1", incarnation=2, spec=spec(attempt=2))
    d.hello("n9", spec=spec(attempt=1))
    assert isinstance(d.closed[-1].refusal, WrongJob)
    assert d.closed[-1].refusal.field == "attempt"


def test_a_node_that_comes_late_to_a_launch_is_told_its_end():
    d = ended(started_by(1))
    d.hello("late")
    assert (d.told("late"), d.job.attempt) == ("EXIT 0", 1)


def test_a_launcher_that_lost_its_stream_at_the_end_is_told_it_again():
    d = ended(started_by(1))
    d.hello("n0", incarnation=1)
    assert (d.told("n0"), d.job.attempt) == ("EXIT 0", 1)
