"""Who is blamed for a silence, and what waits for the look at those that are silent."""

from __future__ import annotations

from signal import SIGKILL, SIGSEGV, SIGTERM

import pytest

from resurge_launcher.core import goals as g
from resurge_launcher.core import happenings as h
from resurge_launcher.core import model as m
from resurge_launcher.core.findings import Captures, Finding, How
from resurge_launcher.core.hangs import INSPECTION_LIMIT_S
from resurge_launcher.core.worker_news import OrderAbort
from resurge_libs.core.ids import Generation, IncidentId
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import HANGS, Because, Reason, vagueness
from tests.unit.launcher.core_world import LIMITS, Node, of, run

G1 = Generation(1)


DOWN = g.DownGoal(G1, Because(Reason.WORKER_HUNG), IncidentId("i1"))


def node(captures: Captures = Captures.ALL) -> Node:
    made = Node(captures=captures).running()
    made.feed(h.BeatAcked(made.now, 600.0))
    made.move(100)
    return made


def silent(node: Node, rank: int, *, for_s: float = 10.0, limit_s: float = 5.0, **changed: object) -> m.PageReading:
    values = {"last_beat_at": Instant(node.now - for_s), "hung_at": Instant(node.now - for_s + limit_s), "step": 3}
    return m.PageReading(rank, **{**values, **changed})  # type: ignore[arg-type]


def faults(actions: list[h.Action]) -> list[tuple[int | None, Reason]]:
    told = of(actions, h.SendObserved)
    return [(f.rank, f.because.code) for f in told[0].observed.faults] if told else []


def look(node: Node, *readings: m.PageReading) -> h.Inspect:
    (asked,) = of(node.feed(h.PagesRead(G1, readings)), h.Inspect)
    return asked


def test_the_workers_are_looked_at_before_one_of_them_is_ended():
    n = node()
    fresh = n.feed(h.PagesRead(G1, (silent(n, 0), silent(n, 1, for_s=1))))
    assert [a.with_stacks for a in of(fresh, h.Inspect)] == [True]
    assert n.phase == "Running" and not of(fresh, h.SignalWorkers)
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.GIL_HELD, "a.py:1 in f"), Finding(1, How.WAITS))))
    assert faults(fresh) == [(4, Reason.WORKER_GIL_HELD)]
    assert of(fresh, h.SignalWorkers) == [h.SignalWorkers(G1, SIGKILL)]
    assert "a.py:1 in f" in n.reason.sentence


@pytest.mark.parametrize(
    ("captures", "section", "with_stacks"),
    [
        (Captures.NONE, "load", False),
        (Captures.SECTIONS, "load", True),
        (Captures.SECTIONS, "", False),
        (Captures.ALL, "", True),
    ],
)
def test_stacks_are_taken_where_they_are_wanted(captures: Captures, section: str, with_stacks: bool):
    n = node(captures)
    assert look(n, silent(n, 0, open_phase=section)).with_stacks is with_stacks


def test_a_look_that_never_ends_costs_its_limit_and_the_worker_is_ended():
    n = node()
    look(n, silent(n, 0))
    fresh = n.move(INSPECTION_LIMIT_S)
    assert faults(fresh) == [(4, Reason.WORKER_HUNG)]
    assert n.phase == "TearingDown"
    assert not n.feed(h.Inspected(G1, (Finding(0, How.BLOCKED),))), "what comes late changes nothing"


def test_nobody_is_looked_at_twice_for_one_silence():
    n = node()
    look(n, silent(n, 0))
    assert not of(n.feed(h.PagesRead(G1, (silent(n, 0), silent(n, 1)))), h.Inspect)


def test_a_worker_that_moves_again_lives_and_may_hang_later():
    n = node()
    look(n, silent(n, 0))
    n.feed(h.PagesRead(G1, (silent(n, 0, for_s=0.0),)))
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.BLOCKED),)))
    assert n.phase == "Running" and not faults(fresh)
    n.move(6)
    look(n, silent(n, 0, for_s=6))


@pytest.mark.parametrize(
    ("first", "second", "blamed"),
    [
        (How.WAITS, How.BLOCKED, 5),
        (How.BLOCKED, How.WAITS, 4),
        (How.BLOCKED, How.GIL_HELD, 5),
        (How.LIVELOCK, How.GIL_HELD, 5),
        (How.UNKNOWN, How.WAITS, 4),
        (How.STOPPED, How.GIL_HELD, 4),
    ],
)
def test_the_clearest_way_to_hang_is_blamed(first: How, second: How, blamed: int):
    n = node()
    look(n, silent(n, 0), silent(n, 1))
    fresh = n.feed(h.Inspected(G1, (Finding(0, first), Finding(1, second))))
    assert faults(fresh)[0][0] == blamed


