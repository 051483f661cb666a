"""Reads a journal that another process has left, or may be writing still: takes no lock, changes not one byte.

SQLite itself writes beside a file whose write-ahead log it reads, so a copy is read, in a directory of its own. Decides
nothing; what is wrong with the file is said in the replay, and the file stays as it is.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path

from resurge_libs.engine import sqlite_file
from resurge_libs.engine.ports import Damage, JournalUnusable, Replay
from resurge_libs.engine.sqlite_file import Content
from resurge_libs.engine.sqlite_log import log_problem

COPIES_MAX = 5
"""A file that is written to while it is copied is copied again, so often at most."""

_Marks = tuple[tuple[int, int] | None, ...]


def left_behind(directory: Path) -> Replay:
    """All that the directory's journal holds. Raises JournalUnusable: none there, not readable, of another release."""
    path = directory / sqlite_file.FILE_NAME
    try:
        with tempfile.TemporaryDirectory(prefix="resurge-journal-") as folder:
            copy = Path(folder) / sqlite_file.FILE_NAME
            _copied(path, copy)
            return _read(path, copy)
    except FileNotFoundError:
        raise JournalUnusable(f"{directory} holds no journal ({sqlite_file.FILE_NAME})") from None
    except OSError as error:
        raise JournalUnusable(f"journal {path} cannot be read: {error.strerror}") from error
    except sqlite3.Error as error:
        raise JournalUnusable(f"journal {path} cannot be read: {error}") from error


def _copied(path: Path, copy: Path) -> None:
    """Copy the file and its log as they stood at one moment."""
    log, log_copy = _log_of(path), _log_of(copy)
    for _ in range(COPIES_MAX):
        before = _marks(path, log)
        shutil.copyfile(path, copy)
        log_copy.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):  # its writer has closed it
            shutil.copyfile(log, log_copy)
        if _marks(path, log) == before:
            return
    raise JournalUnusable(f"journal {path} is being written to: ask its control plane, or read it later")


def _marks(*paths: Path) -> _Marks:
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            status = path.stat()
            found.append((status.st_mtime_ns, status.st_size))
        except FileNotFoundError:
            found.append(None)
    return tuple(found)


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _read(path: Path, copy: Path) -> Replay:
    problem = log_problem(copy)  # before SQLite drops what is wrong at the end of a log
    try:
        with contextlib.closing(sqlite_file.connect(copy)) as db:
            sqlite_file.check_pages(db)
            sqlite_file.check_identity(path, db, sqlite_file.owner_of(copy) or "")
            content = sqlite_file.read(db)
    except sqlite_file.DAMAGE as error:
        if isinstance(error, sqlite3.Error) and not sqlite_file.is_damage(error):
            raise
        content = _salvaged(copy)
    problem = content.problem or problem
    entries, snapshot = sqlite_file.entries_of(content), sqlite_file.snapshot_of(content)
    if not problem:
        return Replay(snapshot, entries)
    last, lost = content.last[0], content.rows_lost or None
    sentence = f"journal {path} is damaged ({problem}): read to its last whole record, entry {last}"
    return Replay(snapshot, entries, Damage(last, lost, sentence))


def _salvaged(copy: Path) -> Content:
    try:
        return sqlite_file.salvage(copy)
    except sqlite_file.DAMAGE:
        return Content(None, (), "nothing of it can be read")
