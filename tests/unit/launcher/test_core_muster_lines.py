"""Workers of several nodes that restart in place: what rendezvous is told of those here, and how its orders are met."""

from __future__ import annotations

from signal import SIGKILL

import pytest

from resurge_launcher.core import happenings as h
from resurge_launcher.core.findings import Captures, Finding, How
from resurge_launcher.core.muster_state import MusterEvict, MusterHeard, MusterOrder, MusterReport, MusterTell
from resurge_launcher.core.readings import PageReading
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant
from tests.unit.launcher.core_world import Node, of, run

G1 = Generation(1)
LIMIT_S = 20.0
SHAPE = {"world_size": 4, "base_rank": 2, "store_is_served": True}
MEMBERS = (Rank(0), Rank(1), Rank(2), Rank(3))


def say(n: Node, rank: int, kind: str, iteration: int = 0, needed: int = 1) -> list[tuple[str, int]]:
    return told(n.feed(MusterHeard(G1, Rank(rank), kind, iteration, "why", needed, LIMIT_S)))


def told(actions: list[h.Action]) -> list[tuple[str, int]]:
    return [(a.kind, a.iteration) for a in of(actions, MusterTell)]


def report(n: Node) -> MusterReport:
    return of(n.actions, h.SendObserved)[-1].observed.muster


def order(n: Node, number: int, kind: str, iteration: int = 0, members: tuple[Rank, ...] = ()) -> list[h.Action]:
    return n.want(run(1, muster=MusterOrder(number, kind, iteration, members, "why"), **SHAPE))


def node(**changed: object) -> Node:
    made = Node(**changed).running(1, muster=MusterOrder(), **SHAPE)
    made.feed(h.BeatAcked(made.now, 600.0))
    return made


def running(min_world: int = 1, **changed: object) -> Node:
    n = node(**changed)
    for rank in (2, 3):
        assert say(n, rank, "join", needed=min_world) == []
    assert told(order(n, 1, "start", 0, MEMBERS)) == [("start", 0)]
    return n


def test_who_has_joined_is_reported_and_the_start_is_ordered_by_rendezvous():
    n = node()
    say(n, 2, "join")
    assert (report(n).joined, report(n).living) == ((2,), (2, 3))
    say(n, 3, "join")
    assert report(n).joined == (2, 3) and not report(n).is_running
    (tell,) = of(order(n, 1, "start", 0, MEMBERS), MusterTell)
    assert (tell.kind, tell.members, tell.number) == ("start", MEMBERS, 1)
    assert report(n).is_running and report(n).acted.number == 1


@pytest.mark.parametrize("lacks", ["muster", "store_is_served"])
def test_it_is_refused_where_the_service_or_the_store_cannot(lacks: str):
    n = Node().running(1, **{"muster": MusterOrder(), **SHAPE, lacks: None if lacks == "muster" else False})
    assert say(n, 2, "join") == [("refused", 0)]


def test_it_is_refused_where_the_sdk_meets_the_ranks_of_one_node_only():
    n = node()
    fresh = n.feed(MusterHeard(G1, Rank(2), "join", 0, "", 1, LIMIT_S, spans_nodes=False))
    assert [(a.kind, "older than the launcher" in a.sentence) for a in of(fresh, MusterTell)] == [("refused", True)]
    assert report(n) is None


def test_a_break_is_told_here_at_once_reported_and_no_news_when_it_comes_back():
    n = running()
    assert say(n, 2, "broken") == [("interrupt", 0)]
    assert (report(n).iteration, report(n).is_running, report(n).broken) == (1, False, "rank 2: why")
    assert told(order(n, 2, "interrupt", 0)) == []
    for rank in (2, 3):
        assert say(n, rank, "join", 1) == []
    assert told(order(n, 3, "start", 1, MEMBERS)) == [("start", 1)]
    assert told(order(n, 3, "start", 1, MEMBERS)) == [], "once"


def test_a_break_elsewhere_interrupts_those_here():
    n = running()
    assert told(order(n, 2, "interrupt", 0)) == [("interrupt", 0)]
    assert report(n).iteration == 1


@pytest.mark.parametrize("iteration", [0, 1])
def test_a_start_that_was_not_seen_is_told_with_the_break_that_follows_it(iteration: int):
    n = node() if iteration == 0 else running()
    if iteration == 1:
        say(n, 2, "broken")
    for rank in (2, 3):
        say(n, rank, "join", iteration)
    fresh = order(n, 4, "interrupt", iteration, MEMBERS)
    assert told(fresh) == [("start", iteration), ("interrupt", iteration)]
    assert next((tell.number, tell.members) for tell in of(fresh, MusterTell)) == (3, MEMBERS)
    assert (report(n).iteration, report(n).acted.number, report(n).joined) == (iteration + 1, 4, ())
    for rank in (2, 3):
        say(n, rank, "join", iteration + 1)
    assert told(order(n, 5, "start", iteration + 1, MEMBERS)) == [("start", iteration + 1)]


