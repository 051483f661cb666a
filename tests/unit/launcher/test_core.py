from __future__ import annotations

from signal import SIGINT, SIGKILL, SIGSEGV, SIGTERM, SIGUSR1

import pytest

from resurge_launcher.core import goals as g
from resurge_launcher.core import happenings as h
from resurge_launcher.core import model as m
from resurge_launcher.core.observe import observe
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from tests.unit.launcher.core_world import LIMITS, Node, down, end, of, run


def test_leftovers_go_before_the_node_is_ready():
    node = Node()
    assert node.phase == "TearingDown"
    assert of(node.actions, h.SweepStrays) == [h.SweepStrays(Generation(0), SIGKILL)]
    assert not of(node.want(run()), h.SpawnWorkers)
    fresh = node.feed(h.StraysGone(Generation(0)))
    node.move(0)
    assert of(fresh, h.ReserveStore) and of(node.actions, h.SpawnWorkers)


def test_a_start_is_told_step_by_step():
    node = Node().attached()
    node.want(run(3))
    assert observe(node.state).phase is h.NodePhase.STARTING
    node.move(0)
    fresh = node.spawned(3)
    told = of(fresh, h.SendObserved)[-1].observed
    assert (told.phase, told.generation) == (h.NodePhase.RUNNING, 3)
    assert of(fresh, h.WriteLease) == [h.WriteLease(Generation(3), Instant(node.now + LIMITS.lease_ttl_s))]


def test_a_start_waits_for_its_backoff():
    node = Node().attached()
    node.want(run(delay_s=2.0))
    assert not of(node.move(1.9), h.SpawnWorkers)
    assert of(node.move(0.2), h.SpawnWorkers)


def test_a_crash_goes_up_and_takes_the_nodes_other_workers_down_at_once():
    node = Node().running()
    fresh = node.exits(0, signal=SIGSEGV)
    told = of(fresh, h.SendObserved)[0].observed
    assert told.phase is h.NodePhase.TEARING_DOWN
    assert [(r.rank, r.signal, r.ended_by_launcher) for r in told.exits] == [(4, SIGSEGV, False)]
    assert of(fresh, h.SignalWorkers) == [h.SignalWorkers(Generation(1), SIGTERM)]
    assert node.reason.code is Reason.WORKER_SIGNAL
    assert of(fresh, h.TellFault)[0].record.signal == SIGSEGV


def test_ready_only_when_every_worker_and_every_stray_is_gone():
    node = Node().running()
    node.exits(0, code=1)
    assert not of(node.exits(1, signal=SIGTERM), h.ReserveStore)
    assert of(node.actions, h.SweepStrays)[-1].signal == SIGKILL
    assert node.phase == "TearingDown"
    node.feed(h.StraysGone(Generation(1)))
    told = observe(node.state)
    assert (told.phase, told.generation) == (h.NodePhase.READY, 1)
    assert [r.ended_by_launcher for r in told.exits] == [False, True], "the evidence stays until a new generation"


def test_kill_follows_term_after_the_grace_and_a_node_that_cannot_die_is_stuck():
    node = Node().running()
    node.exits(0, code=1)
    fresh = node.move(LIMITS.fault_grace_s)
    assert of(fresh, h.SignalWorkers) == [h.SignalWorkers(Generation(1), SIGKILL)]
    node.move(LIMITS.teardown_limit_s)
    assert observe(node.state).phase is h.NodePhase.STUCK
    node.exits(1, signal=SIGKILL)
    node.feed(h.StraysGone(Generation(1)))
    assert node.phase == "Ready"


def test_a_generation_that_was_torn_down_is_not_started_again():
    node = Node().running()
    node.exits(0, code=1)
    node.all_killed()
    assert node.phase == "Ready"
    node.want(run(1))
    node.move(1)
    assert node.phase == "Ready"
    node.want(run(2))
    assert node.phase == "Starting"


def test_an_older_order_is_ignored():
    node = Node().running(5)
    node.want(down(4))
    assert node.phase == "Running"
    node.want(run(4), current=5)
    assert node.phase == "Running"
    node.want(down(5))
    assert node.phase == "TearingDown"


def test_a_down_for_a_node_without_workers_is_confirmed():
    node = Node().attached()
    node.want(down(7))
    assert (observe(node.state).phase, observe(node.state).generation) == (h.NodePhase.READY, 7)


