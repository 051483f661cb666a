"""Guards of restarts in place that no other test would miss: each fails when one condition of a rule is taken out."""

from __future__ import annotations

from signal import SIGKILL

import pytest

from resurge_launcher.core import happenings as h
from resurge_launcher.core.findings import Captures, Finding, How
from resurge_launcher.core.muster_state import MusterEvict, MusterHeard, MusterOrder, MusterReport
from resurge_launcher.core.musters import LIMIT_MOST_S
from resurge_launcher.core.observe import observe
from resurge_launcher.core.readings import Milestone, MilestoneKind, PageReading
from resurge_launcher.core.replacement_state import ReplaceDone, ReplaceFailed, ReplacementStage, Replacing
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant
from tests.unit.launcher import test_core_muster_lines as lines
from tests.unit.launcher import test_core_replacing as fresh
from tests.unit.launcher.core_world import Node, down, of, run
from tests.unit.launcher.test_core_musters import G1, LIMIT_S, node, running, say, stopped, told


def spread(**changed: object) -> MusterReport:
    """What a node reports of the first rank that joins and says this."""
    n = lines.node()
    n.feed(MusterHeard(G1, Rank(2), "join", 0, "", **{"needed": 1, "limit_s": LIMIT_S, **changed}))
    return lines.report(n)


# --- who joins


def test_a_rank_that_is_lost_has_not_joined_whatever_it_said_before_or_is_still_heard_to_say():
    n = lines.running()
    lines.say(n, 2, "broken")
    lines.say(n, 3, "join", 1)
    n.exits(1, signal=SIGKILL)
    assert lines.report(n).joined == ()
    lines.say(n, 3, "join", 1)
    lines.say(n, 2, "join", 1)
    assert lines.report(n).joined == (2,)


def test_a_join_counts_for_the_iteration_that_is_gathered_for_and_for_no_other():
    n = running()
    assert say(n, 0, "join") == [], "it runs"
    say(n, 1, "broken")
    assert say(n, 0, "join", 5) == []
    assert say(n, 1, "join", 1) == [], "rank 0 has not come"
    assert say(n, 0, "join", 1) == [("start", 1, (0, 1))]


@pytest.mark.parametrize(("asked_s", "limit_s"), [(-5.0, 0.0), (1e9, LIMIT_MOST_S), (7.0, 7.0)])
def test_the_limit_that_ranks_ask_for_is_bounded(asked_s: float, limit_s: float):
    assert spread(limit_s=asked_s).limit_s == limit_s


def test_ranks_are_given_anew_where_the_sdk_of_all_knows_and_in_the_first_call_only():
    n = lines.node()
    for rank, can_renew in ((2, True), (3, False)):
        n.feed(MusterHeard(G1, Rank(rank), "join", 0, "", 1, LIMIT_S, can_renew=can_renew))
    assert not lines.report(n).can_renew
    assert spread(can_renew=True).can_renew
    n = lines.running()
    lines.order(n, 2, "over")
    n.feed(MusterHeard(G1, Rank(2), "join", 0, "", 1, LIMIT_S, can_renew=True))
    assert not lines.report(n).can_renew


@pytest.mark.parametrize("last", [{"replace_s": 0.0, "can_renew": True}, {"replace_s": 5.0, "can_renew": False}])
def test_no_fresh_process_is_asked_for_that_one_rank_does_not_want_or_does_not_know_of(last: dict[str, object]):
    n = Node(captures=Captures.ALL, replaces=True)
    n.running(1, world_size=2, base_rank=0, replacing=Replacing())
    n.feed(h.BeatAcked(n.now, 600.0))
    for rank, said in ((0, {"replace_s": 5.0, "can_renew": True}), (1, last)):
        n.feed(MusterHeard(G1, Rank(rank), "join", 0, "", 1, LIMIT_S, **said))
    n.exits(1, signal=SIGKILL)
    assert n.phase == "Running" and observe(n.state).replacements == ()