def test_a_start_that_was_not_seen_is_told_with_the_end_that_follows_it():
    n = node()
    for rank in (2, 3):
        say(n, rank, "join")
    assert told(order(n, 2, "over", 0, MEMBERS)) == [("start", 0), ("over", 0)]
    assert n.phase == "Running" and report(n).is_over


def test_a_death_is_forgiven_by_what_is_left_in_all_and_here():
    n = running(min_world=3)
    assert told(n.exits(1, signal=SIGKILL)) == [("interrupt", 0)] and n.phase == "Running"
    assert report(n).living == (2,)
    say(n, 2, "join", 1)
    order(n, 2, "start", 1, MEMBERS[:3])
    n.exits(0, signal=SIGKILL)
    assert n.phase == "TearingDown", "too few in all, and none here"


def test_a_death_is_a_fault_where_too_few_would_be_left_in_all():
    n = running(min_world=4)
    n.exits(1, signal=SIGKILL)
    assert n.phase == "TearingDown"


def test_a_node_that_loses_its_last_rank_restarts():
    n = running()
    n.exits(1, signal=SIGKILL)
    say(n, 2, "join", 1)
    order(n, 2, "start", 1, MEMBERS[:3])
    n.exits(0, signal=SIGKILL)
    assert n.phase == "TearingDown"


def test_a_start_with_a_rank_that_has_ended_meanwhile_is_broken_at_once():
    n = running()
    say(n, 2, "broken")
    for rank in (2, 3):
        say(n, rank, "join", 1)
    n.exits(1, signal=SIGKILL)
    assert told(order(n, 2, "start", 1, MEMBERS)) == [("start", 1), ("interrupt", 1)]
    assert report(n).iteration == 2


def test_it_is_over_by_order_only_and_then_may_begin_again():
    n = running()
    for rank in (2, 3):
        assert say(n, rank, "done", needed=4) == []
    assert (report(n).done, report(n).needed) == (2, 4)
    assert told(order(n, 2, "over")) == [("over", 0)]
    for rank in (2, 3):
        say(n, rank, "join")
    assert report(n).joined == (2, 3) and report(n).acted.number == 2
    assert told(order(n, 3, "start", 0, MEMBERS)) == [("start", 0)]


def test_what_is_over_elsewhere_and_was_broken_here_is_a_fault():
    n = running()
    say(n, 2, "broken")
    order(n, 2, "over")
    assert n.phase == "TearingDown"


def test_ranks_that_wait_for_other_nodes_are_not_at_fault():
    n = running()
    say(n, 2, "broken")
    for rank in (2, 3):
        say(n, rank, "join", 1)
    n.move(3 * LIMIT_S)
    assert n.phase == "Running"


def test_who_does_not_come_is_ended_for_the_sake_of_the_others():
    n = running()
    say(n, 2, "broken")
    say(n, 2, "join", 1)
    assert report(n).evicted == ()
    assert of(n.move(LIMIT_S + 0.1), MusterEvict) == [MusterEvict(G1, (1,))]
    assert report(n).evicted == (3,)
    n.exits(1, signal=SIGKILL)
    assert n.phase == "Running" and report(n).living == (2,) and report(n).evicted == ()


@pytest.mark.parametrize(("how", "evicted"), [(How.STOPPED, True), (How.WAITS, False)])
def test_a_hang_breaks_the_iteration_and_who_cannot_follow_is_ended_at_once(how: How, evicted: bool):
    n = running(captures=Captures.ALL)
    late = Instant(n.now - 1.0)
    pages = tuple(PageReading(local, late, 5, late if local else None) for local in (0, 1))
    looks = n.feed(h.PagesRead(G1, pages))
    assert of(looks, h.Inspect)
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, how))))
    assert of(fresh, MusterEvict) == ([MusterEvict(G1, (1,))] if evicted else [])
    assert told(fresh) == ([] if evicted else [("interrupt", 0)])
    assert n.phase == "Running"


def test_nobody_is_judged_by_silence_while_ranks_are_gathered():
    n = running(captures=Captures.ALL)
    say(n, 2, "broken")
    late = Instant(n.now - 1.0)
    assert not of(n.feed(h.PagesRead(G1, (PageReading(1, late, 5, late),))), h.Inspect)