def test_among_equals_the_one_that_is_furthest_behind_is_blamed():
    n = node()
    look(n, silent(n, 0, step=7), silent(n, 1, step=6, for_s=9))
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.BLOCKED), Finding(1, How.BLOCKED))))
    assert faults(fresh)[0] == (5, Reason.WORKER_BLOCKED)


def three() -> Node:
    """A node of three workers."""
    n = Node(captures=Captures.ALL, local_world_size=3).attached()
    n.want(run())
    n.feed(h.SpawnDone(G1, ((0, 1000), (1, 1001), (2, 1002))), h.BeatAcked(n.now, 600.0))
    n.move(100)
    return n


WORK = "train.py:57 in step"


@pytest.mark.parametrize("elsewhere", [0, 1, 2])
def test_of_those_that_are_blocked_the_one_that_stands_elsewhere_is_blamed(elsewhere: int):
    n = three()
    look(n, *(silent(n, rank, step=9 if rank == elsewhere else 3) for rank in range(3)))
    found = [Finding(rank, How.BLOCKED, "load.py:9 in read" if rank == elsewhere else WORK) for rank in range(3)]
    fresh = n.feed(h.Inspected(G1, tuple(found)))
    assert faults(fresh) == [(4 + elsewhere, Reason.WORKER_BLOCKED)], "the others wait for it at one line"


def test_where_all_are_blocked_at_one_line_the_one_that_is_furthest_behind_is_blamed():
    n = three()
    look(n, *(silent(n, rank, step=5 - rank) for rank in range(3)))
    fresh = n.feed(h.Inspected(G1, tuple(Finding(rank, How.BLOCKED, WORK) for rank in range(3))))
    assert faults(fresh) == [(6, Reason.WORKER_BLOCKED)]


def test_workers_blocked_at_one_line_are_not_blamed_for_a_hang_elsewhere():
    n = three()
    n.feed(h.PagesRead(G1, tuple(silent(n, rank, for_s=50, limit_s=60) for rank in range(3))))
    n.want(DOWN)
    found = (Finding(0, How.BLOCKED, WORK), Finding(1, How.BLOCKED, WORK), Finding(2, How.BLOCKED, "load.py:9 in read"))
    assert faults(n.feed(h.Inspected(G1, found))) == [(6, Reason.WORKER_BLOCKED)]


def test_whoever_is_waited_for_is_blamed_though_its_own_limit_is_longer():
    n = node()
    look(n, silent(n, 0), silent(n, 1, for_s=9, limit_s=600, open_phase="checkpoint"))
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, How.BLOCKED, "save.py:9 in save"))))
    assert faults(fresh)[0] == (5, Reason.WORKER_BLOCKED)


def test_a_clearer_hang_is_blamed_though_its_limit_is_not_over_yet():
    n = node()
    look(n, silent(n, 0), silent(n, 1, for_s=9, limit_s=9.5))
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.BLOCKED), Finding(1, How.STOPPED))))
    assert faults(fresh)[0] == (5, Reason.WORKER_STOPPED)


def test_whoever_has_just_beaten_is_not_blamed_for_those_that_wait():
    n = node()
    look(n, silent(n, 0), silent(n, 1, for_s=1))
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, How.BLOCKED))))
    assert faults(fresh) == [(4, Reason.WORKER_HUNG)], "mere silence: another node may know more"


def test_a_node_told_to_end_its_workers_for_a_hang_elsewhere_looks_first():
    n = node()
    n.feed(h.PagesRead(G1, (silent(n, 0, for_s=50, limit_s=60), silent(n, 1, for_s=49, limit_s=60))))
    fresh = n.want(DOWN)
    assert len(of(fresh, h.Inspect)) == 1 and not of(fresh, h.SignalWorkers)
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, How.GIL_HELD))))
    assert faults(fresh) == [(5, Reason.WORKER_GIL_HELD)] and of(fresh, h.SignalWorkers)


@pytest.mark.parametrize("how", [How.LIVELOCK, How.BLOCKED, How.DEVICE, How.GIL_HELD])
def test_workers_at_work_are_not_blamed_for_a_hang_elsewhere(how: How):
    n = node()
    n.feed(h.PagesRead(G1, (silent(n, 0, for_s=0.3, limit_s=60), silent(n, 1, for_s=0.3, limit_s=60))))
    n.want(DOWN)
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, how))))
    assert n.phase == "TearingDown" and of(fresh, h.SignalWorkers)
    assert not faults(fresh)


