"""What the engine needs from outside: time, chance, new names, and a journal. Declares; does nothing.

Real clocks live in `engine.real`, journals in `engine.sqlite_journal` and `engine.memory_journal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from resurge_libs.core.instant import Instant, Wall
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import Unready


class Clock(Protocol):
    """Both kinds of time."""

    def monotonic(self) -> Instant:
        """The instant now, for deciding."""
        ...

    def wall(self) -> Wall:
        """Unix seconds, for people and records."""
        ...


class Entropy(Protocol):
    """Chance, which rides in events."""

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...


class Ids(Protocol):
    """New names that nobody else has."""

    def new(self, prefix: str) -> str:
        """A new id that starts with the prefix."""
        ...


class Effects(Protocol):
    """Carries out actions, in order, without blocking and without deciding."""

    def run(self, action: Any) -> None:
        """Start one action. Long work goes to a task of its own; errors are its own to report as events."""
        ...


@dataclass(frozen=True, slots=True)
class FactRecord:
    """One fact in its canonical encoding."""

    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """What one event changed, and why."""

    seq: int
    at: Wall
    event: str
    because: Because
    facts: tuple[FactRecord, ...]
    state_digest: bytes
    """Of the durable state after the last entry of a batch; empty within it, as a batch is durable as a whole, and
    where many batches of a large state follow each other."""
    rules_version: int = 1
    settings_digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The durable state after the entry `seq`."""

    seq: int
    state: bytes
    state_digest: bytes
    rules_version: int = 1


@dataclass(frozen=True, slots=True)
class Damage:
    """What a journal lost: everything after `last_whole_seq`."""

    last_whole_seq: int
    entries_lost: int | None
    """At least so many; None where what was lost left no trace to count."""
    sentence: str
    set_aside: str = ""
    """Where the damaged file was kept, if it was."""


@dataclass(frozen=True, slots=True)
class Replay:
    """All that a journal holds: the last snapshot and the entries after it."""

    snapshot: Snapshot | None
    entries: tuple[Entry, ...]
    damage: Damage | None = None

    @property
    def last_seq(self) -> int:
        """The number of the last entry; 0 for an empty journal."""
        if self.entries:
            return self.entries[-1].seq
        return self.snapshot.seq if self.snapshot else 0


class Journal(Protocol):
    """Remembers entries for good. `append` returns at once; its future is done when they are durable."""

    def replay(self) -> Replay:
        """Everything that is durable. Raises JournalUnusable when it cannot be read at all."""
        ...

    def append(self, batch: Sequence[Entry]) -> Future[None]:
        """Make the entries durable, in order. The future raises JournalFailed when that is impossible."""
        ...

    def snapshot(self, snapshot: Snapshot) -> Future[None]:
        """Remember a cache of the fold, taken after the entries appended so far."""
        ...

    def close(self) -> None:
        """Finish what was appended, then let go of the files."""
        ...


class JournalUnusable(Exception):
    """The journal cannot be opened: says which path, what is wrong, and where it is known what would be right."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.problem, self.remedy = problem, remedy


class JournalFailed(Unready):
    """The journal can no longer be written (for example a full disk): the engine has stopped deciding."""

    def __init__(self, sentence: str) -> None:
        super().__init__(Because(Reason.JOURNAL_FAILED, sentence))
