"""The journal's file: schema, chained rows, reading, and salvage of what a damaged file still holds.

Each row carries a chain value, the hash of the row before it and its own bytes, so that a row which was cut, changed
or lost is noticed. Reading ends at the last whole row; a damaged file is kept aside before anything is rewritten.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from resurge_libs.engine.entry_wire import NotWhole, entry_from_bytes, snapshot_from_bytes
from resurge_libs.engine.ports import Damage, Entry, JournalUnusable, Snapshot

FILE_NAME = "journal.sqlite"
SCHEMA_VERSION = 1
OTHER_JOBS = "give another directory, or the job's own id (--rdzv-id of a launcher, --job-id of resurge serve)"
"""What is right where the directory is another job's."""
SNAPSHOTS_KEPT = 2
ENTRIES_KEPT = 2_000
ENTRY_BYTES_KEPT = 4 * 1024 * 1024
"""Entries that stay readable behind a snapshot, by number and by bytes: opening reads the whole file, and must not be
slower for an old job."""
LOG_BYTES_KEPT = 4 * 1024 * 1024
"""What the write-ahead log shrinks to when it begins anew."""
FREE_BYTES_MAX = 16 * 1024 * 1024
"""Free room in the file, as an earlier release or one huge record leaves it, from which on opening makes it smaller."""
MAX_SET_ASIDE = 1000

DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What a damaged file raises: a broken schema can even break the text of the error."""
SURROUNDINGS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
"""Result codes that blame what is around the file; every other one blames the file."""

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (seq INTEGER PRIMARY KEY, body BLOB NOT NULL, chain BLOB NOT NULL);
CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, body BLOB NOT NULL, chain BLOB NOT NULL, body_digest BLOB NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One entry as stored."""

    seq: int
    body: bytes
    chain: bytes


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One snapshot as stored, with the chain value of the entry it was taken after."""

    seq: int
    body: bytes
    chain: bytes


@dataclass(frozen=True, slots=True)
class Content:
    """What could be read: the last whole snapshot, the whole rows after it, and what is wrong after those."""

    snapshot: SnapshotRow | None
    rows: tuple[Row, ...]
    problem: str = ""
    rows_lost: int = 0

    @property
    def last(self) -> tuple[int, bytes]:
        """The number and chain value of the last whole entry."""
        if self.rows:
            return self.rows[-1].seq, self.rows[-1].chain
        return (self.snapshot.seq, self.snapshot.chain) if self.snapshot else (0, first_chain())


def first_chain() -> bytes:
    """The chain value before the first entry."""
    return hashlib.sha256(b"resurge journal").digest()


def next_chain(chain: bytes, seq: int, body: bytes) -> bytes:
    """The chain value of an entry that follows one with `chain`."""
    return hashlib.sha256(chain + seq.to_bytes(8, "big") + body).digest()


def create(path: Path, job: str, content: Content | None = None) -> None:
    """Make a whole new file beside `path`, then put it in place, so that a half-made one is never met."""
    fresh = path.with_name(path.name + ".new")
    for name in (fresh, *_companions(fresh)):
        name.unlink(missing_ok=True)
    db = sqlite3.connect(fresh, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute("PRAGMA synchronous=FULL")
        db.executescript(_SCHEMA)
        db.execute("BEGIN")
        meta = {"schema_version": str(SCHEMA_VERSION), "job": job, "job_digest": _job_digest(job)}
        db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        if content is not None:
            if content.snapshot is not None:
                insert_snapshot(db, content.snapshot)
            db.executemany("INSERT INTO entries VALUES (?, ?, ?)", [(r.seq, r.body, r.chain) for r in content.rows])
        db.execute("COMMIT")
    finally:
        db.close()
    for name in _companions(path):
        name.unlink(missing_ok=True)
    os.replace(fresh, path)
    _sync_directory(path.parent)


def insert_snapshot(db: sqlite3.Connection, row: SnapshotRow) -> None:
    """Store a snapshot; forget all but the last few, and old entries that none of those needs."""
    digest = hashlib.sha256(row.body + row.chain).digest()
    db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", (row.seq, row.body, row.chain, digest))
    db.execute(
        "DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)",
        (SNAPSHOTS_KEPT,),
    )
    db.execute(
        "DELETE FROM entries WHERE seq <= min((SELECT min(seq) FROM snapshots), ?)", (_last_forgotten(db, row.seq),)
    )


def _last_forgotten(db: sqlite3.Connection, newest: int) -> int:
    """The number of the newest entry for which there is no room."""
    sizes = db.execute(
        "SELECT seq, length(body) FROM entries WHERE seq > ? ORDER BY seq DESC", (newest - ENTRIES_KEPT,)
    )
    room = ENTRY_BYTES_KEPT
    for seq, size in sizes:
        room -= size
        if room < 0:
            return int(seq)
    return newest - ENTRIES_KEPT


def shrink(db: sqlite3.Connection) -> None:
    """Give free room in the file back to the disk where there is much of it; never raises for a disk without room."""
    (free,), (page_bytes,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_size"))
    if free * page_bytes > FREE_BYTES_MAX:
        with contextlib.suppress(sqlite3.OperationalError):  # it needs as much room again, and nothing depends on it
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def connect(path: Path) -> sqlite3.Connection:
    """A connection for the one writer: write-ahead log, every commit on the disk before it returns."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    try:
        (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
        if mode != "wal":  # a garbled header can claim a format that may only be read
            raise sqlite3.DatabaseError(f"its journal mode stays {mode}")
        db.execute("PRAGMA synchronous=FULL")
        db.execute(f"PRAGMA journal_size_limit={LOG_BYTES_KEPT}")
    except BaseException:
        db.close()
        raise
    return db


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error blames the file itself, and not the disk, its permissions or another process."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None or code == sqlite3.SQLITE_IOERR_SHORT_READ:
        return True
    return (code & 0xFF) not in SURROUNDINGS


def check_pages(db: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError for any damaged page: one that only a later write would meet counts too."""
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def check_identity(path: Path, db: sqlite3.Connection, job: str) -> None:
    """Refuse a file of another job or release: JournalUnusable. One that cannot say whose it is: DatabaseError."""
    meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
    version, owner = meta.get("schema_version"), meta.get("job")
    if not (isinstance(version, str) and version.isdecimal()):
        raise sqlite3.DatabaseError("it does not say which schema it has")
    if version != str(SCHEMA_VERSION):
        raise JournalUnusable(
            f"state directory {path.parent} was written with journal schema {version}, this release reads "
            f"{SCHEMA_VERSION}",
            "start the release that wrote it, or give another directory",
        )
    if not isinstance(owner, str) or meta.get("job_digest", _job_digest(owner)) != _job_digest(owner):
        raise sqlite3.DatabaseError("it does not say whose it is")
    if owner != job:
        raise JournalUnusable(
            f"state directory {path.parent} belongs to job {owner!r}, not {job!r}",
            OTHER_JOBS,
        )


def owner_of(path: Path) -> str | None:
    """The job that the file was made for, maybe without a name; None where there is no file or it does not say."""
    if not path.exists():
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
    except DAMAGE:
        return None
    owner = meta.get("job")
    if not isinstance(owner, str) or meta.get("job_digest", _job_digest(owner)) != _job_digest(owner):
        return None
    return owner


def read(db: sqlite3.Connection) -> Content:
    """All whole content, from the last whole snapshot on. Raises sqlite3.DatabaseError when the file is damaged."""
    snapshot = _last_whole(db.execute("SELECT seq, body, chain, body_digest FROM snapshots ORDER BY seq DESC"))
    since = snapshot.seq if snapshot else 0
    chain = snapshot.chain if snapshot else first_chain()
    cursor = db.execute("SELECT seq, body, chain FROM entries WHERE seq > ? ORDER BY seq", (since,))
    rows, problem = _whole_prefix(cursor, since, chain)
    newest = db.execute("SELECT max(seq) FROM entries").fetchone()[0] or 0
    last = rows[-1].seq if rows else since
    return Content(snapshot, tuple(rows), problem, max(0, newest - last))


def salvage(path: Path) -> Content:
    """What a damaged file still holds: rows from the first on, or a snapshot and the rows after it if that is newer."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema=ON")  # else a file shorter than its header says is not read at all
        forward = list(_until_error(db, "SELECT seq, body, chain FROM entries ORDER BY seq"))
        backward = list(_until_error(db, "SELECT seq, body, chain FROM entries ORDER BY seq DESC"))
        rows, _ = _whole_prefix(iter(forward), 0, first_chain())
        best = Content(None, tuple(rows))
        snapshots = _until_error(db, "SELECT seq, body, chain, body_digest FROM snapshots ORDER BY seq DESC")
        snapshot = _last_whole(snapshots)
        if snapshot is not None:
            after = [row for row in reversed(backward) if row[0] > snapshot.seq]
            rows, _ = _whole_prefix(iter(after), snapshot.seq, snapshot.chain)
            resumed = Content(snapshot, tuple(rows))
            best = resumed if resumed.last[0] >= best.last[0] else best
        seen = [row[0] for row in (*forward, *backward) if _is_entry_of(row[0], row[1])]
        return replace(best, problem="its pages are damaged", rows_lost=max(0, *seen, best.last[0]) - best.last[0])


def entries_of(content: Content) -> tuple[Entry, ...]:
    """The entries of the rows."""
    return tuple(entry_from_bytes(row.body) for row in content.rows)


def snapshot_of(content: Content) -> Snapshot | None:
    """The snapshot, if there is one."""
    return None if content.snapshot is None else snapshot_from_bytes(content.snapshot.body)


def set_aside(path: Path) -> Path:
    """Copy the file, with its write-ahead log, to the first free `.damaged-N` name."""
    for number in range(1, MAX_SET_ASIDE):
        kept = path.with_name(f"{path.name}.damaged-{number}")
        if not kept.exists():
            break
    else:
        raise JournalUnusable(f"{path.parent} holds {MAX_SET_ASIDE} damaged journals", "remove some")
    wal, kept_wal = path.with_name(path.name + "-wal"), kept.with_name(kept.name + "-wal")
    try:
        shutil.copyfile(path, kept)
        if wal.exists():
            shutil.copyfile(wal, kept_wal)
    except OSError:
        for partial in (kept, kept_wal):  # half a copy helps nobody, and on a full disk it takes the last room
            partial.unlink(missing_ok=True)
        raise
    return kept


def damage(content: Content, kept: Path | None, reason: str) -> Damage:
    """What to say about a damaged file."""
    last, count = content.last[0], content.rows_lost
    lost = f"at least {count} entries are lost" if count else "how many entries are lost is unknown"
    where = f"the damaged file is kept as {kept}" if kept else "there is no room to keep the damaged file"
    sentence = f"journal {reason}: recovered to the last whole record, entry {last}; {lost}; {where}"
    return Damage(last, count or None, sentence, str(kept) if kept else "")


def _whole_prefix(found: Iterator[tuple[int, bytes, bytes]], since: int, chain: bytes) -> tuple[list[Row], str]:
    rows: list[Row] = []
    expected = since + 1
    for seq, body, stored in found:
        if seq != expected:
            return rows, f"lacks entry {expected}"
        if not isinstance(body, bytes):
            return rows, f"entry {seq} is not whole"
        chain = next_chain(chain, seq, body)
        if chain != stored:
            return rows, f"entry {seq} is not as it was written"
        try:
            entry_from_bytes(body)
        except NotWhole:
            return rows, f"entry {seq} is not whole"
        rows.append(Row(seq, body, chain))
        expected += 1
    return rows, ""


def _last_whole(found: Iterator[tuple[int, bytes, bytes, bytes]]) -> SnapshotRow | None:
    for seq, body, chain, digest in found:
        if not (isinstance(body, bytes) and isinstance(chain, bytes)):
            continue  # a damaged page can show any type in any column
        if hashlib.sha256(body + chain).digest() == digest and _is_snapshot_of(seq, body):
            return SnapshotRow(seq, body, chain)
    return None


def _is_entry_of(seq: int, body: object) -> bool:
    try:
        return isinstance(body, bytes) and entry_from_bytes(body).seq == seq
    except NotWhole:
        return False


def _is_snapshot_of(seq: int, body: bytes) -> bool:
    try:
        return snapshot_from_bytes(body).seq == seq
    except NotWhole:
        return False


def _job_digest(job: str) -> str:
    return hashlib.sha256(b"journal of job " + job.encode()).hexdigest()


def _until_error(db: sqlite3.Connection, query: str) -> Iterator[tuple]:
    try:
        yield from db.execute(query)
    except DAMAGE:
        return


def _companions(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