def test_a_world_smaller_than_the_smallest_that_goes_on_starts_whole():
    n = node()
    assert say(n, 0, "join", needed=3) == []
    assert say(n, 1, "join", needed=3) == [("start", 0, (0, 1))]


def test_what_is_left_of_several_nodes_is_judged_by_rendezvous():
    n = lines.running(min_world=2)
    n.exits(1, signal=SIGKILL)
    lines.say(n, 2, "join", 1)
    lines.order(n, 2, "start", 1, lines.MEMBERS[:3])
    lines.order(n, 3, "over", 1)
    lines.say(n, 2, "join", needed=2)
    assert n.state.phase.crew.muster.until is None, "no bound but that of rendezvous"


# --- what breaks, and what ends


def test_a_word_of_an_iteration_that_is_gathered_for_breaks_nothing():
    n = running()
    say(n, 0, "broken")
    assert say(n, 0, "broken", 1) == []
    say(n, 0, "join", 1)
    assert say(n, 1, "join", 1) == [("start", 1, (0, 1))]


def test_an_abort_of_another_iteration_ends_nothing():
    n = running()
    say(n, 1, "abort", 7)
    n.exits(1, code=1)
    assert n.phase == "Running"


def test_a_launcher_counts_no_end_that_rendezvous_counts():
    n = lines.running()
    lines.say(n, 2, "done", needed=2)
    assert lines.say(n, 3, "done", needed=2) == []
    assert (lines.report(n).done, lines.report(n).is_over) == (2, False)


def test_a_death_before_the_first_start_is_a_fault():
    n = node()
    say(n, 0, "join")
    n.exits(1, signal=SIGKILL)
    assert n.phase == "TearingDown"


def test_a_death_whose_process_is_reaped_late_breaks_nothing_that_runs_by_then():
    n = running()
    end = h.WorkerExited(G1, 1, 1001, n.now, signal=SIGKILL)
    n.feed(h.WorkerDying(end))
    assert say(n, 0, "join", 1) == [("start", 1, (0,))]
    assert told(n.feed(end)) == []
    assert say(n, 0, "done", 1, needed=1) == [("over", 1, ())]


def reached(n: Node, *ranks: int) -> list[tuple[int, MilestoneKind]]:
    """What is told of milestones after these ranks of the node's first two have committed a step."""
    step = [Milestone(Rank(rank), MilestoneKind.FIRST_STEP, n.now, 4) for rank in ranks]
    n.feed(h.PagesRead(G1, tuple(PageReading(rank, milestones=(step[at],)) for at, rank in enumerate(ranks))))
    return [(m.rank, m.kind) for m in observe(n.state).milestones]


def test_what_the_others_reached_is_told_of_a_lost_rank_once():
    n = running()
    n.exits(1, signal=SIGKILL)
    say(n, 0, "join", 1)
    once = reached(n, 0)
    assert sorted(once) == [(0, MilestoneKind.FIRST_STEP), (1, MilestoneKind.FIRST_STEP)]
    n.move(1.0)
    assert reached(n, 0) == once


def test_a_rank_that_was_lost_in_an_earlier_call_holds_up_no_start_of_the_next():
    n = running()
    n.exits(1, signal=SIGKILL)
    say(n, 0, "join", 1)
    say(n, 0, "done", 1, needed=1)
    assert say(n, 0, "join") == [("start", 0, (0,))]
    assert {rank for rank, _ in reached(n, 0)} == {0, 1}


# --- silence


def test_a_look_that_was_begun_before_a_break_judges_nobody_who_is_gathered():
    n = running()
    late = Instant(n.now - 1.0)
    looks = n.feed(h.PagesRead(G1, tuple(PageReading(one, late, 5, late) for one in (0, 1))))
    assert of(looks, h.Inspect)
    say(n, 0, "broken")
    found = n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, How.STOPPED))))
    assert n.phase == "Running" and not of(found, MusterEvict)


