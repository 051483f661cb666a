"""Workers that restart in place: who is gathered, what is forgiven, and when the launcher restarts after all."""

from __future__ import annotations

from signal import SIGKILL

import pytest

from resurge_launcher.core import happenings as h
from resurge_launcher.core.findings import Captures, Finding, How
from resurge_launcher.core.muster_state import MusterEvict, MusterHeard, MusterTell
from resurge_launcher.core.readings import Milestone, MilestoneKind, PageReading
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Reason
from tests.unit.launcher.core_world import Node, of

G1 = Generation(1)
LIMIT_S = 20.0


def node(**changed: object) -> Node:
    made = Node(captures=Captures.ALL).running(1, **{"world_size": 2, "base_rank": 0, **changed})
    made.feed(h.BeatAcked(made.now, 600.0))
    return made


def say(n: Node, rank: int, kind: str, iteration: int = 0, needed: int = 1) -> list[tuple[str, int, tuple[int, ...]]]:
    heard = MusterHeard(G1, Rank(rank), kind, iteration, "why", needed, LIMIT_S)
    return told(n.feed(heard))


def told(actions: list[h.Action]) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(a.kind, a.iteration, tuple(a.members)) for a in of(actions, MusterTell)]


def running(min_world: int = 1, **changed: object) -> Node:
    n = node(**changed)
    assert say(n, 0, "join", needed=min_world) == []
    assert say(n, 1, "join", needed=min_world) == [("start", 0, (0, 1))]
    return n


def test_an_iteration_starts_when_all_have_joined_and_ends_when_all_have_finished():
    n = running()
    assert say(n, 0, "done", needed=2) == []
    assert say(n, 1, "done", needed=2) == [("over", 0, ())]
    n.exits(0, code=0)
    n.exits(1, code=0)
    assert n.phase == "Finished"


def test_the_first_word_breaks_an_iteration_for_all_and_the_next_starts_with_all():
    n = running()
    assert say(n, 1, "broken") == [("interrupt", 0, ())]
    assert say(n, 0, "broken") == [], "a consequence"
    assert say(n, 0, "join", 1) == []
    assert say(n, 1, "join", 1) == [("start", 1, (0, 1))]
    assert n.phase == "Running"


def test_a_death_is_forgiven_and_the_others_go_on_without_it():
    n = running()
    fresh = n.exits(1, signal=SIGKILL)
    assert told(fresh) == [("interrupt", 0, ())] and n.phase == "Running"
    (shown,) = of(fresh, h.TellFault)
    assert shown.rank == 1 and shown.because.code is Reason.WORKER_SIGNAL, "people are told all the same"
    assert say(n, 0, "join", 1) == [("start", 1, (0,))]
    assert say(n, 0, "done", 1, needed=1) == [("over", 1, ())]
    n.exits(0, code=0)
    assert n.phase == "Finished"


def test_a_death_that_is_known_only_after_its_consequence_does_not_stop_the_gathering():
    n = running()
    say(n, 0, "broken")
    assert say(n, 0, "join", 1) == []
    fresh = n.exits(1, signal=SIGKILL)
    assert told(fresh) == [("start", 1, (0,))]
    assert [shown.rank for shown in of(fresh, h.TellFault)] == [1], "people are told all the same"


def test_a_death_is_told_also_where_nothing_is_to_be_told_to_the_ranks():
    n = running()
    say(n, 0, "broken")
    fresh = n.exits(1, signal=SIGKILL)
    assert told(fresh) == [] and [shown.rank for shown in of(fresh, h.TellFault)] == [1]
    assert say(n, 0, "join", 1) == [("start", 1, (0,))]


def test_a_second_call_after_a_loss_starts_with_those_that_are_left():
    n = running()
    n.exits(1, signal=SIGKILL)
    say(n, 0, "join", 1)
    assert say(n, 0, "done", 1, needed=1) == [("over", 1, ())]
    assert say(n, 0, "join") == [("start", 0, (0,))]
    assert say(n, 0, "done", needed=1) == [("over", 0, ())]


