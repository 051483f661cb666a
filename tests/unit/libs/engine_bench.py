"""A machine that adds, a journal that is slow on purpose, and an engine with everything in reach."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from resurge_libs.core.instant import Instant
from resurge_libs.core.machine import Reply, Step
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest
from resurge_libs.engine.memory_journal import MemoryJournal
from resurge_libs.engine.ports import Entry, JournalFailed
from resurge_libs.engine.runner import Engine, EngineOptions
from resurge_libs.testing.clocks import VirtualClock


@dataclass(frozen=True)
class Total:
    value: int = 0


@dataclass(frozen=True)
class Added:
    amount: int


@dataclass(frozen=True)
class State:
    durable: Total = Total()
    deadline: Instant | None = None
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class Add:
    amount: int


@dataclass(frozen=True)
class Look:
    pass


@dataclass(frozen=True)
class Refuse:
    pass


@dataclass(frozen=True)
class Break:
    pass


@dataclass(frozen=True)
class WakeAt:
    at: Instant


@dataclass(frozen=True)
class Tick:
    pass


@dataclass(frozen=True)
class Paused:
    for_s: float


class Adder:
    """Adds up; the journal must replay to the same total."""

    def step(self, state: State, event: Any, now: Instant) -> Step[State]:
        because = Because(Reason.OBSERVED, type(event).__name__)
        match event:
            case Add(amount):
                total = Total(state.durable.value + amount)
                facts = (Added(amount),)
                return Step(replace(state, durable=total), (Reply(total.value), f"added {amount}"), because, facts)
            case Look():
                return Step(state, (Reply(state.durable.value),), because)
            case Refuse():
                raise BadRequest.of("amount", "must be a number")
            case WakeAt(at):
                return Step(replace(state, deadline=at), (), because)
            case Tick():
                return Step(replace(state, deadline=None, log=(*state.log, "tick")), ("ticked",), because)
            case Paused(for_s):
                return Step(replace(state, log=(*state.log, f"paused {for_s:.1f}")), (), because)
            case _:
                raise RuntimeError("broken")

    def next_deadline(self, state: State) -> Instant | None:
        return state.deadline

    def evolve(self, durable: Total, fact: Added) -> Total:
        return Total(durable.value + fact.amount)


class SlowJournal(MemoryJournal):
    """Durable only when told."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[tuple[Entry, ...], Future[None]]] = []

    def append(self, batch: Sequence[Entry]) -> Future[None]:
        done: Future[None] = Future()
        self.waiting.append((tuple(batch), done))
        return done

    def write_next(self) -> None:
        batch, done = self.waiting.pop(0)
        self.entries.extend(batch)
        done.set_result(None)

    def fail_next(self) -> None:
        self.waiting.pop(0)[1].set_exception(OSError(28, "No space left on device"))


class Recorder:
    """Effects that only remember their order."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def run(self, action: Any) -> None:
        if action == "added 13":
            raise ValueError("an effect that breaks")
        self.ran.append(action)


class Bench:
    """An engine with everything in reach."""

    def __init__(self, journal: MemoryJournal | None = None, **options: Any) -> None:
        self.journal = journal or MemoryJournal()
        self.effects = Recorder()
        self.clock = VirtualClock()
        self.rejected: list[BaseException] = []
        self.failed: list[JournalFailed] = []
        self.engine: Engine[State] = Engine(
            Adder(),
            State(),
            self.journal,
            self.effects,
            self.clock,
            EngineOptions(
                tick=Tick,
                paused=Paused,
                on_rejected=lambda _, error: self.rejected.append(error),
                on_failed=self.failed.append,
                **options,
            ),
        )
        self.engine.start()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
