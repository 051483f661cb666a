"""The two threads that touch the disk: one appends, one syncs. A disk that fails or hangs costs them, nobody else.

Into each file blocks go in the order of arrival, and files take turns. What cannot be written is kept and tried again,
as often as it takes, while other files go on; who asks is told why. Decides nothing about blocks: each was placed
before it came here.
"""

from __future__ import annotations

import itertools
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from resurge_libs.obs import log
from resurge_log_aggregator.core.model import SourceKey
from resurge_log_aggregator.core.pace import rest_s
from resurge_log_aggregator.log_file import Entry, LogFile, Reached

RETRY_S = 1.0
STUCK_AFTER_S = 5.0
SYNC_SOONER_BYTES = 4 * 1024 * 1024
"""So much text is not left waiting for the interval: a sender's window would be used up by it."""
SYNC_SOONEST_S = 0.25
"""But no more often than this, and less often where many sources are told of it each time."""
GROUP_MAX = 1_024
"""Blocks that go to the disk in one call."""


class SyncMode(StrEnum):
    """When a block counts as durable."""

    NONE = "none"
    """When the kernel has it: survives the death of every process, not a loss of power."""
    INTERVAL = "interval"
    """When the disk has it; the disk is asked once per interval, and sooner where much waits for it."""
    ACK = "ack"
    """When the disk has it; the disk is asked at once."""


@dataclass(frozen=True, slots=True)
class WriterRules:
    """How the threads work."""

    sync: SyncMode = SyncMode.INTERVAL
    interval_s: float = 1.0
    queue_bytes_max: int = 256 * 1024 * 1024
    """Text that waits for the disk at most; above it streams are not read."""


Told = Callable[[LogFile, Mapping[SourceKey, Reached], bool], None]
"""What was written of a file, and whether it is durable. Called on a thread of the writer."""


@dataclass(slots=True)
class _Queue:
    """What waits for one file."""

    file: LogFile
    entries: deque[Entry] = field(default_factory=deque)
    not_before: float = 0.0
    """Of the monotonic clock: it failed, and is tried again then."""


