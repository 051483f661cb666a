"""The journal on a local disk: SQLite, written by a thread of its own with group commit. Never blocks the event loop.

An append is durable when its future is done: the commit's fsync has returned. After the first failed write the
journal takes nothing more, because what follows a gap could not be trusted.
"""

from __future__ import annotations

import errno
import queue
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from resurge_libs.engine import sqlite_file
from resurge_libs.engine.entry_wire import entry_from_bytes, entry_to_bytes, snapshot_to_bytes
from resurge_libs.engine.ports import Damage, Entry, JournalFailed, JournalUnusable, Replay, Snapshot
from resurge_libs.engine.sqlite_file import Content, SnapshotRow
from resurge_libs.engine.sqlite_log import log_problem
from resurge_libs.engine.state_directory import StateDirectory

MAX_GROUP = 1024
"""Appends that one commit takes together."""
MAX_QUEUED = 100_000
CLOSE_LIMIT_S = 10.0
OPENABLE = "give another directory, or make room for the file: nothing but a journal may stand there"


@dataclass(frozen=True, slots=True)
class _Work:
    entries: tuple[Entry, ...]
    snapshot: Snapshot | None
    done: Future[None]


class SqliteJournal:
    """One job's journal in one state directory."""

    def __init__(self, directory: Path, job: str, wait_for_lock_s: float = 0.0, mounts: str = "/proc/mounts") -> None:
        """Open or make it. Raises JournalUnusable: not writable, not local, in use, of another job or release."""
        self._state_directory = StateDirectory(directory, wait_for_lock_s, mounts)
        self._path = directory / sqlite_file.FILE_NAME
        self._failure: JournalFailed | None = None
        try:
            self._db, self._content, self._damage = _open(self._path, job)
        except BaseException:
            self._state_directory.release()
            raise
        self._last_seq, self._chain = self._content.last
        self._queue: queue.Queue[_Work | None] = queue.Queue(MAX_QUEUED)
        self._writer = threading.Thread(target=self._write_all, name="journal-writer", daemon=True)
        self._writer.start()

    @property
    def path(self) -> Path:
        """The journal's file."""
        return self._path

    def replay(self) -> Replay:
        """What was durable when the journal was opened."""
        entries = sqlite_file.entries_of(self._content)
        return Replay(sqlite_file.snapshot_of(self._content), entries, self._damage)

    def append(self, batch: Sequence[Entry]) -> Future[None]:
        """Queue the entries for the next commit."""
        return self._submit(tuple(batch), None)

    def snapshot(self, snapshot: Snapshot) -> Future[None]:
        """Queue the snapshot behind the entries appended so far."""
        return self._submit((), snapshot)

    def history(self, first_seq: int, limit: int) -> tuple[Entry, ...]:
        """Entries from `first_seq` on, at most `limit`, read beside the writer; blocks for the read."""
        reader = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)
        try:
            query = "SELECT body FROM entries WHERE seq >= ? ORDER BY seq LIMIT ?"
            return tuple(entry_from_bytes(row[0]) for row in reader.execute(query, (first_seq, limit)))
        finally:
            reader.close()

    def close(self) -> None:
        """Commit what is queued, then close the file and release the directory."""
        if self._writer.is_alive():
            self._queue.put(None)
            self._writer.join(CLOSE_LIMIT_S)
        self._state_directory.release()

    def _submit(self, entries: tuple[Entry, ...], snapshot: Snapshot | None) -> Future[None]:
        done: Future[None] = Future()
        if self._failure is not None:
            done.set_exception(self._failure)
            return done
        try:
            self._queue.put_nowait(_Work(entries, snapshot, done))
        except queue.Full:
            done.set_exception(JournalFailed(f"more than {MAX_QUEUED} appends wait for the disk"))
        return done

    # the writer thread

    def _write_all(self) -> None:
        ending = False
        while not ending:
            group = [self._queue.get()]
            while len(group) < MAX_GROUP and not self._queue.empty():
                group.append(self._queue.get_nowait())
            ending = None in group
            self._commit([work for work in group if work is not None])
        self._db.close()

    def _commit(self, group: list[_Work]) -> None:
        if not group:
            return
        if self._failure is None:
            try:
                self._write(group)
            except Exception as error:  # the root of one commit: whatever it is, nothing after it may be trusted
                self._failure = JournalFailed(f"{self._path}: {error}; nothing more is decided from here on")
        for work in group:
            if self._failure is None:
                work.done.set_result(None)
            else:
                work.done.set_exception(self._failure)

    def _write(self, group: list[_Work]) -> None:
        last_seq, chain = self._last_seq, self._chain
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for work in group:
                for entry in work.entries:
                    if entry.seq != last_seq + 1:
                        raise ValueError(f"entry {entry.seq} cannot follow {last_seq}")
                    body = entry_to_bytes(entry)
                    last_seq, chain = entry.seq, sqlite_file.next_chain(chain, entry.seq, body)
                    self._db.execute("INSERT INTO entries VALUES (?, ?, ?)", (last_seq, body, chain))
                if work.snapshot is not None:
                    self._write_snapshot(work.snapshot, last_seq, chain)
            self._db.execute("COMMIT")
        except Exception:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._last_seq, self._chain = last_seq, chain

    def _write_snapshot(self, snapshot: Snapshot, last_seq: int, last_chain: bytes) -> None:
        chain = last_chain
        if snapshot.seq != last_seq:  # the last entry itself may be known by an older snapshot alone
            found = self._db.execute("SELECT chain FROM entries WHERE seq = ?", (snapshot.seq,)).fetchone()
            if found is None:
                raise ValueError(f"a snapshot after entry {snapshot.seq}, which was never appended")
            chain = found[0]
        sqlite_file.insert_snapshot(self._db, SnapshotRow(snapshot.seq, snapshot_to_bytes(snapshot), chain))


