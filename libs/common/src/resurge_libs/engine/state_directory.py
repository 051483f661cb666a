"""The directory that holds a job's durable state: it must be local, writable, and used by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from resurge_libs.engine.ports import JournalUnusable

LOCK_NAME = "journal.lock"
LOCK_POLL_S = 0.01
WRITABLE = "give a writable directory on a local disk"
REMOTE_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "lustre", "cifs", "smb3", "smbfs", "beegfs", "gpfs", "ceph", "glusterfs", "afs", "ncpfs"}
)
"""Locks and shared memory of a database are not reliable there; also as `fuse.<name>`."""


class StateDirectory:
    """One locked state directory. The lock ends with the process, however it ends."""

    def __init__(self, path: Path, wait_for_lock_s: float = 0.0, mounts: str = "/proc/mounts") -> None:
        """Raises JournalUnusable, naming the directory and what would be right."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise JournalUnusable(_cannot(path, "made", error), WRITABLE) from error
        kind = file_system_of(path, mounts)
        if kind.removeprefix("fuse.") in REMOTE_FILE_SYSTEMS or kind == "fuse.sshfs":
            raise JournalUnusable(
                f"state directory {path} is on {kind}, where a journal is not safe", "give a directory on a local disk"
            )
        self._descriptor = self._lock(wait_for_lock_s)

    def _lock(self, wait_for_lock_s: float) -> int:
        try:
            descriptor = os.open(self.path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalUnusable(_cannot(self.path, "written", error), WRITABLE) from error
        deadline = time.monotonic() + wait_for_lock_s
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
                os.close(descriptor)
                raise JournalUnusable(
                    f"state directory {self.path} is in use by process {holder}",
                    "end that process, or give another directory",
                )
            time.sleep(LOCK_POLL_S)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:  # a full disk: the lock holds, only the pid is not readable
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        return descriptor

    def release(self) -> None:
        """Let another process in."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def file_system_of(path: Path, mounts: str = "/proc/mounts") -> str:
    """The type of the file system that holds the path; empty where the mount table cannot be read."""
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    real, best, kind = os.path.realpath(path), "", ""
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].encode().decode("unicode_escape")  # spaces are written \040
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _cannot(path: Path, what: str, error: OSError) -> str:
    return f"state directory {path} cannot be {what}: {error.strerror}"
