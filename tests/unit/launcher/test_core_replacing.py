"""Fresh processes in the places of ranks that are lost while they restart in place: asked for, waited for, given up."""

from __future__ import annotations

from signal import SIGKILL

from resurge_launcher.core import happenings as h
from resurge_launcher.core.findings import Captures
from resurge_launcher.core.muster_state import MusterEvict, MusterHeard, MusterTell
from resurge_launcher.core.observe import observe
from resurge_launcher.core.replacement_state import (
    ReplaceDone,
    ReplaceFailed,
    ReplacementStage,
    ReplaceWorkers,
    Replacing,
)
from resurge_launcher.core.replacements import SETTLED_MAX
from resurge_libs.core.ids import Generation, Rank
from tests.unit.launcher.core_world import Node, of, run

G1 = Generation(1)
LIMIT_S, REPLACE_S = 20.0, 5.0
FRESH_PID = 2001


def say(n: Node, rank: int, kind: str, iteration: int = 0, needed: int = 1, pid: int = 0) -> list[tuple]:
    said = MusterHeard(
        G1, Rank(rank), kind, iteration, "why", needed, LIMIT_S, replace_s=REPLACE_S, can_renew=True, pid=pid
    )
    return told(n.feed(said))


def told(actions: list[h.Action]) -> list[tuple]:
    return [(a.kind, a.iteration, tuple(a.members), a.is_anew) for a in of(actions, MusterTell)]


def running(min_world: int = 1, *, replaces: bool = True, grants: bool = True) -> Node:
    n = Node(captures=Captures.ALL, replaces=replaces)
    n.running(1, world_size=2, base_rank=0, replacing=Replacing() if grants else None)
    n.feed(h.BeatAcked(n.now, 600.0))
    say(n, 0, "join", needed=min_world)
    assert say(n, 1, "join", needed=min_world) == [("start", 0, (0, 1), False)]
    return n


def decide(n: Node, **said: object) -> list[h.Action]:
    return n.want(run(1, world_size=2, base_rank=0, replacing=Replacing(**said)))


def stages(n: Node) -> list[ReplacementStage]:
    return [one.stage for one in observe(n.state).replacements]


def lost(min_world: int = 1) -> Node:
    """Rank 1 is dead, rank 0 has come to the next iteration."""
    n = running(min_world)
    assert told(n.exits(1, signal=SIGKILL)) == [("interrupt", 0, (), False)]
    assert say(n, 0, "join", 1) == [], "a fresh process is waited for"
    return n


def test_a_loss_is_a_wish_and_nothing_is_forked_before_it_is_granted():
    n = lost()
    assert stages(n) == [ReplacementStage.WANTED] and not of(n.actions, ReplaceWorkers)
    assert of(decide(n, granted=(1,)), ReplaceWorkers) == [ReplaceWorkers(G1, (1,))]
    assert stages(n) == [ReplacementStage.STARTING]


def test_the_fresh_process_joins_whatever_is_gathered_for_and_all_are_told():
    n = lost(min_world=2)
    decide(n, granted=(1,))
    n.feed(ReplaceDone(G1, 1, FRESH_PID))
    assert stages(n) == [ReplacementStage.COMING]
    assert say(n, 1, "join", pid=1001) == [], "the last words of the one before"
    assert say(n, 1, "join", pid=FRESH_PID) == [("start", 1, (0, 1), True)]
    assert stages(n) == [ReplacementStage.JOINED] and n.phase == "Running"
    assert say(n, 0, "broken", 1) == [("interrupt", 1, (), False)]
    say(n, 0, "join", 2)
    assert say(n, 1, "join", 2, pid=FRESH_PID) == [("start", 2, (0, 1), False)], "from here on as ever"


def test_it_is_forked_only_when_the_process_before_is_reaped():
    n = running()
    n.feed(h.WorkerDying(h.WorkerExited(G1, 1, 1001, n.now, signal=SIGKILL)))
    assert not of(decide(n, granted=(1,)), ReplaceWorkers)
    assert of(n.exits(1, signal=SIGKILL), ReplaceWorkers) == [ReplaceWorkers(G1, (1,))]


def test_what_is_refused_is_gone_on_without():
    n = lost()
    assert told(decide(n, refused_upto=1, sentence="no restart is left")) == [("start", 1, (0,), False)]
    assert observe(n.state).replacements[0].sentence == "no restart is left"


def test_with_too_few_left_without_it_the_generation_is_restarted():
    n = lost(min_world=2)
    decide(n, refused_upto=1, sentence="no restart is left")
    assert n.phase == "TearingDown"
    (fault,) = observe(n.state).faults
    assert fault.rank == 1 and "nothing takes its place: no restart is left" in fault.because.sentence