def test_workers_started_into_a_teardown_are_ended_too():
    node = Node().attached()
    node.want(run())
    node.move(0)
    node.want(down())
    assert node.phase == "TearingDown"
    fresh = node.spawned()
    assert of(fresh, h.SignalWorkers) == [h.SignalWorkers(Generation(1), SIGTERM)]
    node.exits(0, signal=SIGTERM)
    node.exits(1, signal=SIGTERM)
    node.feed(h.StraysGone(Generation(1)))
    assert node.phase == "Ready"
    assert all(record.ended_by_launcher for record in observe(node.state).exits)


@pytest.mark.users_row(42)
def test_a_failed_start_is_a_fault():
    node = Node().attached()
    node.want(run())
    node.move(0)
    because = Because(Reason.WORKER_START_FAILED, "no such file: train.py")
    fresh = node.feed(h.SpawnFailed(Generation(1), because, ((0, 1000),)))
    told = of(fresh, h.SendObserved)[0].observed
    assert [f.because.code for f in told.faults] == [Reason.WORKER_START_FAILED]
    node.exits(0, signal=SIGTERM)
    node.feed(h.StraysGone(Generation(1)))
    assert node.phase == "Ready"


def test_success_is_reported_and_waits_for_the_decision():
    node = Node().running()
    node.exits(0, code=0)
    assert node.phase == "Running"
    node.exits(1, code=0)
    assert observe(node.state).phase is h.NodePhase.FINISHED
    node.want(end(0))
    node.feed(h.StraysGone(Generation(1)))
    assert observe(node.state).exit_acknowledged
    assert not of(node.actions, h.ExitWith)
    node.want(end(0, all_acknowledged=True))
    assert [a.code for a in of(node.actions, h.ExitWith)] == [0]


def test_a_rank_that_finished_long_before_its_peers_is_a_fault():
    node = Node().running()
    node.exits(0, code=0)
    node.move(LIMITS.finish_skew_limit_s + 0.1)
    assert observe(node.state).faults[0].because.code is Reason.FINISH_SKEW
    assert node.phase == "TearingDown"


def test_an_end_waits_for_acknowledgements_for_a_bounded_time():
    node = Node().attached()
    node.want(end(93, reason=Reason.NO_PROGRESS))
    assert node.phase == "Exiting"
    node.move(LIMITS.terminal_ack_limit_s - 0.1)
    assert node.phase == "Exiting"
    node.move(0.2)
    assert [a.code for a in of(node.actions, h.ExitWith)] == [93]


def test_the_decisions_code_stands_when_signalled_meanwhile():
    node = Node().running()
    node.want(end(93, reason=Reason.NO_PROGRESS))
    node.feed(h.SignalReceived(SIGTERM))
    node.all_killed()
    node.want(end(93, all_acknowledged=True, reason=Reason.NO_PROGRESS))
    assert [a.code for a in of(node.actions, h.ExitWith)] == [93]


@pytest.mark.parametrize(("decided", "code"), [(0, 0), (93, 93), (1, 128 + SIGTERM)])
def test_a_decision_that_comes_while_leaving_gives_the_code_unless_it_only_says_failed(decided: int, code: int):
    node = Node().running()
    node.feed(h.SignalReceived(SIGTERM))
    node.want(end(decided, reason=Reason.BUDGET_EXHAUSTED))
    node.all_killed()
    node.move(LIMITS.terminal_ack_limit_s)
    assert [a.code for a in of(node.actions, h.ExitWith)] == [code]


def test_a_signal_is_forwarded_with_its_own_limit():
    node = Node(term_timeout_s=20.0).running()
    fresh = node.feed(h.SignalReceived(SIGTERM))
    assert of(fresh, h.SignalWorkers) == [h.SignalWorkers(Generation(1), SIGTERM)]
    told = of(fresh, h.SendObserved)[0].observed
    assert (told.phase, told.leaving_signal) == (h.NodePhase.LEAVING, SIGTERM)
    assert not of(node.move(19.9), h.SignalWorkers)
    assert of(node.move(0.2), h.SignalWorkers) == [h.SignalWorkers(Generation(1), SIGKILL)]
    node.all_killed()
    assert [a.code for a in of(node.heard(), h.ExitWith)] == [128 + SIGTERM]


def test_a_second_interrupt_kills_at_once():
    node = Node().running()
    node.feed(h.SignalReceived(SIGINT))
    assert of(node.feed(h.SignalReceived(SIGINT)), h.SignalWorkers) == [h.SignalWorkers(Generation(1), SIGKILL)]


def test_a_signal_to_be_passed_on_ends_nothing():
    node = Node(pass_on_signals=frozenset({SIGUSR1})).running()
    assert of(node.feed(h.SignalReceived(SIGUSR1)), h.PassOn) == [h.PassOn(Generation(1), SIGUSR1)]
    assert node.phase == "Running"
    assert not of(node.exits(0, code=1), h.ExitWith)
    assert not observe(node.state).exits[0].ended_by_launcher, "it was not told to end"


