"""The machine answers every event in every state, and time alone never makes it spin."""

from __future__ import annotations

from signal import SIGINT, SIGKILL, SIGSEGV, SIGTERM, SIGUSR1

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resurge_launcher.core import goals as g
from resurge_launcher.core import happenings as h
from resurge_launcher.core import model as m
from resurge_launcher.core.abort_state import AbortNotice
from resurge_launcher.core.observe import observe
from resurge_launcher.core.worker_news import CrashSpared, GuardFired, LoopCrashed, ScriptOver
from resurge_libs.core.ids import Generation, Rank
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from tests.unit.launcher.core_world import Node, down, end, of, run

BECAUSE = Because(Reason.OBSERVED)
ONE = Generation(1)


def _torn() -> Node:
    node = Node().running()
    node.exits(0, code=1)
    return node


def _stuck() -> Node:
    node = _torn()
    node.move(60)
    return node


def _finished() -> Node:
    node = Node().running()
    node.exits(0, code=0)
    node.exits(1, code=0)
    return node


def _after(node: Node, *events: h.Event) -> Node:
    node.feed(*events)
    return node


def _wanting(node: Node, goal: g.Goal) -> Node:
    node.want(goal)
    return node


def _starting() -> Node:
    node = _wanting(Node().attached(), run())
    node.move(0)
    return node


STATES = {
    "TearingDown": Node,
    "Ready": lambda: Node().attached(),
    "Delayed": lambda: _wanting(Node().attached(), run(delay_s=5)),
    "Starting": _starting,
    "Running": lambda: Node().running(),
    "Finished": _finished,
    "Stuck": _stuck,
    "Leaving": lambda: _after(Node().running(), h.SignalReceived(SIGTERM)),
    "Exiting": lambda: _wanting(Node().running(), end(1)),
    "Exited": lambda: _after(Node(), h.StraysGone(Generation(0)), h.SignalReceived(SIGTERM)),
}
EVENTS: dict[str, h.Event] = {
    "run": h.DesiredReceived(50, run(2)),
    "run again": h.DesiredReceived(50, run(1)),
    "down": h.DesiredReceived(50, down(1)),
    "down newer": h.DesiredReceived(50, down(9), Generation(9)),
    "park": h.DesiredReceived(50, g.ParkGoal(BECAUSE)),
    "exit": h.DesiredReceived(50, end(1)),
    "exit, all": h.DesiredReceived(50, end(0, all_acknowledged=True)),
    "old": h.DesiredReceived(0, down(1)),
    "up": h.StreamUp(),
    "lost": h.StreamLost(),
    "superseded": h.Refused(h.Refusal.SUPERSEDED, BECAUSE),
    "acked": h.BeatAcked(Instant(100.0), 5.0),
    "spawned": h.SpawnDone(ONE, ((0, 1000), (1, 1001))),
    "spawned late": h.SpawnDone(Generation(0), ((0, 900),)),
    "not spawned": h.SpawnFailed(ONE, BECAUSE),
    "exit 0": h.WorkerExited(ONE, 1, 1001, Instant(101.0), exit_code=0),
    "killed": h.WorkerExited(ONE, 1, 1001, Instant(101.0), signal=SIGKILL),
    "unknown": h.WorkerExited(ONE, 7, 1007, Instant(101.0), exit_code=0),
    "dying": h.WorkerDying(h.WorkerExited(ONE, 1, 1001, Instant(100.5), signal=SIGSEGV)),
    "dying, code": h.WorkerDying(h.WorkerExited(ONE, 0, 1000, Instant(100.5), exit_code=3)),
    "dying well": h.WorkerDying(h.WorkerExited(ONE, 1, 1001, Instant(100.5), exit_code=0)),
    "dying late": h.WorkerDying(h.WorkerExited(Generation(0), 1, 901, Instant(100.5), signal=SIGSEGV)),
    "dying unknown": h.WorkerDying(h.WorkerExited(ONE, 7, 1007, Instant(100.5), signal=SIGSEGV)),
    "pages": h.PagesRead(ONE, (m.PageReading(0, hung_at=Instant(0.0)), m.PageReading(1))),
    "gone": h.StraysGone(ONE),
    "TERM": h.SignalReceived(SIGTERM),
    "INT": h.SignalReceived(SIGINT),
    "USR1": h.SignalReceived(SIGUSR1),
    "offer": h.StoreReserved(m.StoreOffer("127.0.0.1", 1)),
    "paused": h.Paused(3.0),
    "tick": h.Tick(),
    "fired": GuardFired(ONE, AbortNotice(Rank(4), 1, "step", 1.0)),
    "fired late": GuardFired(Generation(0), AbortNotice(Rank(4), 1, "step", 1.0)),
    "crashed": LoopCrashed(ONE, Rank(4), "ValueError", Instant(100.0), 5.0),
    "spared": CrashSpared(ONE, Rank(4)),
    "over": ScriptOver(ONE, Rank(5), 1001),
    "over late": ScriptOver(Generation(0), Rank(5), 1001),
    "passed on": h.DesiredReceived(50, run(1, aborts=(AbortNotice(Rank(0), 1, "eval", 1.0),))),
}


@pytest.mark.parametrize("state", STATES)
def test_the_state_is_what_its_name_says(state: str):
    assert STATES[state]().phase == state


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", STATES)
def test_every_event_in_every_state(state: str, event: str):
    node = STATES[state]()
    node.feed(EVENTS[event])
    once = node.state
    observe(once)
    if event not in ("INT", "pages", "tick"):
        node.feed(EVENTS[event])
        assert node.state == once or event in ("lost", "up"), "a repeat is harmless"
    node.move(2000)


@pytest.mark.parametrize("state", STATES)
def test_an_ended_launcher_says_so_once(state: str):
    node = STATES[state]()
    node.want(end(0, all_acknowledged=True))
    node.move(100)
    assert node.phase == "Exited"
    assert len(of(node.actions, h.ExitWith)) == 1


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(EVENTS)), st.floats(0, 30)), max_size=25))
def test_any_story_keeps_the_promises(story: list[tuple[str, float]]):
    node = Node().attached()
    generations: list[int] = []
    for name, wait_s in story:
        alive_before = m.Alive in {
            type(w.state) for w in getattr(getattr(node.state.phase, "crew", None), "workers", ())
        }
        fresh = node.feed(EVENTS[name]) + node.move(wait_s)
        spawned = [action.run.generation for action in of(fresh, h.SpawnWorkers)]
        assert not (spawned and alive_before and node.state.phase == "Ready")
        generations += spawned
        told = observe(node.state)
        if told.phase is h.NodePhase.READY and node.phase == "Ready":
            crew = node.state.phase.last  # type: ignore[union-attr]
            assert crew is None or crew.all_ended
    assert generations == sorted(set(generations)), "no generation is started twice, none after a newer one"
