"""A rank says that its loop has crashed: its world ends by its deadline at the latest, and for that reason."""

from __future__ import annotations

from signal import SIGKILL

import pytest

from resurge_launcher.core import happenings as h
from resurge_launcher.core.crashes import MARGIN_S
from resurge_launcher.core.muster_state import MusterHeard
from resurge_launcher.core.observe import observe
from resurge_launcher.core.worker_news import CrashSpared, LoopCrashed, OrderAbort
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Reason
from tests.unit.launcher.core_world import Node, of

ONE = Generation(1)
ERROR = "ValueError: what broke the loop"


def crashes(node: Node, rank: int = 4, generation: Generation = ONE, kill_in_s: float = 10.0) -> list[h.Action]:
    return node.feed(LoopCrashed(generation, Rank(rank), ERROR, node.now, kill_in_s))


def faults(node: Node) -> list[tuple[Reason, int | None, Instant]]:
    return [(fault.because.code, fault.rank, fault.at) for fault in observe(node.state).faults]


def test_until_its_deadline_a_crashed_rank_harms_nobody():
    node = Node().running()
    crashes(node)
    node.move(10.0)
    assert node.phase == "Running"
    assert faults(node) == []


def test_past_it_the_launcher_ends_the_world_and_the_cause_is_the_exception_since_the_crash():
    node = Node().running()
    began = node.now
    crashes(node)
    actions = node.move(10.0 + MARGIN_S)
    assert node.phase == "TearingDown"
    assert faults(node) == [(Reason.WORKER_CRASHED, 4, began)]
    assert ERROR in of(actions, OrderAbort)[0].sentence
    assert ERROR in of(actions, h.TellFault)[0].because.sentence


@pytest.mark.parametrize("end", [{"code": 1}, {"signal": SIGKILL}])
def test_a_rank_that_ends_by_its_crash_is_told_as_crashed_at_once_with_its_record(end):
    node = Node().running()
    began = node.now
    crashes(node)
    node.move(0.5)
    (told,) = of(node.exits(0, **end), h.TellFault)
    assert faults(node) == [(Reason.WORKER_CRASHED, 4, began)]
    assert told.because.code is Reason.WORKER_CRASHED
    assert told.record is not None and told.record.rank == 4, "with it its error file is shown"
    assert len(observe(node.state).exits) == 1


def test_the_end_of_another_rank_is_its_own():
    node = Node().running()
    crashes(node)
    node.exits(1, code=3)
    assert faults(node) == []


def test_a_crash_that_was_delivered_harms_nobody():
    node = Node().running()
    crashes(node)
    node.move(10.0)
    node.feed(CrashSpared(ONE, Rank(4)))
    node.move(100)
    assert node.phase == "Running"
    node.exits(0, code=0)
    node.exits(1, code=0)
    assert node.phase == "Finished"


def test_a_deadline_is_never_extended():
    node = Node().running()
    crashes(node)
    node.move(9.0)
    crashes(node)
    node.move(1.0 + MARGIN_S)
    assert node.phase == "TearingDown"


@pytest.mark.parametrize("who", [{"generation": Generation(0)}, {"rank": 99}])
def test_nobody_s_crash_is_ignored(who):
    node = Node().running()
    crashes(node, kill_in_s=0.0, **who)
    node.move(60)
    assert node.phase == "Running"
    assert node.reason.code in (Reason.LATE_EVENT_IGNORED, Reason.TICK)


def test_a_crashed_rank_that_ends_well_harms_nobody():
    node = Node().running()
    crashes(node)
    node.exits(0, code=0)
    node.move(10.0 + MARGIN_S)
    assert node.phase == "Running"
    assert faults(node) == []
    node.exits(1, code=0)
    assert node.phase == "Finished"


def test_the_good_end_of_another_rank_spares_no_crashed_one():
    node = Node().running()
    crashes(node)
    node.exits(1, code=0)
    node.move(10.0 + MARGIN_S)
    assert [code for code, _, _ in faults(node)] == [Reason.WORKER_CRASHED]


def test_a_crashed_rank_whose_end_is_forgiven_harms_nobody():
    node = Node().running(1, world_size=2, base_rank=0)
    for rank in (0, 1):
        node.feed(MusterHeard(ONE, Rank(rank), "join", 0, "", 1, 20.0))
    crashes(node, rank=0)
    node.exits(0, code=1)
    node.feed(MusterHeard(ONE, Rank(1), "join", 1, "", 1, 20.0))
    node.move(10.0 + MARGIN_S)
    assert node.phase == "Running"
    assert faults(node) == []


def test_a_crash_is_one_fault_however_often_its_end_is_told():
    node = Node().running()
    began = node.now
    crashes(node)
    end = h.WorkerExited(ONE, 0, 1000, node.now, exit_code=1)
    node.feed(h.WorkerDying(end), end)
    assert faults(node) == [(Reason.WORKER_CRASHED, 4, began)]