def _reading(node: Node, local_rank: int, **changed: object) -> m.PageReading:
    values = {"last_beat_at": node.now, "step": 10, "hung_at": Instant(node.now + 60)}
    return m.PageReading(local_rank, **{**values, **changed})  # type: ignore[arg-type]


def test_silence_before_the_first_beat_means_nothing():
    node = Node().running()
    for _ in range(5):
        node.move(100)
        node.feed(h.PagesRead(Generation(1), (m.PageReading(0), m.PageReading(1))))
    assert node.phase == "Running"


def test_a_worker_past_its_limit_is_hung_and_killed_at_once():
    node = Node().running()
    node.feed(h.BeatAcked(node.now, 60.0))
    node.feed(h.PagesRead(Generation(1), (_reading(node, 0), _reading(node, 1, hung_at=Instant(node.now + 5)))))
    stale = _reading(node, 1, hung_at=Instant(node.now + 5))
    asked = of(node.move(5.0), h.ReadPages)
    assert asked, "pages are read at the deadline"
    fresh = node.feed(h.PagesRead(Generation(1), (_reading(node, 0), stale)))
    told = of(fresh, h.SendObserved)[0].observed
    assert [(f.rank, f.because.code) for f in told.faults] == [(5, Reason.WORKER_HUNG)]
    assert of(fresh, h.SignalWorkers) == [h.SignalWorkers(Generation(1), SIGKILL)]


def test_a_pause_of_the_launcher_is_not_held_against_workers():
    node = Node().running()
    node.move(30)
    node.feed(h.BeatAcked(node.now, 60.0))
    node.feed(h.Paused(10.0), h.PagesRead(Generation(1), (_reading(node, 0, hung_at=node.now),)))
    assert node.phase == "Running"
    node.move(10)
    node.feed(h.PagesRead(Generation(1), (_reading(node, 0, hung_at=node.now),)))
    assert node.phase == "TearingDown"


def test_silence_without_a_lease_is_no_hang_and_counts_anew_when_it_is_back():
    node = Node().running()
    node.feed(h.BeatAcked(node.now, 5.0), h.StreamLost("gone"))
    node.move(8.0)
    stale = m.PageReading(0, last_beat_at=Instant(node.now - 7), hung_at=Instant(node.now - 5))
    node.feed(h.PagesRead(Generation(1), (stale,)))
    assert node.phase == "Running", "the fence held the commit back"
    node.feed(h.StreamUp(), h.BeatAcked(node.now, 60.0), h.PagesRead(Generation(1), (stale,)))
    node.move(1.9)
    node.feed(h.PagesRead(Generation(1), (stale,)))
    assert node.phase == "Running", "its limit of 2 s runs from the return of the lease"
    node.move(0.2)
    node.feed(h.PagesRead(Generation(1), (stale,)))
    assert node.phase == "TearingDown"


def test_milestones_are_told_once_and_kept():
    node = Node().running()
    milestone = m.Milestone(Rank(4), m.MilestoneKind.PROCESS_GROUP_READY, node.now)
    node.feed(h.PagesRead(Generation(1), (m.PageReading(0, milestones=(milestone,)),)))
    node.feed(h.PagesRead(Generation(1), (m.PageReading(0, milestones=(milestone,)),)))
    assert observe(node.state).milestones == (milestone,)
    further = m.Milestone(Rank(4), m.MilestoneKind.CHECKPOINT_RESTORED, node.now, 3)
    node.feed(h.PagesRead(Generation(1), (m.PageReading(0, milestones=(milestone, further)),)))
    assert observe(node.state).milestones == (milestone, further)


def test_the_lease_counts_from_sending_and_a_broken_stream_shortens_it():
    node = Node().running()
    sent = node.now
    node.move(1)
    fresh = node.feed(h.BeatAcked(Instant(sent + 0.5), 5.0))
    assert of(fresh, h.WriteLease)[-1].until == sent + 5.5
    fresh = node.feed(h.StreamLost("reset"))
    assert of(fresh, h.WriteLease)[-1].until == node.now + LIMITS.resume_window_s


def test_workers_outlive_their_control_plane_while_they_progress():
    node = Node().running()
    node.feed(h.StreamLost())
    for step in range(30):
        node.move(30)
        node.feed(h.PagesRead(Generation(1), (_reading(node, 0, step=step), _reading(node, 1, step=step))))
    assert node.phase == "Running", "900 s without control, with progress"
    node.move(LIMITS.hang_limit_s + 1)
    assert node.phase == "TearingDown"
    assert observe(node.state).faults[0].because.code is Reason.CONTROL_LOST
    node.all_killed()
    node.move(LIMITS.lost_control_limit_s)
    node.move(LIMITS.terminal_ack_limit_s)
    assert [(a.code, a.because.code) for a in of(node.actions, h.ExitWith)] == [(1, Reason.CONTROL_LOST)]