@pytest.mark.parametrize("before", ["never started", "too few"])
def test_who_clearly_hangs_is_at_fault_where_nothing_runs_or_too_few_would_be_left(before: str):
    n = node() if before == "never started" else running(min_world=2)
    if before == "never started":
        say(n, 0, "join")
    assert not of(stopped(n, 1), MusterEvict)
    assert n.phase == "TearingDown"


# --- orders


def test_an_interrupt_that_names_the_members_starts_nothing_again():
    n = lines.running()
    assert lines.told(lines.order(n, 2, "interrupt", 0, lines.MEMBERS)) == [("interrupt", 0)]


def test_the_end_of_another_iteration_is_none_of_this_one():
    n = lines.running()
    assert lines.told(lines.order(n, 2, "over", 5)) == []
    assert n.phase == "TearingDown", "those that finished elsewhere do not come back"


def test_nobody_is_late_for_what_is_over():
    n = lines.running(captures=Captures.ALL)
    late = Instant(n.now - 1.0)
    n.feed(h.PagesRead(G1, tuple(PageReading(one, late, 5, late if one else None) for one in (0, 1))))
    assert of(n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, How.STOPPED)))), MusterEvict)
    lines.order(n, 2, "over")
    assert not of(n.move(2 * LIMIT_S), MusterEvict)
    assert n.phase == "Running"


# --- fresh processes


def test_what_became_of_fresh_processes_is_told_also_in_a_later_call():
    n = fresh.lost()
    fresh.decide(n, refused_upto=1, sentence="no restart is left")
    fresh.say(n, 0, "done", 1, needed=1)
    fresh.say(n, 0, "join")
    assert fresh.stages(n) == [ReplacementStage.GIVEN_UP]


def test_two_are_waited_for_and_one_that_is_refused_leaves_the_other():
    n = fresh.running()
    n.exits(1, signal=SIGKILL)
    n.exits(0, signal=SIGKILL)
    assert fresh.stages(n) == [ReplacementStage.WANTED] * 2
    fresh.decide(n, granted=(2,), refused_upto=1)
    assert n.phase == "Running", "the other one is enough"
    assert fresh.stages(n) == [ReplacementStage.GIVEN_UP, ReplacementStage.STARTING]


def test_it_is_for_the_iteration_that_follows_and_waited_for_no_longer_than_anybody():
    n = fresh.running()
    fresh.say(n, 0, "broken")
    fresh.say(n, 0, "join", 1)
    n.move(LIMIT_S - 2.0)
    n.exits(1, signal=SIGKILL)
    assert observe(n.state).replacements[0].iteration == 1
    assert fresh.told(n.move(1.9)) == []
    assert fresh.told(n.move(0.2)) == [("start", 1, (0,), False)]
    assert observe(fresh.lost().state).replacements[0].iteration == 1


def test_news_that_fits_no_fork_under_way_changes_nothing():
    n = fresh.lost()
    n.feed(ReplaceFailed(G1, 1, "none was begun"))
    assert fresh.stages(n) == [ReplacementStage.WANTED]
    fresh.decide(n, granted=(1,))
    n.feed(ReplaceFailed(Generation(7), 1, "of another generation"))
    assert fresh.stages(n) == [ReplacementStage.STARTING]
    n.feed(ReplaceDone(G1, 1, fresh.FRESH_PID))
    assert not of(n.feed(ReplaceDone(G1, 1, fresh.FRESH_PID + 1)), MusterEvict), "it is known"
    assert fresh.stages(n) == [ReplacementStage.COMING]


def test_nothing_is_gone_on_with_in_a_teardown():
    n = fresh.lost()
    fresh.decide(n, granted=(1,))
    n.want(down(1))
    assert n.phase == "TearingDown"
    assert fresh.told(n.feed(ReplaceFailed(G1, 1, "the fork server is gone"))) == []


