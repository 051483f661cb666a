"""The state directory of one control plane: claimed by one process, described in one small file.

Decides nothing about the job. Refuses a directory that cannot be written or that another process uses, before
anything is started; the kernel drops the claim when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from resurge_libs.hosting.usage import UsageError
from resurge_libs.rpc.records import CLAIM_NAME, CONTROL_NAME


@dataclass(frozen=True, slots=True)
class StateDir:
    """A claimed state directory; the claim lasts as long as the open lock file."""

    path: Path
    lock_fd: int

    def announce(self, endpoint: str, targets: tuple[str, ...]) -> None:
        """Write `control.json` in one step: who serves here, and where. Readers never see half of it."""
        body = {"pid": os.getpid(), "endpoint": endpoint, "targets": list(targets)}
        _write_atomically(self.path / CONTROL_NAME, json.dumps(body) + "\n")

    def release(self) -> None:
        """Take the announcement back and let go of the claim."""
        with contextlib.suppress(OSError):  # something else stands in its place
            (self.path / CONTROL_NAME).unlink(missing_ok=True)
        os.close(self.lock_fd)


def claim(path: Path) -> StateDir:
    """Claim the directory for this process, creating it. Raises UsageError naming what is wrong."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=path):
            pass
        lock_fd = os.open(path / CLAIM_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            "--state-dir", f"{path} cannot be written: {error.strerror}", "give a directory that this user can write"
        ) from error
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock_fd, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock_fd)
        raise UsageError(
            "--state-dir",
            f"{path} is in use by process {holder}",
            "end that process, or give another state directory",
        ) from None
    except OSError as error:
        os.close(lock_fd)
        raise UsageError(
            "--state-dir", f"{path} cannot be locked: {error.strerror}", "give a directory on a local file system"
        ) from error
    with contextlib.suppress(OSError):  # a full disk: the claim holds, only its holder is not readable
        os.ftruncate(lock_fd, 0)
        os.pwrite(lock_fd, f"{os.getpid()}\n".encode(), 0)
    return StateDir(path, lock_fd)


def _write_atomically(path: Path, text: str) -> None:
    # a rename within one directory is atomic; a reader after a power cut finds the old file or the new one
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