def test_a_longer_limit_of_its_own_hides_nobody_from_a_hang_elsewhere():
    n = node()
    saving = silent(n, 1, for_s=49, limit_s=600, open_phase="checkpoint")
    n.feed(h.PagesRead(G1, (silent(n, 0, for_s=50, limit_s=60), saving)))
    n.want(DOWN)
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, How.BLOCKED))))
    assert faults(fresh) == [(5, Reason.WORKER_BLOCKED)]


def test_without_any_limit_nobody_is_blamed_for_a_hang_elsewhere():
    n = node()
    n.feed(h.PagesRead(G1, (silent(n, 0, for_s=50, hung_at=None), silent(n, 1, last_beat_at=None, hung_at=None))))
    n.want(DOWN)
    assert not faults(n.feed(h.Inspected(G1, (Finding(0, How.BLOCKED), Finding(1, How.BLOCKED)))))


@pytest.mark.parametrize("beat", [0.01, 2.0, None])
def test_who_never_beat_in_time_is_blamed_and_not_whoever_just_did(beat: float | None):
    n = node()
    changed = {"last_beat_at": None, "hung_at": None} if beat is None else {"for_s": beat}
    look(n, silent(n, 0, last_beat_at=None), silent(n, 1, **{"limit_s": 60.0, **changed}))
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.UNKNOWN), Finding(1, How.LIVELOCK))))
    assert faults(fresh) == [(4, Reason.WORKER_HUNG)]


def test_of_two_that_never_beat_in_time_the_clearer_one_is_blamed():
    n = node()
    look(n, silent(n, 0, last_beat_at=None), silent(n, 1, last_beat_at=None))
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.UNKNOWN), Finding(1, How.BLOCKED))))
    assert faults(fresh) == [(5, Reason.WORKER_BLOCKED)]


def test_who_has_beaten_and_is_silent_for_long_is_blamed_before_who_never_did():
    n = node()
    look(n, silent(n, 0, last_beat_at=None), silent(n, 1, for_s=40, limit_s=60))
    fresh = n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, How.BLOCKED))))
    assert faults(fresh)[0] == (5, Reason.WORKER_BLOCKED)


@pytest.mark.parametrize(("reason", "is_brief"), [(Reason.WORKER_STOPPED, True), (Reason.WORKER_HUNG, False)])
def test_a_clear_cause_on_another_node_holds_nobody_up_for_long(reason: Reason, is_brief: bool):
    n = node()
    n.feed(h.PagesRead(G1, (silent(n, 0, limit_s=60),)))
    fresh = n.want(g.DownGoal(G1, Because(reason), IncidentId("i1")))
    assert [asked.is_brief for asked in of(fresh, h.Inspect)] == [is_brief]
    assert of(n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, How.WAITS)))), h.SignalWorkers)


STOPPED_ELSEWHERE = g.DownGoal(G1, Because(Reason.WORKER_STOPPED, "rank 0 is stopped"), IncidentId("i1"))


def test_a_clear_cause_on_another_node_releases_the_ranks_before_they_are_looked_at_to_the_end():
    n = node()
    n.feed(h.PagesRead(G1, (silent(n, 0, limit_s=60),)))
    fresh = n.want(STOPPED_ELSEWHERE)
    begun = [action for action in fresh if isinstance(action, h.Inspect | OrderAbort | h.SignalWorkers)]
    assert [type(action) for action in begun] == [h.Inspect, OrderAbort], "behind the signal that writes their stacks"
    order = of(fresh, OrderAbort)[0]
    assert (order.left_s, order.sentence) == (LIMITS.fault_grace_s, str(STOPPED_ELSEWHERE.because))
    ending = n.feed(h.Inspected(G1, (Finding(0, How.WAITS), Finding(1, How.WAITS))))
    assert of(ending, h.SignalWorkers) == [h.SignalWorkers(G1, SIGTERM)]
    assert of(ending, OrderAbort), "again: one that was not waiting yet may wait now"


def test_who_ends_of_the_order_to_leave_its_wait_is_no_fault_of_this_node():
    n = node()
    n.feed(h.PagesRead(G1, (silent(n, 0, limit_s=60),)))
    n.want(STOPPED_ELSEWHERE)
    n.exits(0, code=1)
    assert n.phase == "Running", "the other one is still looked at"
    fresh = n.exits(1, signal=SIGSEGV)
    assert [(r.rank, r.ended_by_launcher) for r in of(fresh, h.SendObserved)[0].observed.exits] == [
        (4, True),
        (5, False),
    ]