class Writer:
    """Appends what it is given. Started once, stopped once."""

    def __init__(self, rules: WriterRules, told: Told, trouble_changed: Callable[[], None]) -> None:
        self._rules, self._told, self._trouble_changed = rules, told, trouble_changed
        self._queues: dict[int, _Queue] = {}
        """By file; in the order in which they are looked at."""
        self._wake = threading.Condition()
        self._sync_wake = threading.Event()
        self._queued_bytes = 0
        self._unsynced_bytes = 0
        self._hurries = False
        self._has_last_words = False
        """A source has ended: its launcher waits for that before it starts the next cycle."""
        self._busy_since: float | None = None
        self._syncing_since: float | None = None
        self._stopping = False
        self._files: dict[int, LogFile] = {}
        self._troubles: dict[str, str] = {}
        self._appender = self._thread("append", self._append_all)
        self._syncer = self._thread("sync", self._sync_all)

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def root() -> None:
            while True:
                try:
                    return work()
                except Exception as error:  # task root: what one block or file does must not end all logging unseen
                    sentence = f"log {name} failed and is tried again: {error!r}"
                    log.event("log_thread_failed", sentence=sentence, traceback=traceback.format_exc())
                    self._busy_since = self._syncing_since = None
                    self._note(name, sentence)
                if self._wait_or_stop(RETRY_S):
                    return None
                self._note(name, None)

        return threading.Thread(target=root, name=f"resurge-log-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._appender.start()
        self._syncer.start()

    def add_file(self, file: LogFile) -> None:
        """Sync this file from now on."""
        with self._wake:
            self._files[id(file)] = file

    def put(self, file: LogFile, entries: Sequence[Entry]) -> None:
        """Have blocks appended, in this order."""
        with self._wake:
            self._queues.setdefault(id(file), _Queue(file)).entries.extend(entries)
            self._queued_bytes += sum(entry.head.size for entry in entries)
            self._wake.notify_all()  # the syncer may rest on the same condition: one waiter alone might be it

    @property
    def is_full(self) -> bool:
        """Whether no more should be read from anybody."""
        return self._queued_bytes >= self._rules.queue_bytes_max

    @property
    def trouble(self) -> str:
        """Why nothing gets on, in words; empty when it does."""
        for since in (self._busy_since, self._syncing_since):
            if since is not None and time.monotonic() - since > STUCK_AFTER_S:
                return f"the disk has not answered for more than {STUCK_AFTER_S:g} s"
        return "; ".join(self._troubles.values())

    def hurry(self) -> None:
        """Ask the disk at once from now on: senders wait for it at the end."""
        self._hurries = True
        self._sync_wake.set()

    def stop(self, limit_s: float) -> bool:
        """Write and sync what is left, for at most so long; whether all of it is durable."""
        if self._appender.ident is None:  # a host stops its modules after a failed start too
            return True
        give_up_at = time.monotonic() + limit_s
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        self._appender.join(max(0.0, give_up_at - time.monotonic()))
        self._sync_wake.set()
        self._syncer.join(max(0.0, give_up_at - time.monotonic()))
        return not self._queues and not any(file.is_dirty for file in self._files.values())

    # --- appending ---

    def _append_all(self) -> None:
        while True:
            group = self._next_group()
            if group is None:
                return
            queue, entries = group
            self._busy_since = time.monotonic()
            problem = self._append(queue.file, entries)
            self._busy_since = None
            self._note(f"append {queue.file.path}", problem)
            self._took(queue, entries, problem)
            if problem is None:
                self._written(queue.file, entries)

    def _written(self, file: LogFile, entries: list[Entry]) -> None:
        self._told(file, _reached(entries), False)
        self._unsynced_bytes += sum(entry.head.size for entry in entries)
        if any(entry.head.ends for entry in entries):
            with self._wake:
                self._has_last_words = True
                self._wake.notify_all()
        if self._does_not_wait() or self._has_last_words or self._unsynced_bytes >= SYNC_SOONER_BYTES:
            self._unsynced_bytes = 0
            self._sync_wake.set()

    def _next_group(self) -> tuple[_Queue, list[Entry]] | None:
        """The oldest blocks of the file whose turn it is; None at the end, when none is left that can be written."""
        with self._wake:
            while True:
                now = time.monotonic()
                ready = next((queue for queue in self._queues.values() if queue.not_before <= now), None)
                if ready is not None:
                    return ready, list(itertools.islice(ready.entries, GROUP_MAX))
                if self._stopping:
                    return None
                again = min((queue.not_before for queue in self._queues.values()), default=None)
                self._wake.wait(None if again is None else max(0.0, again - now))

    def _took(self, queue: _Queue, entries: list[Entry], problem: str | None) -> None:
        """Put the file behind the others, without what was written; one that failed has its turn later."""
        with self._wake:
            del self._queues[id(queue.file)]
            if problem is not None:
                queue.not_before = time.monotonic() + RETRY_S
            else:
                queue.not_before = 0.0
                for entry in entries:
                    queue.entries.popleft()
                    self._queued_bytes -= entry.head.size
            if queue.entries:
                self._queues[id(queue.file)] = queue

    def _append(self, file: LogFile, entries: list[Entry]) -> str | None:
        try:
            file.append(entries)
        except OSError as error:
            return f"{file.path} cannot be written: {error.strerror}"
        except Exception as error:  # task root: one file in trouble is not the others
            return f"{file.path} cannot be written: {error!r}"
        return None

    # --- syncing ---

    def _sync_all(self) -> None:
        began = time.monotonic()
        while not (self._stopping and not self._appender.is_alive()):
            self._sync_wake.wait(self._rules.interval_s)
            self._sync_wake.clear()
            if not self._does_not_wait() and not self._has_last_words:
                told = sum(file.dirty_sources for file in list(self._files.values()))
                self._rest(began + rest_s(told, SYNC_SOONEST_S, self._rules.interval_s) - time.monotonic())
            began, self._has_last_words = time.monotonic(), False
            for file in list(self._files.values()):
                self._sync(file)
        for file in list(self._files.values()):
            self._sync(file)

    def _does_not_wait(self) -> bool:
        return self._rules.sync is not SyncMode.INTERVAL or self._hurries or self._stopping

    def _rest(self, for_s: float) -> None:
        if for_s > 0:
            with self._wake:
                self._wake.wait_for(lambda: self._stopping or self._has_last_words, for_s)

    def _sync(self, file: LogFile) -> None:
        dirty, position = file.taken()
        if not dirty:
            return
        self._syncing_since = time.monotonic()
        try:
            if file.has_vanished():
                log.event("log_vanished", path=str(file.path), sentence="it was moved or removed, and is made anew")
                file.restore()
                position = file.size
            if self._rules.sync is not SyncMode.NONE:
                file.sync()
                file.mark(position)
        except Exception as error:  # task root: one file in trouble is not the others
            file.give_back(dirty)
            why = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
            self._note(f"sync {file.path}", f"{file.path} cannot be made durable: {why}")
            return
        finally:
            self._syncing_since = None
        self._note(f"sync {file.path}", None)
        self._told(file, dirty, True)

    # --- trouble ---

    def _note(self, what: str, problem: str | None) -> None:
        if self._troubles.get(what) == problem:
            return
        if problem is None:
            self._troubles = {name: why for name, why in self._troubles.items() if name != what}
        else:
            self._troubles = {**self._troubles, what: problem}
        self._trouble_changed()

    def _wait_or_stop(self, for_s: float) -> bool:
        with self._wake:
            return self._wake.wait_for(lambda: self._stopping, for_s)


def _reached(entries: Sequence[Entry]) -> dict[SourceKey, Reached]:
    return {entry.key: Reached(entry.head.end, entry.head.ends) for entry in entries}
