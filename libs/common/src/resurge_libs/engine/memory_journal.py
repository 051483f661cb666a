"""A journal in memory, for tests and simulated worlds, that can lose its end or fail on purpose. Durable at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from resurge_libs.engine.ports import Damage, Entry, JournalFailed, Replay, Snapshot


class MemoryJournal:
    """Keeps entries and the last snapshot in this process."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.last_snapshot: Snapshot | None = None
        self.failing: str = ""
        """When set, every append fails with this sentence."""
        self._damage: Damage | None = None

    def replay(self) -> Replay:
        """Everything appended, less what was lost; says so after a loss."""
        since = self.last_snapshot.seq if self.last_snapshot else 0
        return Replay(self.last_snapshot, tuple(e for e in self.entries if e.seq > since), self._damage)

    def append(self, batch: Sequence[Entry]) -> Future[None]:
        """Keep the entries; done at once."""
        done: Future[None] = Future()
        if self.failing:
            done.set_exception(JournalFailed(self.failing))
            return done
        self.entries.extend(batch)
        done.set_result(None)
        return done

    def snapshot(self, snapshot: Snapshot) -> Future[None]:
        """Keep the snapshot; done at once."""
        done: Future[None] = Future()
        self.last_snapshot = snapshot
        done.set_result(None)
        return done

    def close(self) -> None:
        """Nothing to let go of."""

    def lose_last(self, count: int) -> None:
        """Forget the last `count` entries, as a disk that lied would."""
        count = min(count, len(self.entries))
        if count == 0:
            return
        del self.entries[len(self.entries) - count :]
        last = self.entries[-1].seq if self.entries else 0
        if self.last_snapshot and self.last_snapshot.seq > last:
            self.last_snapshot = None
        self._damage = Damage(last, count, f"the journal ends after entry {last}: {count} entries were lost")
