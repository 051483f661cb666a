"""Short ways to drive the launcher's machine in tests: events in, states and actions out, time by hand."""

from __future__ import annotations

from signal import SIGKILL
from typing import Any

from resurge_launcher.core import goals as g
from resurge_launcher.core import happenings as h
from resurge_launcher.core.model import LauncherState, Rules
from resurge_launcher.core.step import LauncherMachine
from resurge_libs.core.ids import Attempt, Cycle, Generation, IncidentId
from resurge_libs.core.instant import Instant
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.time_limits import TimeLimits

LIMITS = TimeLimits()


def rules(**changed: Any) -> Rules:
    return Rules(**{"limits": LIMITS, "local_world_size": 2, **changed})


def run(generation: int = 1, **changed: Any) -> g.RunGoal:
    values: dict[str, Any] = {
        "generation": Generation(generation),
        "attempt": Attempt(1),
        "cycle": Cycle(generation - 1),
        "group_rank": 0,
        "group_world_size": 1,
        "base_rank": 4,
        "world_size": 8,
        "master_addr": "127.0.0.1",
        "master_port": 4711,
    }
    return g.RunGoal(**{**values, **changed})


def down(generation: int = 1, incident: str = "i1") -> g.DownGoal:
    return g.DownGoal(Generation(generation), Because(Reason.TEARDOWN_ORDERED), IncidentId(incident))


def end(code: int = 0, *, all_acknowledged: bool = False, reason: Reason = Reason.SUCCEEDED) -> g.ExitGoal:
    return g.ExitGoal(code, Because(reason), all_acknowledged)


class Node:
    """One machine with its clock; keeps every action."""

    def __init__(self, **changed: Any) -> None:
        self.machine = LauncherMachine(rules(**changed))
        self.now = Instant(100.0)
        self.revision = 0
        first = self.machine.begin(self.now)
        self.state: LauncherState = first.state
        self.actions: list[h.Action] = list(first.actions)
        self.reason = first.reason

    @property
    def phase(self) -> str:
        return type(self.state.phase).__name__

    def feed(self, *events: h.Event) -> list[h.Action]:
        """The actions of these events."""
        fresh: list[h.Action] = []
        for event in events:
            step = self.machine.step(self.state, event, self.now)
            self.state, self.reason = step.state, step.reason
            fresh += step.actions
        self.actions += fresh
        return fresh

    def want(self, goal: g.Goal, current: int = 0) -> list[h.Action]:
        self.revision += 1
        return self.feed(h.DesiredReceived(self.revision, goal, Generation(current)))

    def move(self, seconds: float) -> list[h.Action]:
        """Let time pass; ticks come exactly when the machine wants them."""
        end_at, fresh = Instant(self.now + seconds), []
        for _ in range(10_000):
            due = self.machine.next_deadline(self.state)
            if due is None or due > end_at:
                self.now = end_at
                return fresh
            self.now = max(self.now, due)
            fresh += self.feed(h.Tick())
        raise AssertionError("ticks without end")

    def attached(self) -> Node:
        self.feed(h.StraysGone(Generation(0)), h.StreamUp(), h.BeatAcked(self.now, LIMITS.lease_ttl_s))
        return self

    def running(self, generation: int = 1, **changed: Any) -> Node:
        self.attached()
        self.want(run(generation, **changed))
        self.move(0)
        self.spawned(generation)
        return self

    def spawned(self, generation: int = 1) -> list[h.Action]:
        return self.feed(h.SpawnDone(Generation(generation), ((0, 1000), (1, 1001))))

    def exits(
        self, local_rank: int, code: int | None = None, signal: int | None = None, gen: int = 1
    ) -> list[h.Action]:
        return self.feed(
            h.WorkerExited(Generation(gen), local_rank, 1000 + local_rank, self.now, exit_code=code, signal=signal)
        )

    def heard(self) -> list[h.Action]:
        """Rendezvous answers a beat that is sent now: it has all that was told before."""
        return self.feed(h.BeatAcked(self.now, LIMITS.lease_ttl_s))

    def all_killed(self, gen: int = 1) -> list[h.Action]:
        fresh = self.exits(0, signal=SIGKILL, gen=gen) + self.exits(1, signal=SIGKILL, gen=gen)
        return fresh + self.feed(h.StraysGone(Generation(gen)))


def of(actions: list[h.Action], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]
