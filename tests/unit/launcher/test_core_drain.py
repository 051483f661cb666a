"""A launcher that was told to leave: its ranks stop at a step with all others, or at its grace's end; checkpoints."""

from __future__ import annotations

from signal import SIGINT, SIGKILL, SIGTERM, SIGUSR1
from typing import Any

from resurge_launcher.core import goals as g
from resurge_launcher.core import happenings as h
from resurge_launcher.core import model as m
from resurge_launcher.core.observe import observe
from resurge_libs.core.ids import Generation
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from tests.unit.launcher.core_world import LIMITS, Node, down, end, of, run

G1 = Generation(1)
SIGNALS = frozenset({SIGTERM, SIGINT, SIGUSR1})


def at_step(node: Node, *steps: int | None, **reading: Any) -> list[h.Action]:
    """The workers asked after these steps whether to stop, as their pages say now."""
    reading.setdefault("asks_stop", True)
    reading.setdefault("moves", round(node.now * 1000))
    readings = (m.PageReading(local, asked_step=step, **reading) for local, step in enumerate(steps))
    return node.feed(h.PagesRead(G1, tuple(readings)))


def asking(*steps: int | None, **rules: Any) -> Node:
    node = Node(drain_signals=SIGNALS, **rules).running()
    at_step(node, *(steps or (10, 10)))
    return node


def order(node: Node, phase: g.StopPhase, step: int = 0) -> list[h.Action]:
    return node.want(run(stop=g.StopOrder(phase, step)))


def test_a_notice_is_told_and_ends_nothing():
    node = asking()
    fresh = node.feed(h.SignalReceived(SIGTERM))
    assert node.phase == "Running" and not of(fresh, h.SignalWorkers)
    told = observe(node.state)
    assert (told.draining.notice_signal, told.draining.grace_s, told.draining.asks) == (SIGTERM, 30.0, True)
    assert told.leaving_signal is None


def test_workers_that_never_ask_get_the_signal_at_once():
    node = asking(None, None)
    at_step(node, None, None, asks_stop=False)
    assert of(node.feed(h.SignalReceived(SIGTERM)), h.SignalWorkers) == [h.SignalWorkers(G1, SIGTERM)]
    assert node.phase == "Leaving"


def test_an_early_signal_that_nobody_can_use_ends_nothing():
    node = Node(drain_signals=SIGNALS).running()
    assert not of(node.feed(h.SignalReceived(SIGUSR1)), h.SignalWorkers)
    assert node.phase == "Running" and node.state.notice is None


def test_an_early_signal_counts_once_all_ranks_ask_and_its_grace_runs_since_it_came():
    node = Node(drain_signals=SIGNALS).attached()
    node.want(run())
    node.move(0)
    came_at = node.now
    node.feed(h.SignalReceived(SIGUSR1))
    assert node.phase == "Starting" and "it counts if one does" in node.reason.sentence
    node.spawned()
    node.move(10.0)
    assert node.state.notice is None
    at_step(node, 1, 1)
    assert node.state.notice is not None and node.state.notice.ends_at == came_at + 30.0
    assert node.phase == "Running" and observe(node.state).draining.notice_signal == SIGUSR1


def test_an_early_signal_that_came_in_a_teardown_counts_in_the_next_generation():
    node = asking()
    node.want(down())
    node.feed(h.SignalReceived(SIGUSR1))
    node.feed(h.SignalReceived(SIGUSR1))
    assert node.phase == "TearingDown" and node.state.notice is None and "nothing new" in node.reason.sentence
    node.all_killed()
    node.want(run(2))
    node.move(0)
    assert node.phase == "Starting", "a start is not given up for it"
    node.spawned(2)
    asks = tuple(m.PageReading(local, asked_step=1, asks_stop=True) for local in range(2))
    node.feed(h.PagesRead(Generation(2), asks))
    assert node.state.notice is not None


def test_an_early_signal_does_not_send_away_a_launcher_whose_workers_finish_without_asking():
    node = Node(drain_signals=SIGNALS).running()
    node.feed(h.SignalReceived(SIGUSR1))
    node.exits(0, code=0)
    node.exits(1, code=0)
    node.move(200.0)
    assert node.phase == "Finished" and node.state.notice is None


def test_an_early_signal_is_forgotten_after_its_grace():
    node = Node(drain_signals=SIGNALS).running()
    node.feed(h.SignalReceived(SIGUSR1))
    node.move(30.0)
    at_step(node, 1, 1)
    assert node.state.notice is None
    node.feed(h.SignalReceived(SIGUSR1))
    assert node.state.notice is not None, "a new one counts"


def test_an_early_signal_ends_nobody_who_asks_when_no_time_is_left_to_save():
    node = Node(drain_signals=SIGNALS).running()
    node.feed(h.SignalReceived(SIGUSR1))
    node.move(30.0 - LIMITS.fault_grace_s)
    at_step(node, 1, 1)
    assert node.phase == "Running" and node.state.notice is None and not of(node.actions, h.SignalWorkers)