def test_nothing_is_waited_for_once_a_rank_says_that_its_error_is_none_to_go_on_from():
    n = fresh.lost()
    fresh.say(n, 0, "abort", 1)
    assert fresh.told(n.move(fresh.REPLACE_S + 1.0)) == []
    assert n.phase == "Running" and fresh.stages(n) == [ReplacementStage.WANTED]


def test_with_ranks_on_several_nodes_one_that_is_waited_for_lives_and_joins_nothing_that_runs():
    shape = {**lines.SHAPE, "replacing": Replacing()}
    n = Node(replaces=True).running(1, muster=MusterOrder(), **shape)
    n.feed(h.BeatAcked(n.now, 600.0))
    for rank in (2, 3):
        n.feed(MusterHeard(G1, Rank(rank), "join", 0, "", 1, LIMIT_S, replace_s=5.0, can_renew=True))

    def order(number: int, kind: str, iteration: int, members: tuple[Rank, ...]) -> None:
        muster = MusterOrder(number, kind, iteration, members, "why")
        n.want(run(1, muster=muster, **{**shape, "replacing": Replacing((1,))}))

    order(1, "start", 0, lines.MEMBERS)
    n.exits(1, signal=SIGKILL)
    assert lines.report(n).living == (2, 3), "a fresh process is on its way"
    lines.say(n, 2, "join", 1)
    order(2, "start", 1, lines.MEMBERS[:3])
    n.feed(ReplaceDone(G1, 1, fresh.FRESH_PID))
    n.feed(MusterHeard(G1, Rank(3), "join", 1, "", 1, LIMIT_S, pid=fresh.FRESH_PID, can_renew=True))
    assert (lines.report(n).is_running, lines.report(n).joined) == (True, ())


def test_the_end_of_a_fresh_process_is_the_end_of_the_wait_for_it_also_where_none_is_wanted_any_more():
    n = fresh.lost(min_world=2)
    fresh.decide(n, granted=(1,))
    n.feed(ReplaceDone(G1, 1, fresh.FRESH_PID))
    n.feed(MusterHeard(G1, Rank(0), "join", 1, "", 2, LIMIT_S, replace_s=0.0, can_renew=True))
    n.feed(h.WorkerExited(G1, 1, fresh.FRESH_PID, n.now, exit_code=1))
    assert n.phase == "TearingDown"
    (fault,) = observe(n.state).faults
    assert "nothing takes its place: the one in its place has ended too" in fault.because.sentence


def test_what_is_said_of_another_generation_decides_nothing_here():
    n = fresh.lost()
    told = n.want(run(2, world_size=2, base_rank=0, replacing=Replacing((), 1, "no restart is left")))
    assert fresh.told(told) == []
    assert fresh.stages(n) != [ReplacementStage.GIVEN_UP]


# --- three ranks on a node


def three(**changed: object) -> Node:
    n = Node(local_world_size=3).attached()
    n.want(run(1, base_rank=0, **changed))
    n.move(0)
    n.feed(h.SpawnDone(G1, ((0, 1000), (1, 1001), (2, 1002))), h.BeatAcked(n.now, 600.0))
    return n


def test_what_only_one_of_those_that_run_has_reached_is_told_of_nobody_who_does_not():
    n = three(world_size=3)
    for rank in range(3):
        say(n, rank, "join")
    say(n, 2, "reserve")
    assert reached(n, 0) == [(0, MilestoneKind.FIRST_STEP)]


def test_those_that_were_lost_before_are_not_among_those_that_are_left():
    n = three(world_size=4, muster=MusterOrder(), store_is_served=True)
    for rank in range(3):
        say(n, rank, "join", needed=3)
    start = MusterOrder(1, "start", 0, tuple(Rank(rank) for rank in range(4)))
    n.want(run(1, base_rank=0, world_size=4, muster=start, store_is_served=True))
    n.exits(2, signal=SIGKILL)
    assert n.phase == "Running", "three are left"
    n.exits(1, signal=SIGKILL)
    assert n.phase == "TearingDown"
