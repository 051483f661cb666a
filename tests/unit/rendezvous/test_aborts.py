"""A guard that fired on one node reaches every member of its generation, once, and is forgotten."""

from __future__ import annotations

import pytest

from resurge_libs.core.ids import Rank
from resurge_rendezvous.core.model import AbortNotice, NodePhase, Park
from tests.unit.rendezvous.desk import Desk, started


def notice(number: int = 1, phase: str = "step", left_s: float = 1.0) -> AbortNotice:
    return AbortNotice(Rank(0), number, phase, left_s)


def fires(d: Desk, node: str, *notices: AbortNotice, generation: int | None = None):
    number = d.runs[node].generation if generation is None else generation
    return d.tell(node, NodePhase.RUNNING, number, aborts=notices)


def told(d: Desk) -> list[tuple[AbortNotice, ...]]:
    return [d.run_of(node).aborts for node in ("n0", "n1")]


def test_every_member_is_told_in_the_same_step_and_nothing_durable_comes_of_it():
    d = started(None, "n2")
    step = fires(d, "n0", notice())
    assert told(d) == [(notice(),)] * 2
    assert isinstance(d.goals["n2"], Park), "a spare has nothing to abort"
    assert step.facts == ()
    assert d.stage == "Running"


def test_repeats_and_peers_of_the_same_phase_are_not_told_again():
    d = started()
    fires(d, "n0", notice())
    before = dict(d.revisions)
    fires(d, "n0", notice())
    fires(d, "n1", AbortNotice(Rank(1), 1, "step", 1.0))
    assert d.revisions == before
    fires(d, "n1", AbortNotice(Rank(1), 1, "step", 1.0), AbortNotice(Rank(1), 2, "eval", 1.0))
    assert [one.phase for one in d.run_of("n0").aborts] == ["step", "eval"]


def test_old_news_is_forgotten_without_a_word_and_the_next_is_told():
    d = started()
    fires(d, "n0", notice())
    before = dict(d.revisions)
    d.wait(1.1)
    assert d.state.volatile.aborts == ()
    assert d.revisions == before
    fires(d, "n0", notice(number=2))
    assert told(d) == [(notice(number=2),)] * 2


@pytest.mark.parametrize("late", [{"generation": 0}, {"notice": notice(left_s=0.0)}])
def test_what_is_late_is_not_passed_on(late):
    d = started()
    fires(d, "n0", late.get("notice", notice()), generation=late.get("generation"))
    assert told(d) == [(), ()]


def test_the_next_generation_hears_nothing_of_it():
    d = started()
    fires(d, "n0", notice(left_s=60.0))
    d.crash("n1")
    d.down("n0", "n1")
    d.verdict()
    assert told(d) == [(), ()]
