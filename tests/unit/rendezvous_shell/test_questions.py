"""An answer of the policy names the question that it answers, whatever it is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from resurge_libs.core.instant import Wall
from resurge_rendezvous.clients import NoVerdict, decide_request
from resurge_rendezvous.core.model import Stamp, VerdictArrived, VerdictUnavailable
from resurge_rendezvous.effects import RdzvEffects
from tests.unit.rendezvous.desk import RESTART, started


class Policy:
    """Answers, cannot be asked, or breaks."""

    def __init__(self, problem: Exception | None) -> None:
        self.problem = problem

    async def decide(self, view: object, limit_s: float):
        if self.problem is not None:
            raise self.problem
        return RESTART

    async def close(self) -> None: ...


@pytest.mark.parametrize("problem", [None, NoVerdict("connection refused"), RuntimeError("broken")])
async def test_the_answer_names_its_question(problem: Exception | None):
    d = started()
    d.crash("n1", signal=6)
    d.crash("n0", signal=11, at=d.wall - 0.5)
    posted: list = []
    desk = SimpleNamespace(stamp=lambda: Stamp(Wall(0.0), "id"), post_if_ready=posted.append)
    effects = RdzvEffects(desk, Policy(problem), SimpleNamespace(), lambda: None)
    for asked in d.asked:
        effects.run(asked)
    for task in list(effects._tasks):
        await task
    kind = VerdictArrived if problem is None else VerdictUnavailable
    assert [(type(event), event.question) for event in posted] == [(kind, 1), (kind, 2)]


def test_a_round_that_is_put_anew_is_another_request_and_a_repeat_is_the_same_one():
    d = started()
    d.crash("n1", signal=6)
    d.crash("n0", signal=11, at=d.wall - 0.5)
    first, anew = (asked.view for asked in d.asked)
    assert decide_request(first).request_id == decide_request(first).request_id
    assert decide_request(first).request_id != decide_request(anew).request_id