def test_a_second_call_for_which_too_few_are_left_is_a_fault_after_its_limit():
    n = running()
    n.exits(1, signal=SIGKILL)
    say(n, 0, "join", 1)
    say(n, 0, "done", 1, needed=1)
    assert say(n, 0, "join", needed=2) == []
    n.move(LIMIT_S - 0.1)
    assert n.phase == "Running"
    n.move(0.2)
    assert n.phase == "TearingDown"


@pytest.mark.parametrize("is_early", [True, False])
def test_a_rank_that_has_ended_as_it_should_is_not_waited_for_in_a_second_call(is_early: bool):
    n = running()
    say(n, 0, "done", needed=1)
    if is_early:
        n.exits(1, code=0)
        assert say(n, 0, "join") == [("start", 0, (0,))]
    else:
        assert say(n, 0, "join") == []
        assert told(n.exits(1, code=0)) == [("start", 0, (0,))]


@pytest.mark.parametrize("broken_before", [False, True])
def test_an_end_that_is_none_to_go_on_from_is_a_fault_though_enough_are_left(broken_before: bool):
    n = running()
    if broken_before:
        say(n, 0, "broken")
        say(n, 0, "join", 1)
    assert say(n, 1, "abort") == [] and n.phase == "Running"
    assert say(n, 0, "broken") == [], "a consequence"
    fresh = n.exits(1, code=1)
    assert n.phase == "TearingDown"
    observed = of(fresh, h.SendObserved)[0].observed
    assert [(e.rank, e.ended_by_launcher) for e in observed.exits] == [(1, False)]


def test_a_death_known_twice_counts_once():
    n = running()
    end = h.WorkerExited(G1, 1, 1001, n.now, signal=SIGKILL)
    assert told(n.feed(h.WorkerDying(end))) == [("interrupt", 0, ())]
    assert told(n.feed(end)) == [] and n.phase == "Running"
    assert say(n, 0, "join", 1) == [("start", 1, (0,))]


@pytest.mark.parametrize("before", ["never joined", "too few", "over", "an ordinary end"])
def test_a_death_is_a_fault_as_ever_where_nobody_goes_on_in_place(before: str):
    n = node() if before == "never joined" else running(min_world=2 if before == "too few" else 1)
    if before == "over":
        say(n, 0, "done", needed=1)
    if before == "an ordinary end":
        n.exits(0, code=0)
    n.exits(1, signal=SIGKILL)
    assert n.phase == "TearingDown"


def test_who_does_not_come_back_in_time_is_at_fault_and_the_launcher_restarts():
    n = running()
    say(n, 1, "broken")
    say(n, 1, "join", 1)
    n.move(LIMIT_S - 0.1)
    assert n.phase == "Running"
    assert of(n.move(0.2), MusterEvict) == [MusterEvict(G1, (0,))], "the other one goes on without it"
    assert n.phase == "Running"
    n.move(LIMIT_S - 0.3)
    assert n.phase == "Running"
    fresh = n.move(0.2)
    assert n.phase == "TearingDown", "it cannot be ended"
    observed = of(fresh, h.SendObserved)[0].observed
    assert [(f.rank, f.because.code) for f in observed.faults] == [(0, Reason.WORKER_HUNG)]


def test_who_does_not_come_back_in_time_is_ended_and_gone_on_without():
    n = running()
    say(n, 1, "broken")
    say(n, 1, "join", 1)
    n.move(LIMIT_S + 0.1)
    fresh = n.exits(0, signal=SIGKILL)
    assert told(fresh) == [("start", 1, (1,))]
    (shown,) = of(fresh, h.TellFault)
    assert (shown.rank, shown.because.code) == (0, Reason.WORKER_HUNG), "people are told why it was ended"