@pytest.mark.parametrize("reason", [Reason.WORKER_STOPPED, Reason.WORKER_HUNG])
def test_whoever_may_save_in_a_collective_or_is_watched_in_it_is_not_released_from_it(reason: Reason):
    n = node()
    is_saving = reason is Reason.WORKER_STOPPED
    n.feed(h.PagesRead(G1, (silent(n, 0, limit_s=60, open_phase="checkpoint" if is_saving else ""),)))
    fresh = n.want(g.DownGoal(G1, Because(reason), IncidentId("i1")))
    assert of(fresh, h.Inspect) and not of(fresh, OrderAbort)


def test_a_node_told_to_end_its_workers_looks_for_a_bounded_time_only():
    n = node()
    n.feed(h.PagesRead(G1, (silent(n, 0, limit_s=60),)))
    n.want(g.DownGoal(G1, Because(Reason.WORKER_GIL_HELD), IncidentId("i1")))
    assert of(n.move(INSPECTION_LIMIT_S), h.SignalWorkers) and n.phase == "TearingDown"


@pytest.mark.parametrize("reason", [Reason.WORKER_EXIT, Reason.LEASE_EXPIRED])
def test_a_node_told_to_end_its_workers_for_anything_else_does_so_at_once(reason: Reason):
    n = node()
    n.feed(h.PagesRead(G1, (silent(n, 0, limit_s=60),)))
    assert of(n.want(g.DownGoal(G1, Because(reason), IncidentId("i1"))), h.SignalWorkers)


def test_a_worker_s_end_while_it_is_looked_at_is_the_fault():
    n = node()
    look(n, silent(n, 0))
    fresh = n.exits(1, code=3)
    assert n.phase == "TearingDown"
    assert [r.exit_code for r in of(fresh, h.SendObserved)[0].observed.exits] == [3]


def test_a_look_without_a_limit_s_end_is_not_begun():
    n = node()
    assert not of(n.feed(h.PagesRead(G1, (silent(n, 0, limit_s=60),))), h.Inspect)


def test_what_happened_stands_before_where_one_stands_still_and_that_before_silence():
    assert sorted(HANGS, key=vagueness)[-2:] == [Reason.WORKER_BLOCKED, Reason.WORKER_HUNG]
    assert vagueness(Reason.WORKER_EXIT) == vagueness(Reason.WORKER_STOPPED) == 0


def judged(n: Node, readings: tuple[m.PageReading, ...], *findings: Finding) -> list[tuple[int | None, Reason]]:
    look(n, *readings)
    return faults(n.feed(h.Inspected(G1, findings)))


def test_whoever_has_never_said_anything_is_not_waited_for_to_be_looked_at():
    n = Node(captures=Captures.ALL).running()
    assert not of(n.want(DOWN), h.Inspect)
    assert n.phase == "TearingDown"


def test_who_is_late_and_could_not_be_looked_at_is_to_blame_all_the_same():
    n = node()
    held = Finding(1, How.GIL_HELD, "a.py:1 in f")
    assert judged(n, (silent(n, 0), silent(n, 1, for_s=8, limit_s=9)), held)[0] == (4, Reason.WORKER_HUNG)


def test_among_equals_it_is_one_past_its_limit_though_another_is_further_behind():
    n = node()
    both = (Finding(0, How.GIL_HELD, "a.py:1 in f"), Finding(1, How.GIL_HELD, "b.py:1 in g"))
    readings = (silent(n, 0, step=9), silent(n, 1, for_s=8, limit_s=9, step=3))
    assert judged(n, readings, *both)[0] == (4, Reason.WORKER_GIL_HELD)


def test_workers_blocked_nobody_knows_where_are_not_at_one_line():
    n = node()
    found = judged(n, (silent(n, 0), silent(n, 1)), Finding(0, How.BLOCKED), Finding(1, How.BLOCKED))
    assert sorted(found) == [(4, Reason.WORKER_BLOCKED), (5, Reason.WORKER_BLOCKED)]


def test_one_that_has_never_beaten_is_not_silent_for_long():
    n = node()
    never = m.PageReading(1, hung_at=Instant(n.now + 50.0))
    found = judged(n, (silent(n, 0), never), Finding(0, How.WAITS), Finding(1, How.GIL_HELD, "a.py:1 in f"))
    assert found == [(4, Reason.WORKER_HUNG)]


def test_only_workers_that_are_blocked_make_a_crowd_at_a_line():
    n = three()
    found = (Finding(0, How.LIVELOCK, "x"), Finding(1, How.LIVELOCK, "y"), Finding(2, How.BLOCKED, "y"))
    readings = (silent(n, 0, step=9), silent(n, 1, step=3), silent(n, 2))
    assert judged(n, readings, *found)[0] == (5, Reason.WORKER_LIVELOCK), "it is further behind"