def test_one_that_cannot_be_forked_is_gone_on_without():
    n = lost()
    decide(n, granted=(1,))
    assert told(n.feed(ReplaceFailed(G1, 1, "the fork server is not warm"))) == [("start", 1, (0,), False)]


def test_one_that_is_never_answered_is_gone_on_without_after_its_limit():
    n = lost()
    assert told(n.move(REPLACE_S - 0.1)) == []
    assert told(n.move(0.2)) == [("start", 1, (0,), False)]


def test_one_that_comes_late_is_ended_and_gone_on_without():
    n = lost()
    decide(n, granted=(1,))
    n.feed(ReplaceDone(G1, 1, FRESH_PID))
    actions = n.move(REPLACE_S)
    assert of(actions, MusterEvict) == [MusterEvict(G1, (1,))] and told(actions) == []
    assert say(n, 1, "join", pid=FRESH_PID) == [], "it is too late"
    end = h.WorkerExited(G1, 1, FRESH_PID, n.now, signal=SIGKILL)
    assert told(n.feed(end)) == [("start", 1, (0,), False)]
    assert stages(n) == [ReplacementStage.GIVEN_UP], "and none takes the place of that one"


def test_one_that_ends_before_it_has_come_is_gone_on_without():
    n = lost()
    decide(n, granted=(1,))
    n.feed(ReplaceDone(G1, 1, FRESH_PID))
    fresh = n.feed(h.WorkerExited(G1, 1, FRESH_PID, n.now, exit_code=1))
    assert told(fresh) == [("start", 1, (0,), False)] and n.phase == "Running"
    assert "ended too" in observe(n.state).replacements[0].sentence
    assert [shown.rank for shown in of(fresh, h.TellFault)] == [1]


def test_one_that_has_come_and_is_lost_is_another_loss():
    n = lost()
    decide(n, granted=(1,))
    n.feed(ReplaceDone(G1, 1, FRESH_PID))
    say(n, 1, "join", pid=FRESH_PID)
    end = h.WorkerExited(G1, 1, FRESH_PID, n.now, signal=SIGKILL)
    assert told(n.feed(end)) == [("interrupt", 1, (), False)]
    assert [(one.number, one.stage) for one in observe(n.state).replacements] == [
        (1, ReplacementStage.JOINED),
        (2, ReplacementStage.WANTED),
    ]


def test_of_those_that_came_the_newest_are_told_of():
    n = running()
    for number in range(1, SETTLED_MAX + 4):
        n.feed(h.WorkerExited(G1, 1, 1001 if number == 1 else FRESH_PID, n.now, signal=SIGKILL))
        say(n, 0, "join", number)
        decide(n, granted=(number,))
        n.feed(ReplaceDone(G1, 1, FRESH_PID))
        assert say(n, 1, "join", pid=FRESH_PID) == [("start", number, (0, 1), True)]
    numbers = [one.number for one in observe(n.state).replacements]
    assert numbers == list(range(3, SETTLED_MAX + 4)), "one more than that, as it came after they were counted"


def test_a_rank_that_is_lost_in_a_second_call_of_the_function_gets_no_fresh_process():
    n = running()
    say(n, 0, "done", needed=2)
    assert say(n, 1, "done", needed=2) == [("over", 0, (), False)]
    say(n, 0, "join")
    assert say(n, 1, "join") == [("start", 0, (0, 1), False)]
    assert told(n.exits(1, signal=SIGKILL)) == [("interrupt", 0, (), False)]
    assert stages(n) == [], "it would begin with the first call"
    assert say(n, 0, "join", 1) == [("start", 1, (0,), False)]


def test_a_fork_that_is_done_when_it_is_not_waited_for_any_more_is_ended():
    n = lost()
    decide(n, granted=(1,))
    n.move(REPLACE_S)
    assert of(n.feed(ReplaceDone(G1, 1, FRESH_PID)), MusterEvict) == [MusterEvict(G1, (1,))]


def test_a_fork_that_is_done_when_all_are_being_ended_is_ended_with_them():
    n = lost(min_world=2)
    decide(n, granted=(1,))
    n.exits(0, signal=SIGKILL)
    assert n.phase == "Running", "both may be replaced"
    n.move(REPLACE_S)
    assert n.phase == "TearingDown"
    actions = n.feed(ReplaceDone(G1, 1, FRESH_PID))
    assert of(actions, h.SignalWorkers) or of(actions, MusterEvict)


def test_where_the_launcher_keeps_no_fork_server_or_rendezvous_knows_of_none_all_is_as_before():
    for n in (running(replaces=False), running(grants=False)):
        n.exits(1, signal=SIGKILL)
        assert say(n, 0, "join", 1) == [("start", 1, (0,), False)]
        assert stages(n) == []