def test_who_does_not_come_back_in_time_is_at_fault_where_too_few_would_be_left():
    n = running(min_world=2)
    say(n, 1, "broken")
    say(n, 1, "join", 1)
    fresh = n.move(LIMIT_S + 0.1)
    assert n.phase == "TearingDown" and not of(fresh, MusterEvict)


def stopped(n: Node, local: int) -> list[h.Action]:
    """A look at silent workers finds this one stopped."""
    late = Instant(n.now - 1.0)
    pages = tuple(PageReading(one, late, 5, late if one == local else None) for one in (0, 1))
    looks = n.feed(h.PagesRead(G1, pages))
    if not of(looks, h.Inspect):
        return looks
    return n.feed(h.Inspected(G1, (Finding(1 - local, How.WAITS), Finding(local, How.STOPPED))))


def test_who_is_stopped_and_cannot_be_ended_is_ended_once_and_then_at_fault():
    n = running()
    assert of(stopped(n, 1), MusterEvict) == [MusterEvict(G1, (1,))]
    for _ in range(4):
        n.move(LIMIT_S / 4 - 0.1)
        assert not of(stopped(n, 1), MusterEvict) and n.phase == "Running"
    fresh = n.move(0.5)
    assert n.phase == "TearingDown", "it cannot be ended"
    observed = of(fresh, h.SendObserved)[0].observed
    assert [(f.rank, f.because.code) for f in observed.faults] == [(1, Reason.WORKER_HUNG)]


def test_who_is_stopped_and_ends_late_is_gone_on_without():
    n = running()
    stopped(n, 1)
    n.move(LIMIT_S - 0.1)
    assert told(n.exits(1, signal=SIGKILL)) == [("interrupt", 0, ())]
    n.move(LIMIT_S - 0.1)
    assert say(n, 0, "join", 1) == [("start", 1, (0,))]
    n.move(2 * LIMIT_S)
    assert n.phase == "Running"


def test_a_world_on_several_nodes_is_left_to_the_launchers():
    n = node(world_size=8)
    assert say(n, 0, "join") == [("refused", 0, ())]
    n.exits(1, signal=SIGKILL)
    assert n.phase == "TearingDown"


@pytest.mark.parametrize("kind", ["join", "broken", "done"])
def test_words_about_another_iteration_change_nothing(kind: str):
    n = running()
    before = n.state
    assert say(n, 0, kind, 5, needed=1) == [] or kind == "done"
    assert n.state == before or kind == "done"
    assert not n.feed(MusterHeard(Generation(7), Rank(0), kind, 0))


def test_an_iteration_is_not_over_by_words_about_another():
    n = running()
    assert say(n, 0, "done", 3, needed=1) == []


@pytest.mark.parametrize("absence", ["reserve", "lost"])
def test_ranks_that_do_not_run_hold_up_no_start(absence: str):
    n = running()
    if absence == "reserve":
        assert say(n, 1, "reserve") == []
    else:
        n.exits(1, signal=SIGKILL)
        say(n, 0, "join", 1)
    at = n.now
    reached = (
        Milestone(Rank(0), MilestoneKind.PROCESS_GROUP_READY, at),
        Milestone(Rank(0), MilestoneKind.FIRST_STEP, at, 4),
    )
    fresh = n.feed(h.PagesRead(G1, (PageReading(0, milestones=reached),)))
    observed = of(fresh, h.SendObserved)[-1].observed
    told_of = {(m.rank, m.kind, m.step) for m in observed.milestones}
    assert told_of == {(rank, m.kind, m.step) for m in reached for rank in (0, 1)}


def test_a_rank_that_runs_is_awaited_though_it_was_in_reserve_in_another_iteration():
    n = running()
    say(n, 1, "reserve", 7)
    reached = (Milestone(Rank(0), MilestoneKind.FIRST_STEP, n.now, 4),)
    fresh = n.feed(h.PagesRead(G1, (PageReading(0, milestones=reached),)))
    assert {m.rank for m in of(fresh, h.SendObserved)[-1].observed.milestones} == {0}
