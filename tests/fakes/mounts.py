"""File systems of a test's own: small, read-only, and ones that hang for as long as the test wants. Linux, root.

A test that may not mount, or finds no FUSE, is skipped with the reason.
"""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

import pytest

MS_RDONLY, MS_REMOUNT, MNT_DETACH = 1, 32, 2
LIBC = ctypes.CDLL(None, use_errno=True)


class Mounts:
    """What was mounted; `end` takes all of it away."""

    def __init__(self) -> None:
        self._paths: list[Path] = []
        self._hanging: dict[Path, int] = {}

    def mount(self, path: Path, options: str = "") -> None:
        """A file system in memory at the path."""
        self._mount(path, "tmpfs", options)
        self._paths.append(path)

    def remount(self, path: Path, options: str = "", flags: int = 0) -> None:
        """The same one with other options."""
        self._call(path, "tmpfs", options, flags | MS_REMOUNT)

    def hang(self, path: Path) -> None:
        """From now on every look into the path hangs, until `answer`: nobody serves what is mounted there."""
        try:
            descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            pytest.skip(f"no FUSE here: {error}")
        self._hanging[path] = descriptor
        self._mount(path, "fuse", f"fd={descriptor},rootmode={stat.S_IFDIR:o},user_id=0,group_id=0")

    @property
    def hanging(self) -> tuple[Path, ...]:
        """Into these no test may look."""
        return tuple(self._hanging)

    def answer(self) -> None:
        """What hangs fails, and what was there before is there again."""
        for path, descriptor in reversed(self._hanging.items()):
            LIBC.umount2(os.fsencode(path), MNT_DETACH)
            os.close(descriptor)
        self._hanging.clear()

    def end(self) -> None:
        """Nothing is mounted any more."""
        self.answer()
        for path in reversed(self._paths):
            LIBC.umount2(os.fsencode(path), MNT_DETACH)
        self._paths.clear()

    def _mount(self, path: Path, kind: str, options: str) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._call(path, kind, options, 0)

    def _call(self, path: Path, kind: str, options: str, flags: int) -> None:
        if LIBC.mount(kind.encode(), os.fsencode(path), kind.encode(), flags, options.encode()) != 0:
            pytest.skip(f"{kind} cannot be mounted here: {os.strerror(ctypes.get_errno())}")