def test_workers_end_with_the_lease_where_that_is_asked():
    node = Node(on_lost_control=m.OnLostControl.STOP).running()
    node.feed(h.StreamLost())
    node.move(LIMITS.resume_window_s + 0.1)
    assert node.phase == "TearingDown"


def test_a_fault_without_control_is_told_when_it_is_back():
    node = Node().running()
    node.feed(h.StreamLost())
    node.exits(1, signal=SIGSEGV)
    node.exits(0, signal=SIGTERM)
    node.feed(h.StraysGone(Generation(1)))
    node.move(30)
    node.feed(h.StreamUp())
    told = observe(node.state)
    assert told.phase is h.NodePhase.READY and SIGSEGV in [r.signal for r in told.exits]


def test_a_control_plane_that_never_answers_is_wrong_input():
    node = Node()
    node.feed(h.StraysGone(Generation(0)))
    node.move(LIMITS.first_contact_limit_s + 1)
    assert [(a.code, a.because.code) for a in of(node.actions, h.ExitWith)] == [(2, Reason.CONTROL_UNREACHABLE)]


@pytest.mark.parametrize(
    ("refusal", "code"), [(h.Refusal.SUPERSEDED, 1), (h.Refusal.ALREADY_ATTACHED, 2), (h.Refusal.NOT_WELCOME, 2)]
)
def test_a_refused_launcher_ends_its_workers_and_leaves(refusal: h.Refusal, code: int):
    node = Node().running()
    fresh = node.feed(h.Refused(refusal, Because(Reason.SUPERSEDED)))
    assert bool(of(fresh, h.Fence)) == (refusal is h.Refusal.SUPERSEDED)
    node.all_killed()
    assert [a.code for a in of(node.actions, h.ExitWith)] == [code]


def test_an_excluded_launcher_parks_or_leaves():
    parked = Node().attached()
    parked.want(g.ParkGoal(Because(Reason.EXCLUDED)))
    assert parked.phase == "Ready"
    leaves = Node(on_excluded=m.OnExcluded.EXIT).running()
    leaves.want(g.ParkGoal(Because(Reason.EXCLUDED)))
    leaves.all_killed()
    assert [a.code for a in of(leaves.actions, h.ExitWith)] == [1]


def test_spans_wait_for_the_name_of_their_incident():
    node = Node().running()
    node.exits(0, code=1)
    assert observe(node.state).spans == ()
    node.want(down(1, "i7"))
    node.exits(1, signal=SIGTERM)
    node.feed(h.StraysGone(Generation(1)))
    node.want(run(2, incident_id="i7"))
    node.move(0)
    node.spawned(2)
    told = observe(node.state)
    assert told.incident_id == "i7"
    assert [s.name for s in told.spans] == ["detect", "teardown", "spawn"]


def test_everything_is_told_again_with_every_change():
    node = Node().running()
    node.exits(0, code=0)
    told = of(node.exits(1, code=3), h.SendObserved)[0].observed
    assert [(r.local_rank, r.exit_code) for r in told.exits] == [(0, 0), (1, 3)]


def test_a_worker_that_the_kernel_holds_stopped_is_named_before_those_that_wait_for_it():
    node = Node().running()
    node.feed(h.BeatAcked(node.now, 60.0))
    node.move(3)
    waiting = m.PageReading(0, last_beat_at=Instant(node.now - 3), hung_at=Instant(node.now - 1))
    stopped = m.PageReading(1, last_beat_at=Instant(node.now - 2.5), hung_at=Instant(node.now - 0.5), stopped=True)
    fresh = node.feed(h.PagesRead(Generation(1), (waiting, stopped)))
    told = of(fresh, h.SendObserved)[0].observed
    assert [(f.rank, f.because.code) for f in told.faults] == [(5, Reason.WORKER_STOPPED)]


@pytest.mark.users_row(63)
def test_a_teardown_ordered_for_a_peer_s_silence_keeps_the_evidence_of_a_stopped_worker():
    node = Node().running()
    node.feed(h.PagesRead(Generation(1), (_reading(node, 0), _reading(node, 1, stopped=True))))
    assert node.phase == "Running", "stopped is no fault before its limit"
    told = of(node.want(down()), h.SendObserved)[0].observed
    assert [(f.rank, f.because.code) for f in told.faults] == [(5, Reason.WORKER_STOPPED)]
