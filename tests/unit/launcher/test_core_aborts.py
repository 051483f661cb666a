"""Workers are ordered to abort: at a teardown after a fault, and when a guard has fired, here or elsewhere."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM

import pytest

from resurge_launcher.core import happenings as h
from resurge_launcher.core.abort_state import AbortNotice
from resurge_launcher.core.aborts import HEARD_MOST
from resurge_launcher.core.observe import observe
from resurge_launcher.core.worker_news import GuardFired, OrderAbort
from resurge_libs.core.ids import Generation, Rank
from tests.unit.launcher.core_world import LIMITS, Node, down, end, of, run

ONE = Generation(1)


def notice(rank: int = 4, number: int = 1, phase: str = "step", left_s: float = 1.0) -> AbortNotice:
    return AbortNotice(Rank(rank), number, phase, left_s)


def fires(node: Node, generation: Generation = ONE, **said) -> list[OrderAbort]:
    return of(node.feed(GuardFired(generation, notice(**said))), OrderAbort)


def told(node: Node, *notices: AbortNotice) -> list[OrderAbort]:
    return of(node.want(run(aborts=notices)), OrderAbort)


def test_after_a_fault_the_survivors_are_ordered_before_they_are_signalled_with_what_is_left_to_them():
    node = Node().running()
    ending = [a for a in node.exits(0, signal=SIGKILL) if isinstance(a, OrderAbort | h.SignalWorkers)]
    order, signal = ending
    assert isinstance(order, OrderAbort) and isinstance(signal, h.SignalWorkers)
    assert (order.generation, order.left_s, order.phase) == (1, LIMITS.fault_grace_s, "")
    assert "rank 4 (pid 1000) was ended by SIGKILL" in order.sentence
    assert signal.signal == SIGTERM
    assert of(node.move(5), OrderAbort) == [], "once"


def test_a_fault_elsewhere_orders_as_one_here():
    node = Node().running()
    assert len(of(node.want(down(1)), OrderAbort)) == 1


@pytest.mark.parametrize("signal", [SIGTERM])
def test_whoever_may_save_for_the_schedulers_grace_is_not_aborted(signal):
    node = Node().running()
    assert of(node.feed(h.SignalReceived(signal)), OrderAbort) == []


def test_finished_workers_are_not_aborted():
    node = Node().running()
    node.exits(0, code=0)
    node.exits(1, code=0)
    assert of(node.want(end(0)), OrderAbort) == []


def test_the_guard_of_a_rank_here_aborts_its_phase_here_and_is_told():
    node = Node().running()
    (order,) = fires(node)
    assert (order.phase, order.left_s, order.sentence) == ("step", 1.0, "the guard of rank 4 fired in 'step'")
    assert node.phase == "Running", "nobody is ended for it"
    assert observe(node.state).aborts == (notice(),)
    node.move(1.01)
    assert observe(node.state).aborts == (), "old news"
    assert of(node.actions, h.SendObserved)[-1].observed.aborts == ()


def test_one_order_for_a_phase_at_a_time():
    node = Node().running()
    assert len(fires(node)) == 1
    assert fires(node, rank=5) == []
    assert len(fires(node, rank=5, number=2, phase="eval")) == 1
    assert [one.phase for one in observe(node.state).aborts] == ["step", "eval"]
    node.move(1.01)
    assert len(fires(node, number=2)) == 1, "the next time"


@pytest.mark.parametrize("late", [{"generation": Generation(0)}, {"left_s": 0.0}])
def test_what_is_late_orders_nothing(late):
    assert fires(Node().running(), **late) == []


def test_in_a_teardown_a_guard_that_fires_is_late():
    node = Node().running()
    node.exits(0, code=1)
    assert fires(node, rank=5) == []


def test_what_rendezvous_passes_on_is_followed_once():
    node = Node().running()
    (order,) = told(node, notice(rank=0))
    assert order.sentence == "the guard of rank 0 fired in 'step'"
    assert observe(node.state).aborts == (), "theirs, not ours"
    node.move(2)
    assert told(node, notice(rank=0)) == [], "the same again, as in every later goal"
    assert len(told(node, notice(rank=0), notice(rank=0, number=2))) == 1
    assert node.phase == "Running"


def test_ones_own_that_comes_back_is_known():
    node = Node().running()
    fires(node)
    assert told(node, notice()) == []


def test_what_is_remembered_is_bounded():
    node = Node().running()
    for number in range(HEARD_MOST + 10):
        fires(node, number=number, phase=str(number))
    crew = node.state.phase.crew
    assert len(crew.aborts.heard) == HEARD_MOST
    assert len(crew.aborts.fresh) <= 16


def test_what_was_heard_is_not_acted_upon_again_when_it_is_old():
    node = Node().running()
    assert len(fires(node)) == 1
    node.move(1.1)
    assert fires(node) == [] and len(fires(node, number=2)) == 1
