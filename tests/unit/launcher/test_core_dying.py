"""A worker that is at its end, and not reaped yet: the fault counts at once, the place is free only later."""

from __future__ import annotations

from signal import SIGKILL, SIGSEGV, SIGTERM

from resurge_launcher.core import happenings as h
from resurge_launcher.core import model as m
from resurge_launcher.core.observe import observe
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant, after
from resurge_libs.core.reasons import Reason
from tests.unit.launcher.core_world import Node, of, run

ONE = Generation(1)


def end(node: Node, local_rank: int = 0, **how) -> h.WorkerExited:
    return h.WorkerExited(ONE, local_rank, 1000 + local_rank, node.now, **how)


def dies(node: Node, local_rank: int = 0, **how) -> list[h.Action]:
    return node.feed(h.WorkerDying(end(node, local_rank, **how)))


def test_the_fault_counts_at_once():
    node = Node().running()
    fresh = dies(node, signal=SIGSEGV, last_step=7)
    told = of(fresh, h.SendObserved)[0].observed
    assert told.phase is h.NodePhase.TEARING_DOWN
    assert [(r.rank, r.signal, r.last_step) for r in told.exits] == [(4, SIGSEGV, 7)]
    assert of(fresh, h.SignalWorkers) == [h.SignalWorkers(ONE, SIGTERM)]
    assert of(fresh, h.TellFault)[0].record.signal == SIGSEGV
    assert node.reason.code is Reason.WORKER_SIGNAL


def test_the_node_is_ready_only_when_it_is_reaped():
    node = Node().running()
    dies(node, signal=SIGKILL)
    assert not of(node.exits(1, signal=SIGTERM), h.SweepStrays), "somebody is still there"
    node.want(run(2), current=2)
    node.feed(h.StraysGone(ONE))
    assert node.phase == "TearingDown"
    assert of(node.exits(0, signal=SIGKILL), h.SweepStrays)
    assert node.phase == "TearingDown"
    node.feed(h.StraysGone(ONE))
    node.move(0)
    assert node.phase == "Starting" and of(node.actions, h.SpawnWorkers)[-1].run.generation == 2


def test_one_that_the_kernel_does_not_let_go_of_is_stuck():
    node = Node().running()
    dies(node, signal=SIGKILL)
    node.exits(1, signal=SIGTERM)
    node.move(60)
    assert node.phase == "Stuck"
    node.exits(0, signal=SIGKILL)
    node.feed(h.StraysGone(ONE))
    assert node.phase == "Ready"


def test_the_reaping_wins_on_details_and_the_earlier_moment_stays():
    node = Node().running()
    began = node.now
    dies(node, exit_code=1, error="early", last_step=3)
    node.now = after(node.now, 0.04)
    node.feed(end(node, exit_code=1, error="late"))
    record = observe(node.state).exits[0]
    assert (record.at, record.error, record.last_step, record.ended_by_launcher) == (began, "late", 3, False)
    assert not observe(node.state).faults


def test_the_same_end_told_again_changes_nothing_that_goes_up():
    node = Node().running()
    dies(node, signal=SIGSEGV, last_step=3)
    node.now = after(node.now, 0.04)
    assert not of(node.feed(end(node, signal=SIGSEGV, last_step=3)), h.SendObserved)


def test_an_end_that_is_no_fault_waits_for_the_reaping():
    node = Node().running()
    before = node.state
    assert not dies(node, exit_code=0)
    assert node.state == before and node.reason.code is Reason.LATE_EVENT_IGNORED
    node.exits(0, code=0)
    node.exits(1, code=0)
    assert node.phase == "Finished"


def test_one_that_the_launcher_ended_is_no_fault():
    node = Node().running()
    dies(node, 0, signal=SIGSEGV)
    dies(node, 1, signal=SIGTERM)
    assert [r.rank for r in observe(node.state).exits] == [4], "it was signalled: it is told when it is gone"
    node.exits(1, signal=SIGTERM)
    assert [r.ended_by_launcher for r in observe(node.state).exits] == [False, True]


def test_a_second_crash_in_a_teardown_is_told_at_once_too():
    node = Node().running()
    dies(node, 0, signal=SIGSEGV)
    fresh = dies(node, 1, signal=SIGSEGV)
    assert [r.signal for r in of(fresh, h.SendObserved)[0].observed.exits] == [SIGSEGV, SIGSEGV]


def test_late_and_double_news_are_ignored_by_name():
    node = Node().running()
    node.exits(0, signal=SIGSEGV)
    before = node.state
    assert not dies(node, signal=SIGSEGV)
    assert node.state == before and node.reason.code is Reason.LATE_EVENT_IGNORED
    dies(node, 1, signal=SIGSEGV)
    before = node.state
    assert not dies(node, 1, exit_code=3)
    assert node.state == before and node.reason.code is Reason.LATE_EVENT_IGNORED


def test_a_reaping_that_says_otherwise_loses_no_fault():
    node = Node().running()
    dies(node, exit_code=3)
    node.exits(0, code=0)
    told = observe(node.state)
    assert told.exits[0].exit_code == 0
    assert [(f.rank, f.because.code) for f in told.faults] == [(4, Reason.WORKER_EXIT)]


def test_the_span_of_the_detection_begins_when_the_end_was_known():
    node = Node().running()
    at = node.now
    node.now = after(at, 0.002)
    node.feed(h.WorkerDying(h.WorkerExited(ONE, 0, 1000, Instant(at), signal=SIGKILL)))
    assert [(s.name, s.start) for s in node.state.story.spans] == [("detect", at)]


def test_a_stopped_worker_that_never_beat_is_the_cause_of_the_end_of_those_that_waited_for_it():
    node = Node().running()
    node.feed(h.PagesRead(Generation(1), (m.PageReading(0), m.PageReading(1))))
    first_sign = node.now
    node.move(3.0)
    node.feed(h.PagesRead(Generation(1), (m.PageReading(0), m.PageReading(1, stopped=True))))
    node.exits(0, code=1)
    told = observe(node.state)
    (stopped,) = told.faults
    assert (stopped.because.code, stopped.rank) == (Reason.WORKER_STOPPED, 5)
    assert stopped.at == first_sign < told.exits[0].at
    assert "last sign 3.0 s ago" in stopped.because.sentence