def test_an_early_signal_that_is_also_passed_on_counts_all_the_same():
    node = Node(drain_signals=SIGNALS, pass_on_signals=frozenset({SIGUSR1})).running()
    assert of(node.feed(h.SignalReceived(SIGUSR1)), h.PassOn) == [h.PassOn(G1, SIGUSR1)]
    assert node.state.notice is None
    at_step(node, 1, 1)
    assert node.state.notice is not None and node.phase == "Running"


def test_the_offer_is_the_first_step_that_no_rank_has_passed():
    node = asking(10, 11)
    order(node, g.StopPhase.ASK)
    assert observe(node.state).draining.offer == 12


def test_fast_ranks_offer_a_step_further_ahead():
    node = asking(10, 10)
    node.move(1.0)
    at_step(node, 1010, 1010)
    order(node, g.StopPhase.ASK)
    assert observe(node.state).draining.offer == 1011 + 300


def test_a_border_is_kept_only_after_a_look_that_found_nobody_behind_it():
    node = asking(10, 10)
    assert of(order(node, g.StopPhase.HOLD, 12), h.WriteStop) == [h.WriteStop(G1, held=12)]
    at_step(node, 10, 11)
    assert observe(node.state).draining.held is None, "what a worker stored at that moment may not be seen yet"
    assert of(node.move(0.011), h.ReadPages)
    at_step(node, 10, 11)
    assert observe(node.state).draining.held == 12


def test_a_rank_that_waits_at_the_border_keeps_it_and_one_that_went_on_does_not():
    waits, passed = asking(10, 10), asking(10, 10)
    for node, is_waiting in ((waits, True), (passed, False)):
        order(node, g.StopPhase.HOLD, 12)
        node.move(0.011)
        at_step(node, 12, 12, waits_to_stop=is_waiting)
    assert observe(waits.state).draining.held == 12
    assert (observe(passed.state).draining.held, observe(passed.state).draining.offer) == (None, 13)
    assert of(order(passed, g.StopPhase.HOLD, 13), h.WriteStop) == [h.WriteStop(G1, held=13)]


def test_an_older_border_changes_nothing():
    node = asking()
    order(node, g.StopPhase.HOLD, 12)
    assert not of(order(node, g.StopPhase.HOLD, 11), h.WriteStop)


def test_what_is_decided_is_written_once_and_the_end_gives_the_decisions_code():
    node = asking()
    node.feed(h.SignalReceived(SIGTERM))
    order(node, g.StopPhase.HOLD, 12)
    assert of(order(node, g.StopPhase.DECIDED, 12), h.WriteStop) == [h.WriteStop(G1, decided=12)]
    assert not of(order(node, g.StopPhase.DECIDED, 12), h.WriteStop)
    at_step(node, 12, 12, told_to_stop=True)
    node.exits(0, code=0)
    node.exits(1, code=0)
    told = observe(node.state)
    assert (told.phase, told.draining.told) == (h.NodePhase.FINISHED, True)
    node.move(5.0)
    assert node.phase == "Finished", "it waits for the job's decision"
    node.want(end(143, all_acknowledged=True, reason=Reason.PREEMPTED))
    fresh = node.feed(h.StraysGone(G1))
    assert [e.code for e in of(fresh, h.ExitWith)] == [143]


def test_whoever_does_not_stop_is_ended_when_the_grace_is_over():
    node = asking(term_timeout_s=20.0)
    node.feed(h.SignalReceived(SIGTERM), h.BeatAcked(node.now, 60.0))
    order(node, g.StopPhase.DECIDED, 12)
    assert not of(node.move(19.4), h.SignalWorkers)
    assert of(node.move(0.2), h.SignalWorkers) == [h.SignalWorkers(G1, SIGTERM)]
    assert of(node.move(0.5), h.SignalWorkers) == [h.SignalWorkers(G1, SIGKILL)]
    assert node.now - 100.0 < 20.2
    node.all_killed()
    assert [e.code for e in of(node.heard(), h.ExitWith)] == [128 + SIGTERM]


def test_a_second_signal_shortens():
    node = asking()
    node.feed(h.SignalReceived(SIGTERM))
    assert of(node.feed(h.SignalReceived(SIGTERM)), h.SignalWorkers) == [h.SignalWorkers(G1, SIGTERM)]
    assert of(node.move(LIMITS.fault_grace_s), h.SignalWorkers) == [h.SignalWorkers(G1, SIGKILL)]


