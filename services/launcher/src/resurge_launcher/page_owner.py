"""Who owns a directory of pages: whoever holds the lock in it, which the kernel frees when a launcher ends.

Only its owner, or one that takes the lock of an owner that has ended, removes a directory. So a launcher that was
killed leaves its pages to any later one of its user, and no launcher removes those of another that lives, be it of
another container under the same path. What an older release left has no lock; only its own successor removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

OWNER = "owner"
LOCK_WAIT_S = 1.0
"""For one that is removing the directory already."""
POLL_S = 0.01
REMOVED_LIMIT = 256
"""So many directories are removed at one start of a launcher."""


@dataclass(frozen=True, slots=True)
class PageHome:
    """A directory of pages that is ours."""

    path: Path
    lock: int | None
    """None on a file system without locks."""

    def let_go(self) -> None:
        """It may be removed."""
        if self.lock is not None:
            os.close(self.lock)


def taken(home: Path) -> PageHome:
    """The directory, made empty and private, and ours; what an owner that has ended left there goes. Raises OSError."""
    if home.exists() or home.is_symlink():
        remove(home, LOCK_WAIT_S)
    # under another name first: it has its owner before anybody can find it
    fresh = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    lock = _locked_anew(fresh / OWNER)
    try:
        fresh.rename(home)
    except OSError:
        if lock is not None:
            os.close(lock)
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return PageHome(home, lock)


def remove(home: Path, wait_s: float = 0.0) -> None:
    """Remove a directory whose owner has ended, or that has none. Raises OSError where that cannot be."""
    try:
        _remove_owned(home, wait_s)
    except FileNotFoundError:
        shutil.rmtree(home)


def _remove_owned(home: Path, wait_s: float) -> None:
    """The same of one that has an owner; one that has none, any more or yet, raises FileNotFoundError."""
    if home.is_symlink() or home.stat().st_uid != os.getuid():
        raise OSError(f"{home} belongs to someone else")
    lock = os.open(home / OWNER, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        _lock(lock, wait_s)
        if _is_still(home / OWNER, lock):
            shutil.rmtree(home)
    finally:
        os.close(lock)


def sweep(folder: Path, prefix: str) -> int:
    """Remove the directories of this name whose owners have ended; how many those were. Never raises."""
    removed = 0
    with contextlib.suppress(OSError):
        for home in sorted(folder.glob(f"{prefix}*")):
            if removed == REMOVED_LIMIT:
                break
            with contextlib.suppress(OSError):  # its owner lives, or it has none, as while another one removes it
                _remove_owned(home, 0.0)
                removed += 1
    return removed


def _locked_anew(path: Path) -> int | None:
    """Its name says who owns the directory, so it gets it when it is locked."""
    unnamed = path.with_suffix(".new")
    lock = os.open(unnamed, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _lock(lock, 0.0)
        unnamed.rename(path)
    except OSError:
        os.close(lock)
        unnamed.unlink()
        return None
    return lock


def _lock(lock: int, wait_s: float) -> None:
    """Raises OSError where it is held for longer."""
    give_up_at = time.monotonic() + wait_s
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(POLL_S)


def _is_still(path: Path, lock: int) -> bool:
    """Whether the file that was locked is the one at that place: else another one is there by now, or none."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(lock))
    except FileNotFoundError:
        return False