def _open(path: Path, job: str) -> tuple[sqlite3.Connection, Content, Damage | None]:
    try:
        if not path.exists():
            sqlite_file.create(path, job)
        return _open_existing(path, job)
    except sqlite3.Error as error:
        raise JournalUnusable(f"journal {path} cannot be opened: {error}", OPENABLE) from error
    except OSError as error:
        raise JournalUnusable(f"journal {path} cannot be opened: {error.strerror}", OPENABLE) from error


def _open_existing(path: Path, job: str) -> tuple[sqlite3.Connection, Content, Damage | None]:
    if path.stat().st_size == 0:  # made whole before it got its name, so it was cut
        return _salvaged(path, job, "is empty")
    log = log_problem(path)
    kept = _kept_if_there_is_room(path) if log else None  # SQLite drops the bad end of a log as soon as it opens it
    db: sqlite3.Connection | None = None
    try:
        db = sqlite_file.connect(path)
        sqlite_file.check_pages(db)
        sqlite_file.check_identity(path, db, job)
        content = sqlite_file.read(db)
    except JournalUnusable:
        assert db is not None
        db.close()
        raise
    except sqlite_file.DAMAGE as error:
        if db is not None:
            db.close()
        if isinstance(error, sqlite3.Error) and not sqlite_file.is_damage(error):
            raise
        return _salvaged(path, job, f"{path} is damaged", kept)
    if content.problem:
        db.close()
        return _rebuild(path, job, content, f"{path}: {content.problem}", kept)
    if log:
        return db, content, sqlite_file.damage(content, kept, f"{path}: {log}")
    sqlite_file.shrink(db)
    return db, content, None


def _kept_if_there_is_room(path: Path) -> Path | None:
    """A full disk must not keep a job from going on: what is lost then is a record that nothing was answered for."""
    try:
        return sqlite_file.set_aside(path)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return None


def _salvaged(
    path: Path, job: str, reason: str, kept: Path | None = None
) -> tuple[sqlite3.Connection, Content, Damage | None]:
    kept = kept or sqlite_file.set_aside(path)
    try:
        content = sqlite_file.salvage(path)
    except sqlite_file.DAMAGE:
        content = Content(None, ())
    return _rebuild(path, job, content, reason, kept)


def _rebuild(
    path: Path, job: str, content: Content, reason: str, kept: Path | None = None
) -> tuple[sqlite3.Connection, Content, Damage | None]:
    kept = kept or sqlite_file.set_aside(path)
    said = sqlite_file.damage(content, kept, reason)
    sqlite_file.create(path, job, content)
    return sqlite_file.connect(path), content, said