def test_without_control_a_launcher_drains_its_own_node_within_the_grace():
    node = asking(10, 10)
    node.feed(h.StreamLost("gone"), h.SignalReceived(SIGTERM))
    assert of(node.move(10.1), h.WriteStop) == [h.WriteStop(G1, decided=11, alone=True)]
    node.exits(0, code=0)
    node.exits(1, code=0)
    node.move(19.0)
    assert node.phase == "Finished", "control may come back with the job's decision"
    node.move(1.0)
    node.feed(h.StraysGone(G1))
    assert [e.code for e in of(node.move(0.5), h.ExitWith)] == [128 + SIGTERM], "nobody answers, the grace is over"


def test_ranks_that_are_held_are_not_left_waiting_when_control_is_gone():
    node = asking(10, 10)
    order(node, g.StopPhase.HOLD, 12)
    node.feed(h.StreamLost("gone"))
    assert of(node.move(LIMITS.lease_ttl_s + 0.1), h.WriteStop) == [h.WriteStop(G1, decided=12, alone=True)]


def test_a_spare_waits_a_moment_whether_the_whole_job_leaves():
    alone, draining = (Node(drain_signals=SIGNALS).attached() for _ in range(2))
    for node in (alone, draining):
        node.want(g.ParkGoal(Because(Reason.NODE_PARKED)))
        node.feed(h.SignalReceived(SIGTERM))
        assert node.phase == "Ready"
    draining.want(g.ParkGoal(Because(Reason.DRAINING)))
    alone.move(LIMITS.terminal_ack_limit_s)
    assert [e.code for e in of(alone.heard(), h.ExitWith)] == [128 + SIGTERM]
    draining.move(10.0)
    assert draining.phase == "Ready"


def saving(node: Node, moves: int, **reading: Any) -> list[h.Action]:
    saves = m.PageReading(0, open_phase="checkpoint", moves=moves, **reading)
    return node.feed(h.PagesRead(G1, (saves, m.PageReading(1))))


def test_a_teardown_waits_for_a_checkpoint_that_is_open_and_still_written():
    node = Node().running()
    node.feed(h.BeatAcked(node.now, 60.0))
    saving(node, 1)
    assert not of(node.want(down()), h.SignalWorkers)
    for moves in range(2, 22):
        assert of(node.move(0.1), h.ReadPages)
        assert not of(saving(node, moves), h.SignalWorkers)
    fresh = node.feed(h.PagesRead(G1, (m.PageReading(0, moves=22), m.PageReading(1))))
    assert of(fresh, h.SignalWorkers) == [h.SignalWorkers(G1, SIGTERM)]
    assert of(node.move(LIMITS.fault_grace_s), h.SignalWorkers) == [h.SignalWorkers(G1, SIGKILL)]


def test_one_that_no_longer_moves_is_not_waited_for():
    node = Node().running()
    node.feed(h.BeatAcked(node.now, 60.0))
    saving(node, 1)
    node.want(down())
    fresh: list[h.Action] = []
    for _ in range(12):
        fresh += node.move(0.1) + saving(node, 1)
    assert of(fresh, h.SignalWorkers)[0] == h.SignalWorkers(G1, SIGTERM)


def test_the_wait_for_a_checkpoint_is_bounded():
    node = Node().running()
    node.feed(h.BeatAcked(node.now, 60.0))
    saving(node, 1)
    node.want(down())
    began: Instant = node.now
    moves = 1
    while not of(node.actions, h.SignalWorkers):
        moves += 1
        node.move(0.1)
        saving(node, moves)
    assert abs(node.now - began - LIMITS.checkpoint_grace_s) < 0.2


def test_without_a_lease_no_checkpoint_is_waited_for():
    node = Node().running()
    saving(node, 1)
    node.move(LIMITS.lease_ttl_s + 1)
    saving(node, 2)
    assert of(node.want(down()), h.SignalWorkers) == [h.SignalWorkers(G1, SIGTERM)]


def test_a_hang_while_a_peer_saves_its_state_waits_for_the_peer():
    node = Node().running()
    saves = m.PageReading(0, open_phase="checkpoint", moves=1)
    fresh = node.feed(h.PagesRead(G1, (saves, m.PageReading(1, hung_at=node.now))))
    assert node.phase == "TearingDown" and not of(fresh, h.SignalWorkers)
    fresh = node.feed(h.PagesRead(G1, (m.PageReading(0, moves=2), m.PageReading(1))))
    assert of(fresh, h.SignalWorkers) == [h.SignalWorkers(G1, SIGTERM)]


def test_an_early_signal_is_not_kept_beside_a_notice_nor_by_a_launcher_that_is_to_end():
    node = asking(1, 1)
    node.feed(h.SignalReceived(SIGTERM), h.SignalReceived(SIGUSR1))
    assert node.state.notice is not None and node.state.early_notice is None
    node = Node(drain_signals=SIGNALS).running()
    node.want(end(0))
    node.feed(h.SignalReceived(SIGUSR1))
    assert node.state.early_notice is None
