"""Workers whose script is over: after a fault nobody waits for what their interpreters still have to tidy up."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM

from resurge_launcher.core import happenings as h
from resurge_launcher.core.model import PageReading
from resurge_launcher.core.worker_news import ScriptOver
from resurge_libs.core.ids import Generation, Rank
from tests.unit.launcher.core_world import Node, down, of, run

ONE = Generation(1)


def over(node: Node, rank: int, generation: int = 1, pid: int | None = None) -> list[h.Action]:
    return node.feed(ScriptOver(Generation(generation), Rank(rank), 1000 + rank - 4 if pid is None else pid))


def signals(actions: list[h.Action]) -> list[int]:
    return [action.signal for action in of(actions, h.SignalWorkers)]


def test_the_last_script_that_is_over_has_all_killed_and_their_strays_looked_for():
    node = Node().running()
    assert signals(node.want(down(1))) == [SIGTERM]
    assert signals(over(node, 4)) == [], "the script of rank 5 still runs"
    actions = over(node, 5)
    assert signals(actions) == [SIGKILL]
    assert of(actions, h.SweepStrays) == [h.SweepStrays(ONE, SIGKILL)]
    assert signals(node.move(5)) == [], "once"
    assert str(node.state.phase.teardown.because.code) == "TEARDOWN_ORDERED"  # type: ignore[union-attr]


def test_scripts_that_are_over_before_the_teardown_begins_get_no_grace():
    node = Node().running()
    over(node, 4)
    over(node, 5)
    assert signals(node.want(down(1))) == [SIGKILL]


def test_it_is_the_living_who_are_waited_for():
    node = Node().running()
    node.exits(0, signal=SIGKILL)
    assert node.phase == "TearingDown"
    assert signals(over(node, 5)) == [SIGKILL]


def test_the_end_of_the_last_whose_script_runs_has_the_others_killed():
    node = Node().running()
    node.want(down(1))
    over(node, 5)
    assert signals(node.exits(0, code=1)) == [SIGKILL]


def test_one_at_its_end_is_not_waited_for():
    node = Node().running()
    node.want(down(1))
    over(node, 5)
    assert signals(node.feed(h.WorkerDying(h.WorkerExited(ONE, 0, 1000, node.now, signal=11)))) == [SIGKILL]


def test_a_worker_of_which_the_start_is_not_known_keeps_its_grace():
    node = Node().attached()
    node.want(run(1))
    node.move(0)
    node.want(down(1))
    over(node, 4)
    over(node, 5)
    assert SIGKILL not in signals(node.actions)


def test_the_end_of_a_script_that_a_shell_has_started_is_not_that_of_the_shell():
    node = Node().running()
    node.want(down(1))
    over(node, 4)
    assert signals(over(node, 5, pid=2000)) == []


def test_a_checkpoint_that_is_open_on_the_page_is_waited_for_until_the_page_says_otherwise():
    node = Node().running()
    for moves in range(3):
        node.move(0.1)
        node.feed(h.PagesRead(ONE, (PageReading(0, open_phase="checkpoint", moves=moves), PageReading(1))))
    node.want(down(1))
    assert signals(over(node, 4)) == []
    assert signals(over(node, 5)) == []
    assert signals(node.feed(h.PagesRead(ONE, (PageReading(0, moves=9), PageReading(1))))) == [SIGKILL]


def test_a_job_that_is_told_to_end_has_its_whole_grace():
    node = Node().running()
    node.feed(h.SignalReceived(SIGTERM))
    assert node.phase == "Leaving"
    over(node, 4)
    over(node, 5)
    assert SIGKILL not in signals(node.actions), "exit codes are those of the scripts"
    assert SIGKILL not in signals(node.move(29))


def test_without_a_fault_it_changes_nothing():
    node = Node().running()
    assert over(node, 4) == []
    assert over(node, 5) == []
    assert node.phase == "Running"
    node.exits(0, code=0)
    node.exits(1, code=0)
    assert node.phase == "Finished"


def test_of_another_generation_it_is_late():
    node = Node().running()
    node.want(down(1))
    over(node, 4, generation=2)
    assert over(node, 5, generation=2) == []
    assert str(node.reason.code) == "LATE_EVENT_IGNORED"
